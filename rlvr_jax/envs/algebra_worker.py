"""The process in which math-verify runs: one kept clean, and a fork of it that works.

The fork has a timer of CPU time whose signal kills it, in C code too; the clean process
then says so and forks again, which takes milliseconds instead of a second of imports.
"""

import logging
import os
import resource
import signal
import time

from rlvr_jax.envs.workers import Channel

_MEMORY_BYTES = 2 << 30
# Parsed before the first fork: it fills the caches that every fork inherits.
_WARM_UP = (
    r"\frac{x^{2}-1}{2}+\sqrt{3}\pi",
    r"(x+1)(x-1)\cdot\frac{1}{2}+3\sqrt{\pi^2+2}-2+2",
)


def main() -> None:
    """Serves {"gold", "answer", "seconds"} with {"outcome", "seconds"}."""
    logging.disable(logging.CRITICAL)
    channel = Channel()
    from rlvr_jax.envs import equality

    for text in _WARM_UP:
        equality.equal(text, _WARM_UP[0])
    channel.reply({"outcome": "ready"})
    while True:
        child = os.fork()
        if not child:
            _work(channel, equality.equal)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        if os.WIFEXITED(status) and os.WEXITSTATUS(status) == 0:
            return
        overtime = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGPROF
        channel.reply({"outcome": "timeout" if overtime else "died"})


def _work(channel, equal):
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_BYTES, _MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for request in channel.requests():
        signal.setitimer(signal.ITIMER_PROF, request["seconds"])
        start = time.process_time()
        try:
            same = equal(request["gold"], request["answer"])
            outcome = "equal" if same else "different"
        except MemoryError:
            outcome = "memory"
        spent = time.process_time() - start
        signal.setitimer(signal.ITIMER_PROF, 0)
        channel.reply({"outcome": outcome, "seconds": spent})
