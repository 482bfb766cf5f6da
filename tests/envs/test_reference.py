"""The self-test: tasks whose reference fails are dropped and named."""

from rlvr_jax import envs
from rlvr_jax.envs.reference import reference
from rlvr_jax.tasks import Task


def math(name, answer):
    return Task(id=name, kind="math", prompt="", answer=answer)


def test_golds_that_the_verifier_cannot_grade_are_named():
    rows = [
        math("number", "12 #### 1,234"),
        math("box", r"so \boxed{\frac{1}{2}}"),
        math("words", "\N{SNOWMAN} or not \\boxed{"),
        math("none", ""),
    ]
    with envs.make_verifier("math") as verifier:
        kept, failed = envs.self_test(verifier, rows)
    assert [task.id for task in kept] == ["number", "box"]
    assert list(failed) == ["words", "none"]
    assert failed["none"].status == "abstained"


class Words(envs.Verifier):
    """Right is what its response says; it grades tasks without a reference too."""

    def grade(self, task, response):
        solved = "right" in response
        status = "passed" if solved else "failed"
        return envs.Verdict(float(solved), solved, "", status, int(solved), 1)


def test_a_task_without_a_reference_is_kept_where_something_grades_it():
    rows = [
        Task(id="a", kind="code", prompt="", answer="right"),
        Task(id="b", kind="code", prompt="", answer="wrong"),
        Task(id="c", kind="code", prompt=""),
    ]
    with Words() as verifier:
        kept, failed = envs.self_test(verifier, rows)
    assert [task.id for task in kept] == ["a", "c"]
    assert {name: verdict.status for name, verdict in failed.items()} == {"b": "failed"}


def test_a_reference_as_a_response():
    code = Task(id="a", kind="code", prompt="", answer="x = 1")
    assert reference(code) == "```python\nx = 1\n```"
    assert reference(math("b", "#### 4\n")) == r"\boxed{4}"
    assert reference(math("c", "")) == ""


def test_every_kind_of_code_task_is_tried_on_its_reference():
    add, read = "def add(a, b): return a + b", "print(int(input()) + 1)"
    module = "from solution import add\ndef test(): assert add(1, 2) == 3"
    case = (
        "import unittest\nclass Test(unittest.TestCase):\n"
        "  def test(self): self.assertEqual(add(1, 2), 3)"
    )
    rows = {
        "assert": {"tests": ("assert add(1, 2) == 3",), "answer": add},
        "stream": {"tests": (("1", "2"),), "answer": read, "entry_point": ""},
        "method": {
            "tests": ("assert add(1, 2) == 3",),
            "answer": "class S:\n  def add(self, a, b): return a + b",
            "entry_point": "S.add",
        },
        "object": {
            "tests": ("assert add(Number(1)) == 2",),
            "answer": "class Number(int): pass\ndef add(n): return n + 1",
        },
        "pytest": {"tests": (module,), "answer": add},
        "unittest": {"tests": (case,), "answer": add},
    }
    tasks = []
    for name, fields in rows.items():
        framework = name if "test" in name else None
        common = {"kind": "code", "prompt": "", "entry_point": "add"}
        common["metadata"] = {"test_framework": framework}
        right = Task(**common | {"id": name} | fields)
        wrong = {"id": f"wrong {name}", "answer": fields["answer"].replace("+", "-")}
        tasks += [right, Task(**vars(right) | wrong)]
    with envs.make_verifier("code", workers=1) as verifier:
        kept, failed = envs.self_test(verifier, tasks)
    assert [task.id for task in kept] == list(rows)
    assert {verdict.status for verdict in failed.values()} == {"failed"}
    assert list(failed) == [f"wrong {name}" for name in rows]
