#!/usr/bin/env python3
"""The tables of research/results/seqcdc-loss.md: which part of SeqCDC costs savings.

    cargo build --release -p cutpoint-bench --example seqcdc-loss
    research/runs/seqcdc_loss.py --program target/release/examples/seqcdc-loss --data FOLDER --rows FILE

Data sets and means whose lines are in the file of rows are not measured again. The fields of a line are data set, mean,
rule, measured mean, smallest and largest size, and the figures of FIGURES.
"""

import argparse
import subprocess
import sys
from pathlib import Path

SETS = ["WEB", "DEB", "CODETAR", "SQLITE", "DEV", "VM"]
MEANS = [4096, 8192, 16384]
# The name of a figure, its place in a line, and the decimals of its table.
FIGURES = {
    "savings, %": (6, 2),
    "bytes looked at, % (0: not counted)": (7, 1),
    "bytes in chunks of the largest size, %": (8, 1),
    "mean distance of agreement behind an edit, in means": (10, 2),
    "95th percentile of that distance": (11, 1),
}


def read(path: Path) -> list[list[str]]:
    """Returns the fields of each line, none if there is no such file."""
    return [line.split("\t") for line in path.read_text().splitlines()] if path.exists() else []


def measure(args: argparse.Namespace) -> None:
    """Adds the lines of all data sets and means that the file of rows lacks."""
    for mean in args.means:
        for name in args.sets:
            if any(fields[:2] == [name, str(mean)] for fields in read(args.rows)):
                continue
            command = [args.program, args.part, str(mean), str(args.bytes), args.data / name]
            found = subprocess.run(command, capture_output=True, text=True, check=True)
            with args.rows.open("a") as file:
                file.write(found.stdout)


def table(lines: list[list[str]], mean: int, sets: list[str], place: int, decimals: int) -> str:
    """Returns the table of one figure at one mean: a row for each rule, a column for each data set."""
    here = {(fields[2], fields[0]): fields for fields in lines if fields[1] == str(mean) and len(fields) > place}
    rules = list(dict.fromkeys(rule for rule, _ in here))
    text = f"| rule | {' | '.join(sets)} | mean |\n| --- | {' | '.join('---:' for _ in sets)} | ---: |\n"
    for rule in rules:
        found = [here.get((rule, name)) for name in sets]
        numbers = [float(fields[place]) if fields else None for fields in found]
        cells = ["-" if number is None else f"{number:.{decimals}f}" for number in numbers]
        known = [number for number in numbers if number is not None]
        whole = f"{sum(known) / len(known):.{decimals}f}" if len(known) == len(sets) else "-"
        text += f"| {rule} | {' | '.join(cells)} | {whole} |\n"
    return text


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--program", type=Path, required=True, help="the example seqcdc-loss of cutpoint-bench")
    parser.add_argument("--data", type=Path, required=True, help="folder of data sets")
    parser.add_argument("--rows", type=Path, required=True, help="file of lines, which grows")
    parser.add_argument("--part", default="factors", choices=["factors", "skips", "grid"])
    parser.add_argument("--sets", nargs="+", default=SETS)
    parser.add_argument("--means", nargs="+", type=int, default=MEANS)
    parser.add_argument("--bytes", type=int, default=60_000_000, help="of each set, divided among its versions")
    args = parser.parse_args()
    measure(args)
    lines = read(args.rows)
    for mean in args.means:
        for name, (place, decimals) in FIGURES.items():
            print(f"### {mean // 1024} KiB: {name}\n\n{table(lines, mean, args.sets, place, decimals)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
