"""Programs that take time, memory, files or processes without end.

Name: (source, its status, or None where several are right).
"""

ATTACKS = {
    "bare except loop": (
        """
def f(x):
    while True:
        try:
            while True: pass
        except: pass
""",
        "timeout",
    ),
    "sleep": (
        """
import time
def f(x): time.sleep(1000)
""",
        "timeout",
    ),
    "big power": ("def f(x): return 9 ** 9 ** 9", "timeout"),
    "memory": (
        """
def f(x):
 a = []
 while True: a.append(' ' * 10_000_000)
""",
        "memory",
    ),
    "fork bomb": (
        """
import os
def f(x):
 while True: os.fork()
""",
        "error",
    ),
    "threads": (
        """
import threading, time
def f(x):
    for _ in range(10_000): threading.Thread(target=time.sleep, args=(99,)).start()
""",
        "error",
    ),
    "disk": (
        """
def f(x):
    for i in range(1000):
        with open(f"/tmp/{i}", "wb") as file: file.write(b"x" * 4_000_000)
""",
        "error",
    ),
    "stack": ("def f(x): return f(x)", None),
    "crash": (
        """
import ctypes
def f(x): return ctypes.string_at(1)
""",
        None,
    ),
    "signals": (
        """
import os, signal
for s in range(1, 32):
    try: signal.signal(s, signal.SIG_IGN)
    except (OSError, ValueError): pass
def f(x):
    while True: pass
""",
        "timeout",
    ),
    "files without end": (
        """
def f(x):
    for i in range(10 ** 7): open(f"/tmp/{i}", "w").close()
""",
        None,
    ),
    "folders without end": (
        """
import os
def f(x):
    while True:
        os.mkdir("d")
        os.chdir("d")
""",
        None,
    ),
    "descriptors without end": (
        """
def f(x):
 a = []
 while True: a.append(open('/dev/null'))
""",
        "error",
    ),
    "address space": (
        """
import mmap
def f(x): return mmap.mmap(-1, 1 << 40)
""",
        None,
    ),
    "pattern": (
        """
import re
def f(x): return re.match('(a+)+$', 'a' * 40 + 'b')
""",
        "timeout",
    ),
    "sort that never ends": (
        """
class A:
    def __lt__(self, other): return self < other
def f(x): return sorted([A(), A()])
""",
        None,
    ),
    "infinite iterator": (
        """
import itertools
def f(x): return sum(itertools.count())
""",
        "timeout",
    ),
    "answer that never ends to encode": (
        """
def f(x):
    a = []
    a.append(a)
    return a
""",
        None,
    ),
    "string of digits": (
        """
import sys
sys.set_int_max_str_digits(0)
def f(x): return str(7 ** 3_000_000)
""",
        None,
    ),
    "cached calls": (
        """
import functools
@functools.lru_cache(None)
def f(x): return f(x + 1)
""",
        None,
    ),
    "exception chain": (
        """
def f(x):
    error = None
    while True:
        new = ValueError()
        new.__cause__ = error
        error = new
""",
        None,
    ),
}
