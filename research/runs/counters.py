#!/usr/bin/env python3
"""Instructions, branches and mispredictions of plain code, counted by valgrind where a machine has no counters.

Adds rows of the kind "counters" to a folder of results. Each rule cuts two sizes of random bytes. Both runs
make the larger one, so that the difference of the counts is that of cutting the additional bytes:

    cargo build --release -p cutpoint-bench --example cut-once
    research/runs/counters.py --results RESULTS --program target/release/examples/cut-once

valgrind's model of a branch predictor (--branch-sim=yes) is simpler than a processor.
"""

import argparse
import re
import subprocess
import sys
from pathlib import Path

from rows import Results

# The rules of 002, table 6, at 2 KiB by the paper's settings. MII has no setting near 2 KiB. BFBC learns its pairs,
# so its rule is that of the results.
RULES = [
    ("Rabin (002)", 2048, "rabin:paper-gregoriadis=2048"),
    ("Buzhash (002)", 2048, "buzhash:paper=2048"),
    ("Gear (002)", 2048, "gear:paper-gregoriadis=2048"),
    ("Gear 64", 2048, "gear:bits=11,table=gearhash"),
    ("AE (002)", 2048, "ae:paper-gregoriadis=2048"),
    ("RAM (002)", 2048, "ram:paper=2048"),
    ("PCI", 2048, "pci:paper=2048"),
    ("MII", 770, "mii:paper=770,first=0"),
    ("BFBC", 2048, ""),
    ("SeqCDC", 8192, "seqcdc:paper=8192"),
    ("FastCDC", 8192, "fastcdc:paper=8192"),
]
SMALL, LARGE = 1 << 20, 3 << 20


def counted(valgrind: str, program: Path, spec: str, size: int) -> dict[str, int]:
    """Returns the instructions, branches and mispredictions of a run of the program."""
    command = [valgrind, "--tool=cachegrind", "--cache-sim=no", "--branch-sim=yes", "--cachegrind-out-file=/dev/null"]
    command += [str(program), spec, str(size), str(LARGE)]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    if run.returncode != 0:
        raise RuntimeError(f"{spec}: {run.stderr.strip().splitlines()[-1]}")
    found = {}
    for name, line in (("instructions", r"I\s+refs"), ("branches", "Branches"), ("mispredicts", "Mispredicts")):
        match = re.search(rf"{line}:\s+([\d,]+)", run.stderr)
        if match is None:
            raise RuntimeError(f"{spec}: valgrind printed no line {line!r}")
        found[name] = int(match[1].replace(",", ""))
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--results", type=Path, required=True, help="folder of results of cutpoint-lab run")
    parser.add_argument("--program", type=Path, required=True, help="the example cut-once of cutpoint-bench")
    parser.add_argument("--valgrind", default="valgrind")
    args = parser.parse_args()
    results = Results(args.results)
    failed = 0
    for algorithm, target, short in RULES:
        # The program needs the rule in full.
        spec = results.spec_of(algorithm, target) or short
        if not spec:
            print(f"{algorithm}: the results have no rule for it on RAND", file=sys.stderr)
            failed += 1
            continue
        cell = f"counters/RAND/{target}/{spec}"
        if results.has(cell):
            continue
        try:
            small, large = (counted(args.valgrind, args.program, spec, size) for size in (SMALL, LARGE))
        except RuntimeError as error:
            print(error, file=sys.stderr)
            failed += 1
            continue
        size = LARGE - SMALL
        count = {name: large[name] - small[name] for name in small}
        common = {"data": "RAND", "algorithm": algorithm, "selection": "paper", "target": target, "spec": spec}
        common |= {"level": "plain", "note": "by valgrind --branch-sim=yes"}
        results.add(
            "counters",
            cell,
            [
                common | {"metric": "instructions_a_byte", "value": count["instructions"] / size},
                common | {"metric": "branches_a_byte", "value": count["branches"] / size},
                common
                | {"metric": "mispredicted", "value": 100 * count["mispredicts"] / count["branches"], "unit": "%"},
            ],
        )
        print(f"{algorithm}: {count['instructions'] / size:.2f} instructions a byte")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
