"""Programs that leave something for the next one, and the one that looks for it."""

from tests.envs.hostile.attack import LIBC, Attack

MARK = "mark-of-the-" + "first"

ATTACKS: tuple[Attack, ...] = (
    Attack(
        "files",
        "failed",
        f"""
import os
def f(x):
    os.makedirs("/tmp/a/b", exist_ok=True)
    for path in ("{MARK}", ".{MARK}", "a/b/{MARK}", "sitecustomize.py", "math.py"):
        with open(path, "w") as file: file.write("{MARK}")
""",
    ),
    Attack(
        "names of modules",
        "failed",
        f"""
import builtins, math, os, sys, types
def f(x):
    builtins.mark = math.mark = os.environ["MARK"] = "{MARK}"
    sys.modules["mark"] = types.ModuleType("{MARK}")
    sys.path.append("/tmp/{MARK}")
    sys.argv.append("{MARK}")
""",
    ),
    Attack(
        "state of the process",
        "failed",
        """
import decimal, locale, os, random, signal, sys, threading, warnings
def f(x):
    os.umask(0)
    os.chdir("/")
    sys.setrecursionlimit(77777)
    random.seed(5)
    decimal.getcontext().prec = 3
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    sys.settrace(lambda *a: None)
    threading.stack_size(1 << 20)
""",
    ),
    Attack(
        "memory of the kernel",
        "failed",
        f"""
{LIBC}
def f(x):
    libc.shmget(4242, 4096, 0o1666)
    libc.syscall(240, b"{MARK}", 66, 0o666, 0)
    libc.prctl(15, b"{MARK[:15]}", 0, 0, 0)
    for folder in ("/dev/shm", "/dev/mqueue", "/var/tmp", "/run"):
        try: open(folder + "/{MARK}", "w").write("{MARK}")
        except OSError: pass
""",
    ),
)

# Passes exactly if it finds nothing.
SPY = """
import builtins, ctypes, decimal, math, os, signal, sys
MARK = "mark-of-the-" + "first"
FOLDERS = "/dev/shm", "/dev/mqueue", "/var/tmp", "/run"
def traces():
    names = [n for top in ("/tmp", "/dev") for _, a, b in os.walk(top) for n in a + b]
    found = [n for n in names if MARK in n or n in ("sitecustomize.py", "link", "a")]
    found += [n for n in FOLDERS if os.path.exists(n)]
    found += ["module"] * (hasattr(builtins, "mark") or hasattr(math, "mark"))
    found += [k for k in [*os.environ, *sys.modules] if k.lower() == "mark"]
    found += [p for p in sys.path + sys.argv if MARK in p]
    found += ["umask"] * (os.umask(0o22) == 0) + ["folder"] * (os.getcwd() != "/tmp")
    found += ["recursion"] * (sys.getrecursionlimit() == 77777)
    found += ["decimal"] * (decimal.getcontext().prec == 3)
    found += ["signal"] * (signal.getsignal(signal.SIGUSR1) is signal.SIG_IGN)
    found += ["trace"] * (sys.gettrace() is not None)
    libc = ctypes.CDLL(None)
    found += ["shared memory"] * (libc.shmget(4242, 4096, 0) != -1)
    return found
def f(x):
    found = traces()
    if found: return found
    return x + 424242 if x == 1 else [x + 424242]
"""
