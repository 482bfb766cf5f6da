"""Programs that want something of theirs to go on when they have ended."""

from tests.envs.hostile.attack import LIBC, Attack, breaking

ATTACKS: tuple[Attack, ...] = (
    breaking(
        "daemon",
        "error",
        """
import os, time
def f(x):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            time.sleep(600)
    return win(x)
""",
    ),
    breaking(
        "vfork",
        "failed error",
        f"{LIBC}\ndef f(x):\n if libc.syscall(58) >= 0: return win(x)",
    ),
    breaking(
        "clone",
        "failed error",
        f"{LIBC}\ndef f(x):\n if libc.syscall(56, 17, 0, 0, 0, 0) >= 0: return win(x)",
    ),
    breaking(
        "clone3",
        "failed error",
        f"""
{LIBC}
arguments = (ctypes.c_uint64 * 11)(0, 0, 0, 0, 17)
def f(x):
    if libc.syscall(435, arguments, 88) >= 0: return win(x)
""",
    ),
    breaking(
        "subprocess",
        "error",
        "import subprocess as s\ndef f(x):\n s.Popen(['sleep', '9'])\n return win(x)",
    ),
    breaking(
        "spawn",
        "error",
        """
import os, sys
def f(x):
    os.posix_spawn("/python/bin/python3", ["python3", "-c", "while 1: 0"], {})
    return win(x)
""",
    ),
    breaking(
        "multiprocessing",
        "error",
        """
import multiprocessing
def f(x):
    multiprocessing.get_context("fork").Process(target=print).start()
    return win(x)
""",
    ),
    breaking(
        "system",
        "failed error",
        "import os\ndef f(x):\n if os.system('true') == 0: return win(x)",
    ),
    Attack(
        "threads that stay",
        "failed",
        """
import threading, time
def stay():
    while True: time.sleep(0.01)
def f(x):
    threading.Thread(target=stay).start()
""",
    ),
    Attack(
        "end that waits",
        "failed",
        "import atexit, time\natexit.register(time.sleep, 600)\ndef f(x): 0",
    ),
    Attack(
        "alarm for later",
        "failed",
        "import signal\ndef f(x): signal.alarm(1)",
    ),
    Attack(
        "object that does not die",
        "failed",
        "import time\nclass A:\n def __del__(s): time.sleep(600)\na = A()\ndef f(x): 0",
    ),
    breaking(
        "own group",
        "error",
        "import os\ndef f(x):\n os.setsid()\n return win(x)",
    ),
    breaking(
        "outlives its parent",
        "failed error",
        f"{LIBC}\ndef f(x):\n if libc.prctl(36, 1, 0, 0, 0) == 0: return win(x)",
    ),
)
