"""Verifier of mathematical answers: exact rules, then math-verify at a distance."""

from collections.abc import Sequence

from rlvr_jax.envs.algebra import Algebra, Unchecked
from rlvr_jax.envs.answers import MAX_CHARACTERS, Undecided, same, undecided
from rlvr_jax.envs.marking import final_answer, gold_answer
from rlvr_jax.envs.verdict import Verdict, unknown
from rlvr_jax.envs.verifier import Verifier
from rlvr_jax.tasks.records import Task

WRONG_FEEDBACK = (
    "Your answer is wrong. Reflect on your previous answer and try something else."
)
# By the mark that the prompt asks for.
NO_ANSWER_FEEDBACK = {
    "\\boxed": "No final answer was found. Put it in \\boxed{}.",
    "####": 'No final answer was found. Write it after "####".',
    "<answer>": "No final answer was found. Put it in <answer></answer>.",
}
SLOW_FEEDBACK = "Your answer could not be checked in time. Simplify it."


class MathVerifier(Verifier):
    r"""Compares the final answer of a response with the task's answer.

    The answer of a response stands in the last complete \boxed{} (or \fbox{}), in the
    last <answer> tag, or after the last "####": of those present, the one that ends
    last. Exact rules come first, in the calling thread:

    - Numbers are integers, fractions (3/4, \frac{3}{4}, 1\frac{3}{4}), decimals and
      powers of ten, with thousands separators, $, a sign, a final period, a percent
      sign or a unit, and are compared as fractions: 1234.0 is 1,234 and 0.333 is not
      1/3. A percentage equals its number of hundredths (50% is 1/2) and, where only
      one side has the sign, also the bare number (50% is 50). Two known units that
      differ make two numbers differ.
    - One capital letter is a choice: B, (B), (b), "B. because".
    - Tuples, intervals, matrices and ratios are compared item by item, with their
      brackets; sets, bare lists and unions in any order.
    - Words are compared without case, spaces and punctuation; numerals with a base
      (12_5) by their digits.

    What remains is decided by math-verify in worker processes, see `equality` for how
    it is called. An answer that takes longer than `seconds` has status timeout and
    reward 0. A gold answer that cannot be read is matched only by the same text:
    `envs.self_check` finds those. A response without an answer is told the mark that
    the prompt names last, or the box if it names none.

    Args:
        workers, cache_size: see Verifier.
        feedback: what a wrong answer is told.
        max_characters: a longer response has status output_limit and reward 0.
        seconds: CPU time for the algebra of one answer, > 0.
    """

    def __init__(
        self,
        *,
        workers: int = 1,
        cache_size: int = 65536,
        feedback: str = WRONG_FEEDBACK,
        max_characters: int = 1 << 20,
        seconds: float = 0.25,
    ) -> None:
        super().__init__(workers=workers, cache_size=cache_size)
        self.feedback = feedback
        self.max_characters = max_characters
        self.algebra = Algebra(workers=workers, seconds=seconds)

    def verify(self, pairs: Sequence[tuple[Task, str]]) -> list[Verdict]:
        verdicts = [self._decided(task, response) for task, response in pairs]
        waiting = [index for index, known in enumerate(verdicts) if known is None]
        graded = super().verify([pairs[index] for index in waiting])
        for index, verdict in zip(waiting, graded, strict=True):
            verdicts[index] = verdict
        return verdicts

    def grade(self, task: Task, response: str) -> Verdict:
        return self._graded(task, response, self.algebra.questions())

    def _decided(self, task, response):
        """The verdict of the exact rules, None if they cannot tell."""
        try:
            return self._graded(task, response, undecided)
        except Undecided:
            return None

    def _graded(self, task, response, equal):
        gold = gold_answer(task.answer).strip()
        if not gold or len(gold) > MAX_CHARACTERS:
            return unknown("abstained", "This task has no answer to compare with.")
        if len(response) > self.max_characters:
            return Verdict(0.0, False, "Your answer is too long.", "output_limit", 0, 1)
        text = final_answer(response)
        if text is None:
            return Verdict(0.0, False, _no_answer(task), "no_answer", 0, 1)
        try:
            right = same(gold, text, equal)
        except Unchecked as error:
            if error.status == "infrastructure":
                return unknown("infrastructure")
            return Verdict(0.0, False, SLOW_FEEDBACK, error.status, 0, 1)
        if right:
            return Verdict(1.0, True, "Your answer is right.", "passed", 1, 1, True)
        return Verdict(0.0, False, self.feedback, "failed", 0, 1)

    def understands(self, task: Task) -> bool:
        """Whether the task's answer equals itself by its meaning, not by its text."""
        gold = gold_answer(task.answer).strip()
        if not gold or len(gold) > MAX_CHARACTERS:
            return False
        try:
            return same(gold, gold, self.algebra.questions(), verbatim=False)
        except Unchecked:
            return False

    def describe(self) -> dict:
        return {
            **super().describe(),
            "math_workers_replaced": self.algebra.pool.replaced(),
        }

    def close(self) -> None:
        super().close()
        self.algebra.close()


def _no_answer(task: Task) -> str:
    """Feedback on a response without an answer, in the words of the task's prompt."""
    prompt = task.prompt
    if not isinstance(prompt, str):
        prompt = "\n".join(message["content"] for message in prompt)
    return NO_ANSWER_FEEDBACK[max(NO_ANSWER_FEEDBACK, key=prompt.rfind)]
