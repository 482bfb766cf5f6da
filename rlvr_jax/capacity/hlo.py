"""Compiled programs as text -> computations, and how often each of them runs."""

import dataclasses
import functools
import math
import re
from collections.abc import Callable

BYTES = {
    "pred": 1,
    "s8": 1,
    "u8": 1,
    "s16": 2,
    "u16": 2,
    "f16": 2,
    "bf16": 2,
    "s32": 4,
    "u32": 4,
    "f32": 4,
    "s64": 8,
    "u64": 8,
    "f64": 8,
}
# Loops that count up to something known have no more turns than this.
MOST_TURNS = 10_000_000

_ARRAY = re.compile(r"\b([a-z]+\d*)\[([\d,]*)\]")
_HEAD = re.compile(r"^(ENTRY )?%?([^\s(]+) \(.*\{\s*$")
_LINE = re.compile(r"^\s+(ROOT )?%?([^\s=]+) = (.*)$")
_CALLS = re.compile(
    r"\b(calls|to_apply|body|condition|branch_computations|called_computations)="
    r"(\{[^}]*\}|%?[\w.\-]+)"
)


@dataclasses.dataclass(frozen=True)
class Instruction:
    """One line of a computation.

    Attributes:
        name: without the percent sign.
        opcode: for example `all-gather-start`.
        result: the text of its type.
        operands: names, or the value of a constant or the number of a parameter.
        attributes: the text behind the operands.
        is_root: it is the computation's result.
    """

    name: str
    opcode: str
    result: str
    operands: tuple[str, ...]
    attributes: str
    is_root: bool

    @property
    def arrays(self) -> list[int]:
        """Sizes of the arrays of its result, bytes."""
        return array_sizes(self.result)

    def called(self, kind: str) -> list[str]:
        """Names of the computations it calls as `calls`, `body`, `condition`, ..."""
        found = []
        for name, value in _CALLS.findall(self.attributes):
            if name == kind:
                found += re.findall(r"[^\s{},%]+", value)
        return found


@dataclasses.dataclass(frozen=True)
class Module:
    """A compiled program: computations by name, instructions in order."""

    computations: dict[str, list[Instruction]]
    entry: str

    def instruction(self, computation: str, name: str) -> Instruction:
        """The instruction of that name."""
        return next(i for i in self.computations[computation] if i.name == name)


def array_sizes(text: str) -> list[int]:
    """Bytes of each array in the text of a type; tokens and unknown types are none."""
    return [
        math.prod(int(size) for size in shape.split(",") if size) * BYTES[kind]
        for kind, shape in _ARRAY.findall(text)
        if kind in BYTES
    ]


def parse(text: str) -> Module:
    """The module of `compiled.as_text()`.

    Raises:
        ValueError: the text has no entry computation.
    """
    computations: dict[str, list[Instruction]] = {}
    entry, current = None, None
    for line in text.splitlines():
        head = _HEAD.match(line)
        if head and not line.startswith(" "):
            current = computations.setdefault(head[2], [])
            entry = head[2] if head[1] else entry
        elif current is not None and (match := _LINE.match(line)):
            current.append(_instruction(match[2], match[3], bool(match[1])))
    if entry is None:
        raise ValueError("text must be a compiled module with an ENTRY computation")
    return Module(computations, entry)


def _instruction(name: str, text: str, is_root: bool) -> Instruction:
    end = _closing(text, 0) + 1 if text.startswith("(") else text.index(" ")
    result, rest = text[:end], text[end:].lstrip()
    start = rest.index("(")
    stop = _closing(rest, start)
    inside = re.sub(r"/\*.*?\*/", "", rest[start + 1 : stop])
    operands = tuple(part.strip().lstrip("%") for part in _split(inside))
    return Instruction(
        name=name,
        opcode=rest[:start],
        result=result,
        operands=tuple(part.split(" ")[-1].lstrip("%") for part in operands if part),
        attributes=rest[stop + 1 :],
        is_root=is_root,
    )


def _closing(text: str, start: int) -> int:
    """Index of the parenthesis that closes the one at `start`."""
    depth = 0
    for match in re.compile(r"[()]").finditer(text, start):
        depth += 1 if match[0] == "(" else -1
        if depth == 0:
            return match.start()
    return len(text)


def _split(text: str) -> list[str]:
    """Parts between the commas outside brackets."""
    parts, depth, last = [], 0, 0
    for index, letter in enumerate(text):
        if letter in "([{":
            depth += 1
        elif letter in ")]}":
            depth -= 1
        elif letter == "," and depth == 0:
            parts.append(text[last:index])
            last = index + 1
    return [*parts, text[last:]]


def executions(module: Module) -> tuple[dict[str, int], list[str]]:
    """How often each computation runs in one run of the program.

    A loop whose number of turns follows from the text counts as that many, any other
    as one; both branches of a condition count.

    Args:
        module: from `parse`.

    Returns:
        (times by computation, names of the loops whose number is not known).
    """
    times: dict[str, int] = {}
    unknown: list[str] = []

    def visit(name: str, count: int) -> None:
        times[name] = times.get(name, 0) + count
        for instruction in module.computations.get(name, ()):
            if instruction.opcode == "while":
                turns = _turns(module, name, instruction)
                if turns is None:
                    unknown.append(instruction.name)
                for body in instruction.called("body"):
                    visit(body, count * (1 if turns is None else turns))
            else:
                for kind in ("calls", "branch_computations", "called_computations"):
                    for called in instruction.called(kind):
                        visit(called, count)
                if instruction.opcode == "call":
                    for called in instruction.called("to_apply"):
                        visit(called, count)

    visit(module.entry, 1)
    return times, unknown


def _turns(module: Module, place: str, loop: Instruction) -> int | None:
    """Turns of a loop, None if they depend on data."""
    said = re.search(r'"known_trip_count":\{"n":"(\d+)"\}', loop.attributes)
    if said:
        return int(said[1])
    (condition,), (body,) = loop.called("condition"), loop.called("body")
    outer = _scalars(module, place, lambda index: None)

    def start(index: int) -> int | None:
        source = _resolve(module, place, loop.operands[0])
        if source is None or source.opcode != "tuple":
            return None
        return outer(source.operands[index])

    counters = _counters(module, condition)
    state = {index: start(index) for index in counters}
    for turn in range(MOST_TURNS):
        go_on = _scalars(module, condition, state.get)(_root(module, condition).name)
        if go_on is None:
            return None
        if not go_on:
            return turn
        step = _scalars(module, body, functools.partial(_element, state, start))
        root = _root(module, body)
        if root.opcode != "tuple":
            return None
        changed = {index: step(root.operands[index]) for index in counters}
        if changed == state:
            return None
        rate = _rate(module, condition, state, changed)
        if rate is not None:
            return turn + rate
        state = changed
    return None


def _element(
    state: dict[int, int | None], start: Callable[[int], int | None], index: int
) -> int | None:
    return state[index] if index in state else start(index)


def _rate(
    module: Module,
    condition: str,
    before: dict[int, int | None],
    after: dict[int, int | None],
) -> int | None:
    """Turns that are left of `for (i = before; i < limit; i += step)`, else None."""
    root = _root(module, condition)
    moving = [index for index in before if before[index] != after[index]]
    if root.opcode != "compare" or "direction=LT" not in root.attributes:
        return None
    if len(moving) != 1 or before[moving[0]] is None or after[moving[0]] is None:
        return None
    limit = _scalars(module, condition, before.get)(root.operands[1])
    step = after[moving[0]] - before[moving[0]]
    if limit is None or step <= 0:
        return None
    return max(0, -(-(limit - before[moving[0]]) // step))


def _root(module: Module, computation: str) -> Instruction:
    return next(i for i in module.computations[computation] if i.is_root)


def _counters(module: Module, condition: str) -> list[int]:
    """Elements of the loop's state that its condition reads."""
    return sorted(
        int(re.search(r"index=(\d+)", instruction.attributes)[1])
        for instruction in module.computations[condition]
        if instruction.opcode == "get-tuple-element"
    )


def _resolve(module: Module, place: str, name: str) -> Instruction | None:
    """The instruction behind copies."""
    instruction = module.instruction(place, name)
    while instruction.opcode in ("copy", "bitcast", "opt-barrier"):
        instruction = module.instruction(place, instruction.operands[0])
    return instruction


def _scalars(
    module: Module, place: str, element: Callable[[int], int | None]
) -> Callable[[str], int | None]:
    """A function from an instruction's name to its whole number, None if unknown.

    Args:
        module: the program.
        place: the computation, of one parameter, a tuple.
        element: the number of an element of that tuple.
    """

    def value(name: str) -> int | None:
        found = [i for i in module.computations[place] if i.name == name]
        if not found:
            return None
        instruction = found[0]
        opcode, operands = instruction.opcode, instruction.operands
        if opcode == "constant":
            return _number(operands[0])
        if opcode == "get-tuple-element":
            source = _resolve(module, place, operands[0])
            index = int(re.search(r"index=(\d+)", instruction.attributes)[1])
            if source.opcode == "parameter":
                return element(index)
            return value(source.operands[index]) if source.opcode == "tuple" else None
        if opcode in ("copy", "bitcast", "convert", "copy-done", "copy-start"):
            return value(operands[0])
        if opcode == "fusion":
            (inner,) = instruction.called("calls")
            return _fused(module, inner, [value(operand) for operand in operands])
        return _apply(instruction, [value(operand) for operand in operands])

    return value


def _fused(module: Module, place: str, arguments: list[int | None]) -> int | None:
    """The whole number that a fusion of scalars computes."""
    by_name = {i.name: i for i in module.computations[place]}

    def value(name: str) -> int | None:
        instruction = by_name[name]
        if instruction.opcode == "parameter":
            return arguments[int(instruction.operands[0])]
        if instruction.opcode == "constant":
            return _number(instruction.operands[0])
        inputs = [value(operand) for operand in instruction.operands]
        return (
            inputs[0]
            if instruction.opcode == "bitcast"
            else _apply(instruction, inputs)
        )

    return value(_root(module, place).name)


def _apply(instruction: Instruction, inputs: list[int | None]) -> int | None:
    if None in inputs or len(inputs) != 2:
        return None
    left, right = inputs
    if instruction.opcode == "compare":
        direction = re.search(r"direction=(\w+)", instruction.attributes)[1]
        return {
            "LT": left < right,
            "LE": left <= right,
            "GT": left > right,
            "GE": left >= right,
            "EQ": left == right,
            "NE": left != right,
        }[direction]
    operations = {"add": left + right, "subtract": left - right}
    return operations.get(instruction.opcode)


def _number(text: str) -> int | None:
    return int(text) if re.fullmatch(r"-?\d+", text) else None
