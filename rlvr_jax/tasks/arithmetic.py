"""Small arithmetic with operand pairs held out, for small language models.

A pair (a, b) and its mirror (b, a) are in one split, and the pair of the worked example
in none: what the held-out split asks is nowhere answered in training.
"""

import dataclasses
import hashlib

from rlvr_jax.tasks.records import Task

PREFIX = "arithmetic:"
SPLITS = ("train", "heldout")


@dataclasses.dataclass(frozen=True)
class Operation:
    """One kind of exercise.

    Attributes:
        sign: between the operands; "x" is multiplication.
        low, high: both operands are in [low, high].
        example: the operand pair that the prompt shows with its answer.
    """

    sign: str
    low: int
    high: int
    example: tuple[int, int]

    def result(self, a: int, b: int) -> int:
        """The right answer."""
        return a * b if self.sign == "x" else a + b


OPERATIONS = {
    "one_digit_addition": Operation("+", 1, 9, (3, 4)),
    "two_digit_addition": Operation("+", 10, 99, (23, 45)),
    "one_digit_multiplication": Operation("x", 2, 9, (3, 4)),
}


def arithmetic_tasks(name: str) -> list[Task]:
    """All tasks of one operation and split, in a mixed order that is always the same.

    A prompt is one worked example as an earlier turn, whose answer repeats the exercise
    ("23 + 45 = 68"), and the exercise, such as "59 + 63 =". A quarter of the operand
    pairs is held out.

    Args:
        name: "OPERATION:SPLIT", of `OPERATIONS` and `SPLITS`.

    Returns:
        Tasks of kind "arithmetic"; `metadata["operands"]` is (a, b).

    Raises:
        ValueError: there is no such operation or split.

    Example:
        >>> task = arithmetic_tasks("one_digit_multiplication:heldout")[0]
        >>> a, b = task.metadata["operands"]
        >>> task.prompt[-1]["content"] == f"{a} x {b} =" and task.answer == str(a * b)
        True
    """
    kind, _, split = name.partition(":")
    if kind not in OPERATIONS or split not in SPLITS:
        raise ValueError(
            f"{PREFIX} wanted OPERATION:SPLIT with one of {', '.join(OPERATIONS)} and"
            f" one of {', '.join(SPLITS)}; got {name!r}"
        )
    operation = OPERATIONS[kind]
    operands = range(operation.low, operation.high + 1)
    pairs = [(a, b) for a in operands for b in operands if a <= b]
    pairs.remove(operation.example)
    pairs.sort(key=lambda pair: _digest("split", *pair))
    quarter = len(pairs) // 4
    pairs = pairs[:quarter] if split == "heldout" else pairs[quarter:]
    ordered = sorted(
        {(a, b) for a, b in pairs} | {(b, a) for a, b in pairs},
        key=lambda pair: _digest("order", *pair),
    )
    return [_task(kind, pair) for pair in ordered]


def _task(kind: str, pair: tuple[int, int]) -> Task:
    operation = OPERATIONS[kind]
    question, example = (_question(operation, p) for p in (pair, operation.example))
    answer = operation.result(*operation.example)
    prompt = [
        {"role": "user", "content": example},
        {"role": "assistant", "content": f"{example} {answer}"},
        {"role": "user", "content": question},
    ]
    a, b = pair
    return Task(
        id=f"{PREFIX}{kind}/{a},{b}",
        kind="arithmetic",
        prompt=prompt,
        answer=str(operation.result(a, b)),
        metadata={"operands": pair},
    )


def _question(operation: Operation, pair: tuple[int, int]) -> str:
    return f"{pair[0]} {operation.sign} {pair[1]} ="


def _digest(purpose: str, a: int, b: int) -> int:
    digest = hashlib.sha256(f"{purpose}/{a}/{b}".encode()).digest()
    return int.from_bytes(digest[:8], "big")
