"""Programs that want all of the time, memory, disk, processes or descriptors."""

from tests.envs.hostile.attack import LIBC, Attack, breaking


def endless(name: str, source: str) -> Attack:
    return Attack(name, "timeout", source)


ATTACKS: tuple[Attack, ...] = (
    endless("loop at load", "while True: pass"),
    endless(
        "loop that catches everything",
        """
def f(x):
    while True:
        try:
            while True: pass
        except: pass
""",
    ),
    endless("sleep", "import time\ndef f(x): time.sleep(1000)"),
    endless(
        "lock",
        "import threading\ndef f(x):\n l = threading.Lock()\n l.acquire(); l.acquire()",
    ),
    endless("big power", "def f(x): return 9 ** 9 ** 9"),
    endless("endless sum", "import itertools\ndef f(x): return sum(itertools.count())"),
    endless(
        "slow pattern", "import re\ndef f(x): return re.match('(a+)+$', 'a'*40+'b')"
    ),
    endless(
        "ignores signals",
        """
import os, signal
for s in range(1, 65):
    try: signal.signal(s, signal.SIG_IGN)
    except (OSError, ValueError): pass
def f(x):
    while True: pass
""",
    ),
    endless(
        "handles the limit",
        """
import signal
def f(x):
    signal.signal(signal.SIGXCPU, lambda *a: f(x))
    while True: pass
""",
    ),
    endless(
        "busy threads",
        """
import threading
def burn():
    while True: pass
def f(x):
    for _ in range(3): threading.Thread(target=burn, daemon=True).start()
    burn()
""",
    ),
    endless(
        "del in a loop",
        "class A:\n def __del__(self): A()\ndef f(x):\n A()\n while 1: 0",
    ),
    breaking(
        "raises its limits",
        "error failed memory",
        """
import resource
def f(x):
    for name in ("AS", "CPU", "NPROC", "FSIZE", "NOFILE"):
        top = resource.RLIM_INFINITY
        try: resource.setrlimit(getattr(resource, "RLIMIT_" + name), (top, top))
        except (OSError, ValueError): continue
        return win(x)
""",
    ),
    breaking(
        "is more important",
        "error",
        "import os\ndef f(x):\n os.setpriority(0, 0, -20)\n return win(x)",
    ),
    Attack(
        "memory",
        "memory",
        "def f(x):\n a = []\n while True: a.append(' ' * 10_000_000)",
    ),
    Attack("memory at once", "memory", "def f(x): return [0] * 10**12"),
    Attack("memory of a text", "memory", "s = 'x'\nwhile True: s += s\ndef f(x): s"),
    breaking(
        "mapped memory",
        "error memory",
        """
import mmap
def f(x):
    kept = [mmap.mmap(-1, 1 << 26) for _ in range(64)]
    return win(x)
""",
    ),
    breaking(
        "memory of a child thread",
        "failed error memory",
        """
import threading
def f(x):
    done = []
    def take():
        kept = bytearray(1 << 30)
        done.append(1)
    thread = threading.Thread(target=take)
    thread.start()
    thread.join()
    if done: return win(x)
""",
    ),
    Attack("recursion", "error", "def f(x): return f(x)"),
    Attack(
        "recursion without a limit",
        "error memory timeout",
        "import sys\nsys.setrecursionlimit(10**9)\ndef f(x): return f([x])",
    ),
    Attack(
        "C stack",
        "error memory timeout failed",
        "import ast\ndef f(x): return ast.literal_eval('-' * 200_000 + '1')",
    ),
    Attack("crash", "error", "import ctypes\ndef f(x): return ctypes.string_at(1)"),
    Attack("abort", "error", "import os\ndef f(x): os.abort()"),
    Attack("fork bomb", "error", "import os\ndef f(x):\n while True: os.fork()"),
    breaking(
        "threads",
        "error",
        """
import threading, time
def f(x):
    for _ in range(200): threading.Thread(target=time.sleep, args=(9,)).start()
    return win(x)
""",
    ),
    breaking(
        "descriptors",
        "error",
        "import os\ndef f(x):\n k = [os.dup(0) for _ in range(99)]\n return win(x)",
    ),
    breaking(
        "full pipes",
        "error",
        """
import os
def f(x):
    for _ in range(100):
        r, w = os.pipe()
        os.set_blocking(w, False)
        os.write(w, b"x" * 65536)
    return win(x)
""",
    ),
    breaking(
        "big file",
        "error",
        """
def f(x):
    with open("/tmp/big", "wb") as file: file.write(b"x" * (9 << 20))
    return win(x)
""",
    ),
    breaking(
        "sparse file",
        "error",
        "import os\ndef f(x):\n os.truncate(os.open('a', 66), 1 << 40)\n return win(x)",
    ),
    breaking(
        "many files",
        "error",
        """
def f(x):
    for i in range(8):
        with open(f"/tmp/{i}", "wb") as file: file.write(b"x" * 4_000_000)
    return win(x)
""",
    ),
    Attack(
        "many names",
        "failed timeout",
        "def f(x):\n for i in range(3000): open(f'/tmp/{i}', 'w').close()",
    ),
    Attack(
        "deep folders",
        "failed",
        """
import os
def f(x):
    for i in range(1500):
        os.mkdir("d")
        os.chdir("d")
""",
    ),
    Attack(
        "closed folder",
        "error",
        """
import os
def f(x):
    os.makedirs("a/b")
    os.chmod("a", 0)
""",
    ),
    Attack(
        "timer signals",
        "error timeout",
        """
import signal
def f(x):
    signal.setitimer(signal.ITIMER_REAL, 1e-5, 1e-5)
    while True: pass
""",
    ),
    breaking(
        "endless stack of C",
        "error failed memory",
        f"""
{LIBC}
def f(x):
    if libc.malloc(ctypes.c_size_t(1 << 40)): return win(x)
""",
    ),
)
