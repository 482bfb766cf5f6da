"""Programs that want a verdict that they did not earn."""

from tests.envs.hostile.attack import Attack

SEND = """
import os, sys
codec = sys.modules["rlvr_jax.envs.sandbox.codec"]
def send(*frames):
    for fd in range(64):
        for frame in frames:
            try: os.write(fd, codec.frame(frame))
            except OSError: pass
"""

ATTACKS: tuple[Attack, ...] = (
    Attack("sys.exit at load", "error", "import sys\nsys.exit(0)"),
    Attack("os._exit at load", "error", "import os\nos._exit(0)"),
    Attack("os._exit in a call", "error", "import os\ndef f(x): os._exit(0)"),
    Attack("raises SystemExit", "error", "def f(x): raise SystemExit(0)"),
    Attack("raises KeyboardInterrupt", "error", "def f(x): raise KeyboardInterrupt"),
    Attack("raises GeneratorExit", "error", "def f(x): raise GeneratorExit"),
    Attack("raises StopIteration", "error", "def f(x): raise StopIteration(424243)"),
    Attack("raises an assertion", "failed", "def f(x): assert False, 'passed'"),
    Attack(
        "raises the harness's own",
        "error",
        """
class SolutionGone(BaseException): rlvr_remote = ("passed", "passed", [])
def f(x): raise SolutionGone
""",
    ),
    Attack(
        "error that cannot be told",
        "error",
        """
class E(Exception):
    def __str__(self): raise SystemExit
    __class__ = property(lambda self: 1 / 0)
def f(x): raise E
""",
    ),
    Attack(
        "type that cannot be named",
        "error failed",
        """
class M(type):
    @property
    def __name__(cls): raise SystemExit
    def __repr__(cls): raise SystemExit
class A(metaclass=M): pass
def f(x): return A()
""",
    ),
    Attack(
        "atexit",
        "failed",
        "import atexit, os\natexit.register(os._exit, 0)\ndef f(x): 0",
    ),
    Attack(
        "always equal int",
        "failed",
        """
class A(int):
    def __eq__(self, other): return True
    __hash__ = int.__hash__
def f(x): return A(5)
""",
    ),
    Attack(
        "always equal list",
        "failed",
        """
class A(list):
    def __eq__(self, other): return True
def f(x): return A([5])
""",
    ),
    Attack(
        "always equal object",
        "error",
        "class A:\n def __eq__(self, other): return True\ndef f(x): return A()",
    ),
    Attack(
        "reduces to something",
        "error",
        "class A:\n def __reduce__(self): return int, ('7',)\ndef f(x): return A()",
    ),
    Attack("mock.ANY", "error", "from unittest import mock\ndef f(x): return mock.ANY"),
    Attack("not a number", "failed", "def f(x): return float('nan')"),
    Attack("true", "failed", "def f(x): return True"),
    Attack("a generator", "error", "def f(x):\n yield 424243"),
    Attack("a coroutine", "error", "async def f(x): return 424243"),
    Attack("a function", "error", "def f(x): return f"),
    Attack("a list of itself", "error", "def f(x):\n a = []\n a.append(a)\n return a"),
    Attack(
        "prints verdicts",
        "failed error",
        """
import os
def f(x):
    print("passed", "OK", "1.0", "All tests pass.")
    for fd in range(64):
        try: os.write(fd, b"passed" * 50)
        except OSError: pass
    return 0
""",
    ),
    Attack(
        "tells of tests",
        "failed error",
        SEND
        + """
def f(x):
    send(("test", 0, True, {}), ("test", 1, True, {}), ("done",))
    os._exit(0)
""",
    ),
    Attack(
        "broken tests",
        "failed error",
        SEND + "def f(x):\n send(('broken',))\n os._exit(0)",
    ),
    Attack(
        "loads twice",
        "failed error",
        SEND
        + "send(('loaded', 0), ('loaded', 99), ('loaded', 'x'))\ndef f(x): return 0",
    ),
    Attack(
        "answers before it is asked",
        "failed error",
        SEND + "send(*[('value', 5, None)] * 50)\ndef f(x): return 5",
    ),
    Attack(
        "answers of a wrong shape",
        "failed error",
        SEND
        + """
def f(x):
    send(("value",), ("value", 1, 2, 3, 4), ("error",), (), 5, None, ("opaque", [], {}))
    os._exit(0)
""",
    ),
    Attack(
        "arguments of a wrong shape",
        "failed error",
        SEND + "def f(x):\n send(('value', 1, 5), ('value', 1, [1, 2, 3, {}]))",
    ),
    Attack(
        "error of a wrong shape",
        "failed error",
        SEND + "def f(x):\n send(('error', 5, b'', 7, ()), ('error', [], {}, 'x', 1))",
    ),
    Attack(
        "packets of the container",
        "failed error",
        """
import os, struct
end = b"E" + struct.pack("<I", 4) + b"done"
def f(x):
    for fd in range(64):
        try: os.write(fd, b"R" + struct.pack("<I", 0) + end * 20)
        except OSError: pass
    os._exit(0)
""",
    ),
    Attack(
        "patched harness",
        "failed error timeout",
        """
import builtins, json, os, sys
child = sys.modules["rlvr_jax.envs.sandbox.child"]
child.call = child._frame = lambda *a: b""
json.dumps = lambda *a: "passed"
builtins.isinstance = lambda *a: True
os.write = lambda fd, data: len(data)
def f(x): return 0
""",
    ),
    Attack(
        "patched codec",
        "failed error",
        """
import sys
codec = sys.modules["rlvr_jax.envs.sandbox.codec"]
codec.encode = codec.frame = lambda *a, **k: b"\\x00" * 40
def f(x): return 0
""",
    ),
    Attack(
        "patched builtins",
        "failed error",
        """
import builtins
for name in list(vars(builtins)):
    if name not in ("setattr", "vars", "__build_class__", "__import__"):
        setattr(builtins, name, lambda *a, **k: True)
def f(x): return 0
""",
    ),
    Attack(
        "replaces the solution",
        "error",
        "import sys\nsys.modules.update(solution=5, builtins=5)\ndef f(x): g()",
    ),
    Attack(
        "changes its argument",
        "failed error",
        "def f(x):\n globals()['f'] = lambda y: 424243\n return None",
    ),
    Attack("no function", "error", "g = 5"),
    Attack("function is data", "error", "f = 424243"),
    Attack(
        "looks like another language",
        "error no_answer",
        "#include <stdio.h>\nint main() { return 424243; }",
    ),
)
