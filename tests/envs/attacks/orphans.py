"""Programs that would stay when they should be gone.

Name: (source, its status, or None where several are right).
"""

ATTACKS = {
    "daemon": (
        """
import os
def f(x):
    if os.fork() == 0:
        os.setsid()
        while True: pass
""",
        "error",
    ),
    "thread that stays": (
        """
import threading, time
def f(x):
    threading.Thread(target=time.sleep, args=(1000,)).start()
    return 0
""",
        "failed",
    ),
    "thread that works on": (
        """
import threading
def spin():
    while True: pass
def f(x):
    threading.Thread(target=spin).start()
    return 0
""",
        None,
    ),
    "end that never ends": (
        """
import atexit, time
atexit.register(time.sleep, 1000)
def f(x): return 0
""",
        "failed",
    ),
    "stops itself": (
        """
import os, signal
def f(x): os.kill(os.getpid(), signal.SIGSTOP)
""",
        None,
    ),
    "timer": (
        """
import signal, time
signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
signal.signal(signal.SIGALRM, lambda *a: time.sleep(1000))
def f(x): time.sleep(1000)
""",
        None,
    ),
}
