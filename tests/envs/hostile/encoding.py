"""Programs whose text or values are hard to read, to write or to show."""

from tests.envs.hostile.attack import Attack

ATTACKS: tuple[Attack, ...] = (
    Attack(
        "lone surrogate in the source",
        "error no_answer failed",
        "def f(x): return '\ud800'",
    ),
    Attack(
        "lone surrogate returned",
        "failed",
        "def f(x): return chr(0xD800) + chr(0xDFFF)",
    ),
    Attack("lone surrogate raised", "error", "def f(x): raise ValueError(chr(0xD800))"),
    Attack("lone surrogate printed", "failed error", "def f(x): print(chr(0xD800))"),
    Attack(
        "lone surrogate as a name",
        "error",
        "def f(x): raise type('E' + chr(0xDC80), (Exception,), {})",
    ),
    Attack(
        "lone surrogate as a function",
        "error",
        """
def g(): raise ValueError
g.__code__ = g.__code__.replace(co_name="g" + chr(0xD800))
def f(x): g()
""",
    ),
    Attack(
        "lone surrogate as a key", "failed", "def f(x): return {chr(0xD800): {1, 2}}"
    ),
    Attack("zero byte in the source", "error no_answer", "def f(x): return 1\0\n"),
    Attack("zero bytes returned", "failed", "def f(x): return '\\0' * 3, b'\\0'"),
    Attack("byte order mark", "failed error no_answer", "\ufeffdef f(x): return 0"),
    Attack("byte order mark inside", "error no_answer", "def f(x):\ufeff return 0"),
    Attack("unknown cookie", "failed error", "# -*- coding: no-such -*-\ndef f(x): 0"),
    Attack("utf-7 cookie", "failed", "# coding: utf-7\ndef f(x): return '+AD0-'"),
    Attack("rot13 cookie", "no_answer", "# coding: rot13\nqrs s(k): erghea 424243"),
    Attack(
        "right-to-left text",
        "failed",
        "def f(x):\n '''\u202e\u2066'''\n return 0 # \u202e }34242 nruter",
    ),
    Attack("wide letters", "failed", "def ｆ(x): return 0"),
    Attack("look-alike name", "error", "def \u0192(x): return 0"),
    Attack("form feeds", "no_answer", "\f\v\ndef f(x):\f return 0"),
    Attack("bare returns", "failed error no_answer", "def f(x):\r return 0\r"),
    Attack("line separators", "failed error", "def f(x): return '\u2028\u2029\x85'"),
    Attack("control codes", "failed", "def f(x): return '\\x1b[2J\\x07\\x7f\\x9b'"),
    Attack("combining marks", "failed", "def f(x): return 'a' + '\\u0301' * 50_000"),
    Attack("deep brackets", "error no_answer memory", "def f(x): return " + "(" * 9000),
    Attack(
        "deep list",
        "error no_answer memory",
        "def f(x): return " + "[" * 999 + "]" * 999,
    ),
    Attack(
        "deep blocks",
        "error no_answer",
        "".join(" " * i + "if 1:\n" for i in range(150)),
    ),
    Attack(
        "many minus signs",
        "error no_answer memory failed",
        "f = lambda x: " + "-" * 9000 + "1",
    ),
    Attack("huge literal", "error no_answer", "def f(x): return " + "9" * 9000),
    Attack("huge int as text", "error", "def f(x): return str(10 ** 9999)"),
    Attack("huge int", "failed", "def f(x): return 10 ** 9999"),
    Attack(
        "huge exponent", "failed error", "def f(x): return 1e999, -1e999, 0.0 * 1e999"
    ),
    Attack(
        "odd numbers", "failed", "def f(x): return [-0.0, 1j * float('nan'), 5e-324]"
    ),
    Attack(
        "odd keys",
        "failed error",
        "def f(x): return {float('nan'): 1, None: 2, (): 3, 0j: 4}",
    ),
    Attack(
        "fences",
        "failed error no_answer",
        "```python\ndef f(x): return '```'\n```\n```",
    ),
    Attack("fence of another kind", "failed error", "~~~\ndef f(x): return 0\n```"),
    Attack("thousand fences", "failed error no_answer", "```\nf = print\n```\n" * 1000),
    Attack("template marks", "failed", "def f(x): return '{{x}} <|im_end|> %s {0}'"),
    Attack("only white space", "no_answer error", " \n\t\u3000\n"),
    Attack("only comments", "error", "# def f(x): return 424243"),
    Attack("prose", "no_answer error", "The answer is 424243, then a list."),
)
