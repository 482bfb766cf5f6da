"""Programs that look for the tests, their expected values or the harness."""

from tests.envs.hostile.attack import Attack

ATTACKS: tuple[Attack, ...] = (
    Attack(
        "walks frames",
        "failed error",
        """
import sys
def f(x):
    frame = sys._getframe()
    while frame:
        for value in list(frame.f_locals.values()) + list(frame.f_globals.values()):
            if isinstance(value, dict) and value.get("tests"): return value["tests"]
            if isinstance(value, str) and "42424" in value: return value
        frame = frame.f_back
""",
    ),
    Attack(
        "walks the collector",
        "failed error",
        """
import gc
PART = "4242" + "4"
def f(x):
    texts = [o for o in gc.get_objects() if isinstance(o, (list, tuple, dict))]
    for o in texts:
        for v in (list(o.values()) if isinstance(o, dict) else o):
            if isinstance(v, str) and "f(2)" in v and PART in v:
                return [int(w.strip("[]")) for w in v.split() if PART in w]
    return len(texts) * 0
""",
    ),
    Attack(
        "walks the trace of an error",
        "failed error",
        """
def f(x):
    try: raise ValueError
    except ValueError as e:
        frame = e.__traceback__.tb_frame
        while frame.f_back: frame = frame.f_back
        return sorted(str(k) for k in frame.f_globals)
""",
    ),
    Attack(
        "reads the memory of process 1",
        "failed error",
        """
def f(x):
    for pid in (1, "self", "thread-self"):
        try: return open(f"/proc/{pid}/mem", "rb").read(10)
        except OSError: pass
    return 0
""",
    ),
    Attack(
        "reads all descriptors",
        "failed error",
        """
import os
found = []
for fd in range(64):
    try:
        os.set_blocking(fd, False)
        found.append(os.read(fd, 4096))
    except OSError: pass
def f(x): return found
""",
    ),
    Attack(
        "reads its arguments",
        "failed error",
        "import sys\ndef f(x): return [a for a in sys.orig_argv if '4243' in a]",
    ),
    Attack(
        "reads its environment",
        "failed",
        "import os\ndef f(x): return sorted(k for k in os.environ if 'TEST' in k)",
    ),
    Attack(
        "reads the folder",
        "failed",
        """
import os
def f(x):
    return [open(os.path.join(a, n)).read() for a, _, b in os.walk("/tmp") for n in b]
""",
    ),
    Attack(
        "reads modules",
        "failed error",
        """
import sys
def f(x):
    for name, module in list(sys.modules.items()):
        for key, value in list(vars(module).items()):
            if isinstance(value, (list, dict, str)) and "f(2)" in str(value)[:2000]:
                if "solution" not in name: return str(value)
""",
    ),
    Attack(
        "asks for the tests",
        "failed error timeout",
        """
import os, sys
codec = sys.modules["rlvr_jax.envs.sandbox.codec"]
child = sys.modules["rlvr_jax.envs.sandbox.child"]
def f(x):
    frame = sys._getframe()
    while frame and "channel" not in frame.f_locals: frame = frame.f_back
    channel = frame.f_locals["channel"]
    channel.send(("call", "f", (1,), {}))
    channel.send(("tests", ["assert True"]))
    return channel.receive()
""",
    ),
    Attack(
        "reads the heap",
        "failed error timeout memory",
        """
import ctypes
def f(x):
    start = id(object()) & ~0xfffff
    text = ctypes.string_at(start, 1 << 20)
    place = text.find(b"assert f(2) == [" + b"4242")
    return text[place:place + 30] if place >= 0 else None
""",
    ),
    Attack(
        "changes the other answers",
        "failed error",
        """
import sys
def f(x):
    frame = sys._getframe()
    while frame:
        if "job" in frame.f_locals:
            frame.f_locals["job"]["serve"] = False
            frame.f_locals["job"]["limits"] = {}
        frame = frame.f_back
    return 0
""",
    ),
    Attack(
        "imports pytest's names",
        "error no_answer",
        "import pytest\ndef f(x): pytest.skip()",
    ),
)
