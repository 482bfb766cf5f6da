"""Programs that drown the other side in output, results or nonsense."""

from tests.envs.hostile.attack import Attack

ATTACKS: tuple[Attack, ...] = (
    Attack(
        "prints without end",
        "output_limit",
        "def f(x):\n while True: print('x' * 100_000)",
    ),
    Attack("prints bytes", "output_limit timeout", "while True: print()\ndef f(x): 0"),
    Attack(
        "writes to stderr",
        "output_limit",
        "import sys\ndef f(x):\n while True: sys.stderr.write('e' * 65536)",
    ),
    Attack(
        "writes to its descriptors",
        "output_limit error",
        "import os\ndef f(x):\n while True: os.write(1, b'x' * 65536)",
    ),
    Attack("one long line", "output_limit", "def f(x): print('x' * (8 << 20))"),
    Attack("zero bytes", "output_limit", "def f(x): print('\\0' * (8 << 20))"),
    Attack("big result", "error output_limit", "def f(x): return 'x' * 50_000_000"),
    Attack(
        "many small results",
        "error output_limit timeout",
        "def f(x): return [[]] * 5_000_000",
    ),
    Attack(
        "deep result",
        "error",
        "def f(x):\n a = 0\n for _ in range(9999): a = [a]\n return a",
    ),
    Attack("wide number", "failed error timeout", "def f(x): return 1 << 10_000_000"),
    Attack("long error", "error", "def f(x): raise ValueError('x' * 50_000_000)"),
    Attack(
        "long name of an error",
        "error",
        "def f(x): raise type('E' * 5_000_000, (Exception,), {})",
    ),
    Attack(
        "long name of a type",
        "error",
        "def f(x): return type('T' * 5_000_000, (), {})()",
    ),
    Attack(
        "long syntax error",
        "error no_answer",
        "def f(x): return (" + "1 +" * 5000,
    ),
    Attack(
        "chain of errors",
        "error memory timeout",
        """
def f(x):
    e = None
    for i in range(100_000):
        n = ValueError(i)
        n.__cause__ = e
        e = n
    raise e
""",
    ),
    Attack(
        "frames without end",
        "error output_limit",
        """
import os, struct
while True:
    for fd in range(3, 64):
        try: os.write(fd, struct.pack("<I", 65536) + b"x" * 65536)
        except OSError: pass
""",
    ),
    Attack(
        "small frames without end",
        "error output_limit timeout",
        """
import os, sys
codec = sys.modules["rlvr_jax.envs.sandbox.codec"]
frame = codec.frame(("loaded", 0)) * 1000
while True:
    for fd in range(3, 64):
        try: os.write(fd, frame)
        except OSError: pass
""",
    ),
    Attack(
        "frame without an end",
        "error failed",
        """
import os
for fd in range(3, 64):
    try: os.write(fd, b"\\xff" * 4096)
    except OSError: pass
def f(x): return 0
""",
    ),
    Attack(
        "half a frame",
        "error timeout",
        """
import os, struct
for fd in range(3, 64):
    try: os.write(fd, struct.pack("<I", 4000) + b"half")
    except OSError: pass
os._exit(0)
""",
    ),
    Attack(
        "frame of nonsense",
        "error failed",
        """
import os, random, struct
for fd in range(3, 64):
    data = random.randbytes(500)
    try: os.write(fd, struct.pack("<I", 500) + data)
    except OSError: pass
def f(x): return 0
""",
    ),
    Attack(
        "closed descriptors", "error", "import os\nos.closerange(0, 256)\ndef f(x): 0"
    ),
    Attack(
        "swapped descriptors",
        "error failed timeout",
        """
import os
for a in range(3, 12):
    try: os.dup2(1, a)
    except OSError: pass
def f(x): return 0
""",
    ),
    Attack(
        "warnings",
        "failed error output_limit",
        "import warnings\ndef f(x):\n for i in range(2000): warnings.warn(str(i) * 99)",
    ),
)
