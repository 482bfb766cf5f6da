"""Rows with a final answer: numbers, expressions and letters."""

import hashlib
import re

from rlvr_jax.tasks.formats import columns
from rlvr_jax.tasks.records import Task

HASHES_INSTRUCTION = (
    "Solve the problem step by step. End with a line of the form #### N, where N is"
    " the final number."
)
BOX_INSTRUCTION = (
    "Solve the problem step by step. Put the final answer in \\boxed{}, alone."
)
CHOICE_INSTRUCTION = (
    "Think step by step. Put the letter of the right choice in \\boxed{}, alone."
)
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
WRONG_COLUMNS = tuple(f"Incorrect Answer {number}" for number in (1, 2, 3))

# \boxed also takes one token without braces: \boxed 2.
_BOX = re.compile(r"\\(?:boxed|fbox)\s*(?:\{|([^\s{}\\]))")
_BRACE = re.compile(r"\\[{}\\]|[{}]")  # an escaped one is text


def gsm8k_task(row: dict, name: str) -> Task:
    """A grade-school problem; the gold number follows the last "####"."""
    question, solution = columns.text(row, "question"), columns.text(row, "answer")
    _, mark, gold = solution.rpartition("####")
    gold = gold.strip()
    if not mark or not re.search(r"\d", gold):
        raise ValueError("column answer: wanted a text that ends with '#### NUMBER'")
    return Task(
        id=name,
        kind="math",
        prompt=f"{question.strip()}\n\n{HASHES_INSTRUCTION}",
        answer=gold,
        metadata={
            **columns.others(row, ("question", "answer")),
            "solution": solution,
        },
    )


def svamp_task(row: dict, name: str) -> Task:
    """A grade-school problem in two parts, with a number as gold."""
    body = columns.text(row, "Body").strip()
    # Some bodies lack their last full stop.
    body += "" if body.endswith((".", "?", "!", ",")) else "."
    return Task(
        id=name,
        kind="math",
        prompt=f"{body} {columns.text(row, 'Question').strip()}\n\n"
        f"{HASHES_INSTRUCTION}",
        answer=columns.scalar_text(row, "Answer"),
        metadata=columns.others(row, ("Body", "Question", "Answer")),
    )


def math_task(row: dict, name: str) -> Task:
    """A problem with a worked solution; the gold is in its last balanced box.

    A column `answer` comes before the solution's box. All other columns, such as level
    and type, are metadata.
    """
    problem = columns.text(row, "problem")
    if row.get("answer") not in (None, ""):
        gold = columns.scalar_text(row, "answer")
    elif "solution" in row:
        gold = last_box(columns.text(row, "solution"))
        if not gold:
            raise ValueError("column solution: wanted a text with \\boxed{ANSWER}")
    else:
        raise ValueError("column answer: wanted a text or a number, got None")
    return _problem(row, name, problem, gold, used=("problem", "answer"))


def aime_task(row: dict, name: str) -> Task:
    """A competition problem whose answer is an integer from 0 to 999.

    Zero padding is dropped: 073 is 73.
    """
    column = next(c for c in ("answer", "Answer") if c in row)
    gold = columns.scalar_text(row, column)
    if not re.fullmatch(r"0*\d{1,3}", gold, re.ASCII):
        raise ValueError(
            f"column {column}: wanted an integer from 0 to 999, got {gold!r:.80}; the"
            " format 'math' takes other answers"
        )
    problem = columns.first_text(row, "problem", "Problem", "question")
    used = ("problem", "Problem", "question", column)
    return _problem(row, name, problem, str(int(gold)), used=used)


def polaris_task(row: dict, name: str) -> Task:
    """A problem with the share of attempts that solved it, "1/8" to "7/8".

    `metadata["difficulty"]` is that share as a number: higher is easier.
    """
    share = columns.solved_share(row["difficulty"])
    problem, gold = columns.text(row, "problem"), columns.scalar_text(row, "answer")
    task = _problem(row, name, problem, gold, used=("problem", "answer"))
    task.metadata["difficulty"] = share
    return task


def _problem(row, name, problem, gold, *, used):
    return Task(
        id=name,
        kind="math",
        prompt=f"{problem.strip()}\n\n{BOX_INSTRUCTION}",
        answer=gold,
        metadata=columns.others(row, used),
    )


def gpqa_task(row: dict, name: str) -> Task:
    """A question with one right and three wrong answers in columns of their own.

    The order of the choices depends on their texts and the question alone, so that it
    is the same in every run; it says nothing about which one is right.
    """
    question = columns.text(row, "Question")
    right = columns.text(row, "Correct Answer").strip()
    choices = [right, *(columns.text(row, c).strip() for c in WRONG_COLUMNS)]
    choices.sort(key=lambda choice: _digest(f"{question}\n{choice}"))
    used = ("Question", "Correct Answer", *WRONG_COLUMNS)
    return _choice(row, name, question, choices, choices.index(right), used=used)


def choices_task(row: dict, name: str) -> Task:
    """A question with a list of choices, kept in its order.

    The right one is named by a letter or by its index, counted from 0.
    """
    column = next(c for c in ("choices", "options") if c in row)
    choices, gold = row[column], row["answer"]
    if not isinstance(choices, list) or not all(isinstance(c, str) for c in choices):
        raise ValueError(f"column {column}: wanted a list of texts")
    if isinstance(gold, str) and len(gold) == 1 and gold in LETTERS:
        gold = LETTERS.index(gold)
    if not isinstance(gold, int) or not 0 <= gold < len(choices):
        raise ValueError(
            f"column answer: wanted a letter or an index of one of {len(choices)}"
            f" choices, got {row['answer']!r:.80}"
        )
    question = columns.text(row, "question")
    used = ("question", column, "answer")
    return _choice(row, name, question, choices, gold, used=used)


def _choice(row, name, question, choices, index, *, used):
    """A task whose answer is the letter of `choices[index]`."""
    if not 2 <= len(choices) <= len(LETTERS) or len(set(choices)) < len(choices):
        raise ValueError(
            f"wanted 2 to {len(LETTERS)} choices, all different, got {choices!r:.200}"
        )
    listed = "\n".join(
        f"{letter}) {choice.strip()}"
        for letter, choice in zip(LETTERS, choices, strict=False)
    )
    return Task(
        id=name,
        kind="math",
        prompt=f"{question.strip()}\n\n{listed}\n\n{CHOICE_INSTRUCTION}",
        answer=LETTERS[index],
        metadata={**columns.others(row, used), "choices": list(choices)},
    )


def _digest(source: str) -> str:
    return hashlib.sha256(source.encode("utf-8", "surrogatepass")).hexdigest()


def last_box(text: str) -> str:
    r"""The content of the last balanced \boxed{} or \fbox{}, "" if there is none.

    >>> last_box(r"so \boxed{1}, then \boxed{\frac{1}{2}} and \boxed{3")
    '\\frac{1}{2}'
    """
    found, position = "", 0
    while match := _BOX.search(text, position):
        position = match.end()
        if match.group(1):
            found = match.group(1)
            continue
        end = _closing(text, position)
        if end is not None:
            found, position = text[position:end].strip(), end
    # A box in a box marks the same answer twice.
    return last_box(found) or found if _BOX.match(found) else found


def _closing(text: str, start: int) -> int | None:
    """Where the brace that opened just before `start` closes."""
    depth = 1
    for brace in _BRACE.finditer(text, start):
        depth += {"{": 1, "}": -1}.get(brace.group(), 0)
        if not depth:
            return brace.start()
    return None
