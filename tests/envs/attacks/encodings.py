"""Sources and answers whose letters are the attack.

Name: (source, its status, or None where several are right).
"""

ATTACKS = {
    "lone surrogate": (
        r"""
def f(x): return '\ud800'
""",
        "failed",
    ),
    "surrogate in the source": ("def f(x): return '\ud800'", None),
    "null byte in the source": ("def f(x): return 0\n\x00", None),
    "null bytes in the answer": ("def f(x): return '424243' + chr(0)", "failed"),
    "byte order mark": ("\ufeffdef f(x): return 0", "no_answer"),
    "right to left": ("def f(x):\n return 0 # \u202e 342424 nruter \u2066", "failed"),
    "coding cookie": (
        """
# -*- coding: utf-16 -*-
def f(x): return 0
""",
        None,
    ),
    "cookie that decodes": (
        """
# -*- coding: utf-7 -*-
def f(x): return 0 # +AAo-import os
""",
        None,
    ),
    "identifier in other letters": ("def \U0001d453(x): return 0", "failed"),
    "deep brackets": ("def f(x): return " + "(" * 5000 + ")" * 5000, "no_answer"),
    "deep operators": ("def f(x): return " + "-" * 40_000 + "1", None),
    "huge literal": ("def f(x): return " + "9" * 10_000, "no_answer"),
    "carriage returns": ("def f(x):\r return 0", "failed"),
    "form feed": ("\x0cdef f(x):\x0c return 0", None),
    "end of file": ("\x1a", "no_answer"),
    "open string": ("def f(x): return '''", "no_answer"),
    "closing fence": (
        """
def f(x): return 0
```
```python
raise SystemExit(0)
```
""",
        None,
    ),
    "tabs and spaces": ("def f(x):\n\treturn 0\n        return 1", "error"),
}
