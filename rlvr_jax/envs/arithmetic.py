"""Verifier of small arithmetic: the last number of a short answer."""

import re

from rlvr_jax.envs.verdict import Verdict, cut
from rlvr_jax.envs.verifier import Verifier
from rlvr_jax.tasks.records import Task

NO_NUMBER_FEEDBACK = "Answer with a number."
_NUMBER = re.compile(r"-?\d[\d,]*(?:\.\d+)?")
_SHOWN_CHARACTERS = 8


class ArithmeticVerifier(Verifier):
    """Compares the last number of a response with the task's answer.

    A small model rarely marks its answer, so the bare number counts: "42", "6 x 7 = 42"
    and "It is 42." all answer 42. Only the last number is read, so listing many does
    not help. Thousands separators are left out; "-42" and "42.0" are not 42.

    Feedback names the wrong number ("Not 36.") and never shows the answer.

    Args:
        workers, cache_size: see Verifier.
        max_characters: a longer response has status output_limit and reward 0.
    """

    def __init__(
        self, *, workers: int = 1, cache_size: int = 65536, max_characters: int = 4096
    ) -> None:
        super().__init__(workers=workers, cache_size=cache_size)
        self.max_characters = max_characters

    def grade(self, task: Task, response: str) -> Verdict:
        if len(response) > self.max_characters:
            return Verdict(0.0, False, "Your answer is too long.", "output_limit", 0, 1)
        numbers = _NUMBER.findall(response)
        if not numbers:
            return Verdict(0.0, False, NO_NUMBER_FEEDBACK, "no_answer", 0, 1)
        number = numbers[-1].replace(",", "")
        if number == task.answer:
            return Verdict(1.0, True, "Your answer is right.", "passed", 1, 1, True)
        feedback = f"Not {cut(number, _SHOWN_CHARACTERS)}."
        return Verdict(0.0, False, feedback, "failed", 0, 1)
