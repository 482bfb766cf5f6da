"""Right and wrong answers of the math verifier on public data, and its speed.

    python tests/benchmarks/mathematics.py --gsm8k=A.jsonl.gz,B.jsonl.gz \\
        --math=C.jsonl.gz

Accepted: gold answers in a box in a sentence, rewritten without changing their
meaning. Rejected: another task's answer, one digit changed, the sign flipped.
"""

import argparse
import gzip
import json
import random
import re
import time

from rlvr_jax import envs
from rlvr_jax.envs.marking import final_answer
from rlvr_jax.tasks.records import Task

SLOW = "99999999!"


def gsm8k(path: str) -> list[Task]:
    """Tasks of a GSM8K file, with the whole solution as the gold text."""
    return [
        Task(f"{path}/{k}", "math", row["question"], answer=row["answer"])
        for k, row in enumerate(rows(path))
    ]


def mathematics(path: str) -> list[Task]:
    """Tasks of a MATH file; the gold answer is the last box of the solution."""
    return [
        Task(f"{path}/{k}", "math", row["problem"], answer=row["solution"])
        for k, row in enumerate(rows(path))
    ]


def rows(path: str) -> list[dict]:
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def boxed(answer: str) -> str:
    return f"Step by step it follows that the answer is $\\boxed{{{answer}}}$. Done."


def rewritings(gold: str) -> dict[str, str]:
    """Texts that mean the same as a gold answer."""
    spaced = re.sub(r"(?<![\\\w ])([+,=])(?![\w ]*\\!)", r"\1 ", gold)
    if re.search(r"\d,\d{3}", gold):  # a space would make it a list
        spaced = f" {gold} "
    fractions = gold.replace("\\frac", "\\dfrac").replace("\\tfrac", "\\frac")
    whole = gold.replace(",", "").replace("\\!", "")
    separated = gold
    if re.fullmatch(r"\d+|\d{1,3}((,|,\\!)\d{3})+", gold):
        separated = whole if whole != gold else f"{int(gold):,}"
    return {
        "as it is": gold,
        "spacing": f" {spaced} ",
        "fractions": fractions,
        "thousands": separated,
    }


def mistakes(gold: str, other: str, random_: random.Random) -> dict[str, str]:
    """Texts that mean something else than a gold answer."""
    wrong = {}
    if plain(other) != plain(gold):
        wrong["another task's"] = other
    digits = [match.start() for match in re.finditer(r"\d", gold)]
    if digits:
        place = random_.choice(digits)
        digit = str((int(gold[place]) + random_.randint(1, 8)) % 10)
        wrong["digit changed"] = gold[:place] + digit + gold[place + 1 :]
    if re.fullmatch(r"[^,=<>]*[1-9\\][^,=<>]*", gold) and "\\text{" not in gold[:7]:
        flipped = gold[1:] if gold.startswith("-") else f"-{gold}"
        simple = re.fullmatch(r"-?(\d[\d.]*|\\[dt]?frac\{\d+\}\{\d+\})", gold)
        wrong["sign flipped"] = flipped if simple else f"-({gold})"
    return wrong


def plain(text: str) -> str:
    return re.sub(r"\\[!,;: ]|\\text|[\s{}$]", "", text).replace("dfrac", "frac")


def measure(verifier: envs.Verifier, name: str, tasks: list[Task]) -> None:
    random_ = random.Random(0)
    others = random_.sample(tasks, len(tasks))
    right, wrong = {}, {}
    for task, other in zip(tasks, others, strict=True):
        gold = final_answer(task.answer).strip()
        for kind, text in rewritings(gold).items():
            right.setdefault(kind, []).append((task, boxed(text)))
        stranger = final_answer(other.answer).strip()
        for kind, text in mistakes(gold, stranger, random_).items():
            wrong.setdefault(kind, []).append((task, boxed(text)))
    print(f"{name}: {envs.self_check(verifier, tasks)}")
    for label, wanted, groups in (("accepted", 1.0, right), ("rejected", 0.0, wrong)):
        for kind, pairs in groups.items():
            start = time.perf_counter()
            found = verifier.verify(pairs)
            seconds = time.perf_counter() - start
            bad = [
                (final_answer(pair[0].answer), final_answer(pair[1]), verdict.status)
                for pair, verdict in zip(pairs, found, strict=True)
                if verdict.reward != wanted
            ]
            good = len(pairs) - len(bad)
            print(
                f"{name} {kind:14s} {label} {good} of {len(pairs)}"
                f" ({100 * good / len(pairs):.2f} %), {len(pairs) / seconds:.0f}/s"
            )
            for case in bad[:40]:
                print("   ", *case, sep=" | ")


def speed(workers: int) -> None:
    """Easy answers per second, and how long slow ones hold up an easy one."""
    tasks = [Task(str(k), "math", "", answer=f"#### {k},{k:03d}") for k in range(500)]
    pairs = [(task, boxed(task.answer[5:])) for task in tasks for _ in range(8)]
    with envs.make_verifier("math", workers=workers) as verifier:
        start = time.perf_counter()
        assert all(v.solved for v in verifier.verify(pairs))
        seconds = time.perf_counter() - start
        print(f"easy answers: {len(pairs) / seconds:.0f}/s")
    hard = Task("root", "math", "", answer="2\\sqrt{2}")
    for name, text in (("tower", "2^{2^{2^{100}}}"), ("factorial", SLOW)):
        for label, easy in (("exact", (tasks[7], boxed("7007"))), ("algebra", None)):
            with envs.make_verifier("math", workers=workers) as verifier:
                easy = easy or (hard, boxed("\\sqrt{8}"))
                slow = [(tasks[k], boxed(f"{text}+{k}")) for k in range(8)]
                warm = [(hard, boxed(f"{k}\\pi")) for k in range(2 * workers)]
                verifier.verify(warm)
                start = time.perf_counter()
                (alone,) = verifier.verify([easy])
                middle = time.perf_counter()
                verdicts = verifier.verify([*slow, easy])
                end = time.perf_counter()
                assert alone.solved and verdicts[-1].solved
                assert not any(v.solved for v in verdicts[:-1])
                delay = (end - middle) - (middle - start)
                print(f"8 times {name}: the ninth, {label}, waits {delay:.2f} s more")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gsm8k", default="", help="files, separated by commas")
    parser.add_argument("--math", default="", help="files, separated by commas")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--every", type=int, default=1, help="use one task in so many")
    options = parser.parse_args()
    with envs.make_verifier("math", workers=options.workers) as verifier:
        for name, read, paths in (
            ("GSM8K", gsm8k, options.gsm8k),
            ("MATH", mathematics, options.math),
        ):
            found = [task for path in paths.split(",") if path for task in read(path)]
            if found:
                measure(verifier, name, found[:: options.every])
    speed(options.workers)


if __name__ == "__main__":
    main()
