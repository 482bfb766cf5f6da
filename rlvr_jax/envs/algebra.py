"""math-verify at a distance: caps first, then a worker that may be killed."""

import importlib.util
import re

from rlvr_jax.envs.workers import Pool, Worker, WorkerLost, WorkerOvertime

MAX_CHARACTERS = 400
MAX_DEPTH = 12
MAX_POWERS = 2
MAX_QUESTIONS = 64
# A busy host makes CPU time slow: this bound is only for what hangs without using any.
_WALL_PER_CPU = 10.0
_WALL_EXTRA = 2.0


class Unchecked(Exception):
    """No verdict: `status` is "timeout", "memory" or "infrastructure"."""

    def __init__(self, status: str) -> None:
        super().__init__(status)
        self.status = status


class Algebra:
    """Workers that say whether two LaTeX texts are equal.

    Args:
        workers: processes, started when first needed.
        seconds: CPU time of all questions about one answer.

    Raises:
        ValueError: math-verify is not installed.
    """

    def __init__(self, *, workers: int, seconds: float) -> None:
        if not seconds > 0:
            raise ValueError(f"seconds must be above 0, got {seconds}")
        if importlib.util.find_spec("math_verify") is None:
            raise ValueError(
                "the math verifier needs the package math-verify:"
                " `pip install math-verify`"
            )
        self.seconds = seconds
        self.pool = Pool(
            [Worker("rlvr_jax.envs.algebra_worker") for _ in range(workers)]
        )

    def questions(self) -> "Questions":
        """The questions about one answer, which share a limit of time."""
        return Questions(self)

    def close(self) -> None:
        """Ends the workers; safe to call twice."""
        self.pool.close()


class Questions:
    """Asks about one answer: called with (gold, answer), says whether they are equal.

    Raises:
        Unchecked: the time is used up, or the worker was lost twice.
    """

    def __init__(self, algebra: Algebra) -> None:
        self._algebra, self._left, self._count = algebra, algebra.seconds, 0

    def __call__(self, gold: str, answer: str) -> bool:
        self._count += 1
        if self._count > MAX_QUESTIONS or excessive(gold) or excessive(answer):
            return False
        if self._left <= 0:
            raise Unchecked("timeout")
        request = {"gold": gold, "answer": answer, "seconds": self._left}
        reply = self._ask(request)
        self._left -= reply.get("seconds", 0.0)
        if reply["outcome"] in ("timeout", "memory"):
            raise Unchecked(reply["outcome"])
        return reply["outcome"] == "equal"

    def _ask(self, request):
        limit = _WALL_PER_CPU * request["seconds"] + _WALL_EXTRA
        with self._algebra.pool.lend() as worker:
            for _ in range(2):
                try:
                    reply = worker.ask(request, seconds=limit)
                except WorkerOvertime:
                    return {"outcome": "timeout"}
                except WorkerLost:
                    continue
                if reply.get("outcome") != "died":
                    return reply
        raise Unchecked("infrastructure")


_MARKS = re.compile(r"\^\s*\{|[{}()\[\]]")
_BARE_TOWER = re.compile(rf"(?:\^\s*\w\s*){{{MAX_POWERS + 1}}}")


def excessive(text: str) -> bool:
    """Whether a text is too long or too deep to be worth a look.

    Args:
        text: LaTeX; at most MAX_CHARACTERS characters, MAX_DEPTH open brackets, and
            MAX_POWERS exponents within exponents are not excessive.
    """
    if len(text) > MAX_CHARACTERS or _BARE_TOWER.search(text):
        return True
    powers: list[int] = []
    for match in _MARKS.finditer(text):
        mark = match.group()
        if mark[-1] in "{([":
            powers.append((powers[-1] if powers else 0) + (mark[0] == "^"))
            if len(powers) > MAX_DEPTH or powers[-1] > MAX_POWERS:
                return True
        elif powers:
            powers.pop()
    return False
