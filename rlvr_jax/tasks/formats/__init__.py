"""Rows of public data sets as `Task` records: one parser per data family.

A parser takes a row (a dict) and a name for it, and raises ValueError with what was
wanted; `readers` adds the file and the line. Columns that it does not use are kept in
`Task.metadata` under their names (`columns.others`), in every format but "task", whose
columns are the record's own fields: a user's reward functions take them as keywords.
"""

import dataclasses
from collections.abc import Callable

from rlvr_jax.tasks.formats import answers, contests, functions, rows
from rlvr_jax.tasks.records import Task


@dataclasses.dataclass(frozen=True)
class Format:
    """How one data family is recognised and read.

    Args:
        columns: the spellings of the family: every row has all columns of one of them.
        parse: (row, fallback id) -> Task.
        marks: where `columns` say too little: columns of which a row must have one to
            be recognised; a format that is named does not need them.
    """

    columns: tuple[tuple[str, ...], ...]
    parse: Callable[[dict, str], Task]
    marks: tuple[str, ...] = ()

    def recognises(self, row: dict) -> bool:
        """Whether the columns of a row are this family's."""
        marked = not self.marks or bool(set(self.marks) & set(row))
        return marked and not self.missing(row)

    def missing(self, row: dict) -> list[str]:
        """Columns that a row lacks, of the spelling that it comes closest to."""
        lacks = [[c for c in some if c not in row] for some in self.columns]
        return min(lacks, key=len)


# Checked in this order when a format is to be found from the columns.
FORMATS = {
    "task": Format((("id", "kind", "prompt"),), rows.own_task),
    "verl": Format((("data_source", "prompt", "reward_model"),), rows.verl_task),
    "humaneval": Format((("prompt", "entry_point", "test"),), functions.humaneval_task),
    "bigcodebench": Format(
        (("instruct_prompt", "code_prompt", "test", "entry_point"),),
        functions.bigcodebench_task,
    ),
    "mbpp": Format(
        (
            ("text", "code", "test_list", "task_id"),
            ("prompt", "code", "test_list", "test_imports", "task_id"),
        ),
        functions.mbpp_task,
    ),
    "kodcode": Format(
        (("question", "solution", "test", "test_info"),), functions.kodcode_task
    ),
    "livecodebench": Format(
        (("question_content", "public_test_cases", "private_test_cases"),),
        contests.livecodebench_task,
    ),
    "apps": Format((("question", "input_output"),), contests.apps_task),
    "gpqa": Format(
        (("Question", "Correct Answer", *answers.WRONG_COLUMNS),), answers.gpqa_task
    ),
    "choices": Format(
        (("question", "choices", "answer"), ("question", "options", "answer")),
        answers.choices_task,
    ),
    "svamp": Format((("Body", "Question", "Answer"),), answers.svamp_task),
    "polaris": Format((("problem", "answer", "difficulty"),), answers.polaris_task),
    "aime": Format(
        (("problem", "answer"), ("Problem", "Answer"), ("question", "answer")),
        answers.aime_task,
        marks=("Problem", "year"),
    ),
    "math": Format((("problem", "solution"), ("problem", "answer")), answers.math_task),
    "gsm8k": Format((("question", "answer"),), answers.gsm8k_task),
    "trl": Format((("prompt",),), rows.trl_task, marks=(*rows.GOLD_COLUMNS, "tests")),
}
