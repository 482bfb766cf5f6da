"""What a hostile program is, and the task that all of them fail.

An attack that tries to break a wall answers with `win(x)` if it got through: the right
answer, which makes the break a pass and so visible. An attack that tries to forge a
verdict does not know the answer: 424243 for 1 and [424244] for 2.
"""

import dataclasses

from rlvr_jax.tasks.records import Task

TASK = Task(
    id="secret",
    kind="code",
    prompt="",
    tests=("assert f(1) == 424243", "assert f(2) == [424244]"),
    visible_tests=("assert f(1) == 424243",),
    entry_point="f",
)
HIDDEN = "424244"
WIN = "win = lambda x: x + 424242 if x == 1 else [x + 424242]\n"
LIBC = """\
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
"""
# The same secret for programs that read standard input.
STREAM = Task(
    id="stream",
    kind="code",
    prompt="",
    tests=(("1\n", "424243\n"), ("2\n", "424244\n")),
    visible_tests=(("1\n", "424243\n"),),
)
STREAM_WIN = "import sys\nwin = lambda: print(int(sys.stdin.readline()) + 424242)\n"


@dataclasses.dataclass(frozen=True)
class Attack:
    """One hostile program.

    Attributes:
        name: of the attack.
        statuses: what the verdict may be, words; "" allows every status but passed.
        source: the program.
    """

    name: str
    statuses: str
    source: str


def breaking(name: str, statuses: str, source: str) -> Attack:
    """An attack that calls `win` when it got through."""
    return Attack(name, statuses, WIN + source)


def calling(name: str, call: str) -> Attack:
    """An attack that gets through if a C function does not return -1."""
    source = f"{LIBC}def f(x):\n if libc.{call} != -1: return win(x)\n"
    return Attack(name, "failed error", WIN + source)
