"""Draws docs/real_model.svg and writes docs/real_model.csv from the folders of runs.

    python docs/draw_real_model.py RUN [RUN ...]

The plot has a dot per step and a line per run: the share of first attempts that were
right, and its mean over the last five steps.
"""

import csv
import json
import pathlib
import sys

COLUMNS = (
    "solved/turn_1",
    "solved/turn_2",
    "policy/entropy",
    "response/length",
    "grad/norm",
    "policy/sampler_gap",
    "time/step",
)
COLORS = ("#1f5fa8", "#c0561c", "#3a7d34")
WIDTH, HEIGHT, LEFT, TOP, BOTTOM = 640, 320, 56, 16, 44
SPAN = 5


def read_run(folder: pathlib.Path) -> list[dict]:
    """The metrics of a run, one row per step."""
    lines = (folder / "metrics.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


def write_table(path: pathlib.Path, runs: dict[str, list[dict]]) -> None:
    """Writes one line per run and step."""
    with path.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["run", "step", *COLUMNS])
        for name, rows in runs.items():
            for row in rows:
                values = [f"{row[key]:.4g}" if key in row else "" for key in COLUMNS]
                writer.writerow([name, row["step"], *values])


def draw(runs: dict[str, list[dict]]) -> str:
    """The plot as the text of an SVG file."""
    steps = max(len(rows) for rows in runs.values())
    right, low = WIDTH - 12, HEIGHT - BOTTOM

    def place(step: float, share: float) -> tuple[float, float]:
        x = LEFT + (right - LEFT) * step / steps
        return round(x, 1), round(low - (low - TOP) * share, 1)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}"'
        ' font-family="sans-serif" font-size="12">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
    ]
    for tenth in range(0, 11, 2):
        x, y = place(0, tenth / 10)
        parts.append(f'<path d="M{x} {y}H{right}" stroke="#ddd"/>')
        parts.append(f'<text x="{x - 8}" y="{y + 4}" text-anchor="end">')
        parts.append(f"{tenth / 10:.1f}</text>")
    for step in range(0, steps + 1, 10):
        x, y = place(step, 0)
        parts.append(f'<text x="{x}" y="{y + 18}" text-anchor="middle">{step}</text>')
    parts.append(f'<text x="{LEFT}" y="{HEIGHT - 8}">training step; share of first')
    parts.append(f"attempts that are right (dots), mean of {SPAN} steps (lines)</text>")
    for color, (name, rows) in zip(COLORS, runs.items(), strict=False):
        shares = [row["solved/turn_1"] for row in rows]
        for step, share in enumerate(shares):
            x, y = place(step + 0.5, share)
            circle = f'<circle cx="{x}" cy="{y}" r="2.5" fill="{color}"'
            parts.append(f'{circle} opacity="0.4"/>')
        line = []
        for step in range(SPAN - 1, len(shares)):
            window = shares[step - SPAN + 1 : step + 1]
            line.append(place(step + 0.5, sum(window) / SPAN))
        points = " ".join(f"{x},{y}" for x, y in line)
        parts.append(
            f'<polyline points="{points}" fill="none" stroke="{color}"'
            ' stroke-width="2"/>'
        )
        height = TOP + 14 + 16 * list(runs).index(name)
        parts.append(f'<text x="{LEFT + 12}" y="{height}" fill="{color}">{name}</text>')
    return "\n".join([*parts, "</svg>"]) + "\n"


def main(folders: list[str]) -> None:
    """Reads the runs and writes both files beside this one."""
    if not 1 <= len(folders) <= len(COLORS):
        raise SystemExit(f"wanted 1 to {len(COLORS)} folders of runs; got {folders}")
    runs = {}
    for folder in map(pathlib.Path, folders):
        seed = json.loads((folder / "config.json").read_text())["seed"]
        runs[f"seed {seed}"] = read_run(folder)
    here = pathlib.Path(__file__).parent
    write_table(here / "real_model.csv", runs)
    (here / "real_model.svg").write_text(draw(runs))


if __name__ == "__main__":
    main(sys.argv[1:])
