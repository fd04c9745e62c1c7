#!/usr/bin/env python3
"""The picture of README.md: repository sizes of Cutpoint beside restic, as bars.

    research/peers/sizes.py           writes research/results/sizes.svg
    research/peers/sizes.py --check   ends with 1 if the file is not what would be written

The numbers are those of the first table "Repository after the last version" in research/results/peers.md. Python's
standard library only.
"""

import sys
from pathlib import Path

RESULTS = Path(__file__).resolve().parent.parent / "results"
TABLE = "**Repository after the last version, MB**"
TOOLS = (("restic-debian", "restic 0.14", "#8a8f98"), ("cutpoint", "Cutpoint", "#2f81f7"))
SETS = (
    ("CODE", "Source code", "Kubernetes, 12 releases"),
    ("WEB", "Web pages", "javadoc, 8 releases"),
    ("RDS", "Redis", "8 dumps"),
    ("SQLITE", "SQLite", "6 copies"),
)
# Pixels.
WIDTH, LABELS, BARS, BAR, GAP, TOP = 720, 190, 400, 18, 22, 40


def sizes():
    """Returns {tool: {set: MB}} of the table."""
    lines = iter((RESULTS / "peers.md").read_text().splitlines())
    for line in lines:
        if line == TABLE:
            break
    rows = []
    for line in lines:
        if line.startswith("|"):
            rows.append([cell.strip() for cell in line.strip("|").split("|")])
        elif rows:
            break
    names = rows[0][1:]
    return {row[0]: dict(zip(names, row[1:], strict=False)) for row in rows[1:]}


def svg(table):
    largest = max(float(table[tool][name]) for tool, *_ in TOOLS for name, *_ in SETS)
    step = len(TOOLS) * BAR + GAP
    height = TOP + len(SETS) * step
    # A middle gray is readable on a light and on a dark page.
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}"'
        ' role="img"'
        ' aria-label="Repository sizes of restic and Cutpoint in MB">',
        "<style>text { font: 13px system-ui, sans-serif; fill: #6e7781 } .name { font-weight: 600 }</style>",
        f'<text x="{LABELS}" y="20">Repository after the last version, in MB (10^6 bytes); shorter is better</text>',
    ]
    for index, (name, title, about) in enumerate(SETS):
        top = TOP + index * step
        parts.append(f'<text class="name" x="0" y="{top + 13}">{title}</text>')
        parts.append(f'<text x="0" y="{top + 13 + BAR}">{about}</text>')
        for row, (tool, label, color) in enumerate(TOOLS):
            size = table[tool][name]
            width = round(BARS * float(size) / largest, 1)
            y = top + row * BAR
            parts.append(f'<rect x="{LABELS}" y="{y}" width="{width}" height="{BAR - 3}" fill="{color}"/>')
            parts.append(f'<text x="{LABELS + width + 6}" y="{y + 12}">{size} {label}</text>')
    return "\n".join(parts) + "\n</svg>\n"


def main():
    path, text = RESULTS / "sizes.svg", svg(sizes())
    if sys.argv[1:] == ["--check"]:
        sys.exit(
            0
            if path.is_file() and path.read_text() == text
            else f"{path.name} is not what {Path(__file__).name} writes: run it"
        )
    if sys.argv[1:]:
        sys.exit(__doc__)
    path.write_text(text)


if __name__ == "__main__":
    main()
