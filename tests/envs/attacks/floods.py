"""Programs that write or answer more than anybody can hold.

Name: (source, its status, or None where several are right).
"""

ATTACKS = {
    "output": (
        """
def f(x):
 while True: print('x' * 100_000)
""",
        "output_limit",
    ),
    "result flood": ("def f(x): return 'x' * 50_000_000", None),
    "frame flood": (
        """
import os, struct
while True:
    for fd in range(3, 64):
        try: os.write(fd, struct.pack("<I", 65536) + b"x" * 65536)
        except OSError: pass
""",
        "error",
    ),
    "closed descriptors": (
        """
import os
os.closerange(0, 256)
def f(x): return 0
""",
        None,
    ),
    "huge frame": (
        r"""
import os
for fd in range(3, 64):
    try: os.write(fd, b"\xff" * 4096)
    except OSError: pass
def f(x): return 0
""",
        "error",
    ),
    "errors": (
        """
import sys
def f(x):
 while True: sys.stderr.write('x' * 100_000)
""",
        "output_limit",
    ),
    "one long line": (
        """
import sys
def f(x):
 while True: sys.stdout.write('x' * 1_000_000); sys.stdout.flush()
""",
        "output_limit",
    ),
    "warnings": (
        """
import warnings
def f(x):
 for i in range(10 ** 7): warnings.warn(str(i) * 100)
""",
        "output_limit",
    ),
    "message of an exception": (
        "def f(x): raise ValueError('x' * 50_000_000)",
        "error",
    ),
    "deep answer": (
        """
def f(x):
    a = 1
    for _ in range(100_000): a = [a]
    return a
""",
        None,
    ),
    "many answers": ("def f(x): return [0] * 20_000_000", None),
}
