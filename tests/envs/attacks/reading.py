"""Programs that look for the tests, for other programs, or for the harness.

Name: (source, its status, or None where several are right).
"""

ATTACKS = {
    "frame walk": (
        """
import gc, sys
def f(x):
    frame = sys._getframe()
    while frame:
        for value in list(frame.f_locals.values()):
            if isinstance(value, dict) and "tests" in value: return value["tests"]
        frame = frame.f_back
    return [o for o in gc.get_objects() if isinstance(o, str) and "424243" in o]
""",
        "failed",
    ),
    "reads the parent": (
        """
def f(x):
    for pid in (1, "self"):
        try: return open(f"/proc/{pid}/mem", "rb").read(10)
        except OSError: pass
    return 0
""",
        None,
    ),
    "memory of its own": (
        """
import ctypes, os
def f(x):
    found = []
    for start in range(id(f) - (1 << 22), id(f) + (1 << 22), 1 << 16):
        try: data = open("/proc/self/mem", "rb").read()
        except OSError: break
        if b"424243" in data: found.append(start)
    return found
""",
        "failed",
    ),
    "command lines": (
        """
import glob
def f(x):
    return [open(p, "rb").read() for p in glob.glob("/proc/*/cmdline")]
""",
        "failed",
    ),
    "environment": (
        """
import os
def f(x): return dict(os.environ)
""",
        "failed",
    ),
    "arguments": (
        """
import sys
def f(x): return [a for a in sys.orig_argv if 'assert f(' in a]
""",
        "failed",
    ),
    "modules": (
        """
import sys
def f(x):
    return [n for n, m in list(sys.modules.items()) if "424243" in repr(vars(m))]
""",
        "failed",
    ),
    "descriptors": (
        """
import os
def f(x):
    found = []
    for fd in range(0, 64):
        try: found.append((fd, os.fstat(fd).st_mode))
        except OSError: pass
    return len(found) > 8
""",
        "failed",
    ),
    "folders": (
        """
import os
def f(x): return [p for p, _, n in os.walk("/tmp") if n]
""",
        "failed",
    ),
    "caller's source": (
        """
import inspect
def f(x): return [s.code_context for s in inspect.stack()]
""",
        "failed",
    ),
}
