"""What a verifier says about one response."""

import dataclasses

STATUSES = (
    "passed",
    "failed",
    "no_answer",
    "error",
    "timeout",
    "memory",
    "output_limit",
    "infrastructure",
    "abstained",
)


@dataclasses.dataclass(frozen=True)
class Verdict:
    """The outcome of verifying one response.

    Args:
        reward: in [0, 1], or any finite number of a user's functions; None when nothing
            is known about the response (statuses "infrastructure" and "abstained"),
            which is not the same as 0.
        solved: every test passed, hidden ones included.
        feedback: what the policy may read; shows visible tests only. Letters that no
            text file can hold (lone surrogates) are escaped.
        status: one of STATUSES.
        passed: tests passed, out of `total`.
        total: tests expected.
        visible_passed: every visible test passed; also True when there is none and
            the program ran.
    """

    reward: float | None
    solved: bool
    feedback: str
    status: str
    passed: int
    total: int
    visible_passed: bool = False

    def __post_init__(self) -> None:
        if self.status not in STATUSES:
            raise ValueError(f"status must be one of {STATUSES}, got {self.status!r}")
        unknown = self.status in ("infrastructure", "abstained")
        if (self.reward is None) != unknown:
            raise ValueError(
                f"reward must be None exactly for infrastructure and abstained, got"
                f" {self.reward!r} with status {self.status!r}"
            )
        text = self.feedback.encode("utf-8", "backslashreplace").decode()
        object.__setattr__(self, "feedback", text)


def unknown(status: str, feedback: str = "", *, total: int = 0) -> Verdict:
    """A verdict that says nothing about the response: it must be left out."""
    return Verdict(None, False, feedback, status, 0, total)


def cut(text: str, limit: int) -> str:
    """`text`, with its middle replaced by ".." when longer than `limit` characters."""
    if len(text) <= limit:
        return text
    head = (limit - 1) // 2
    return f"{text[:head]}..{text[len(text) - (limit - 2 - head) :]}"
