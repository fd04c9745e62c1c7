#!/usr/bin/env python3
"""The CPU time of checksums in backups by BURST and its variants, beside plain deduplication of blocks (004, table 2).

Adds rows of the kind "backup" to a folder of results: for each size of blocks and variant, all versions of a data set
are saved into a new repository, one after another, each under `perf record`, which samples the CPU clock. The CPU time
of checksums is that of functions of BLAKE3 (blocks) and XXH3 (heads and tails; also the checksums of objects).
Repositories are not encrypted. Needs perf (Debian: linux-perf), and a program with symbols.

    cargo build --release -p cutpoint --bin cutpoint
    research/runs/burst_cpu.py --results RESULTS --data DATA --work /dev/shm --program target/release/cutpoint
"""

import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from rows import Results, backup_parser, homes, spread, versions_of

HERTZ = 5000
VARIANTS = [
    ("legacy", "off"),
    ("BURST 255", "burst:tau=1/8,c_max=255,variant=burst"),
    ("BURST-Head 255", "burst:tau=1/8,c_max=255,variant=head"),
    ("BURST-Raw 255", "burst:c_max=255,variant=raw"),
    ("BURST-Head-Raw 255", "burst:c_max=255,variant=head-raw"),
]
CHECKSUM = re.compile(r"blake3|xxh3|xxhash|fingerprint", re.IGNORECASE)


def call(command: list[str], environment: dict[str, str]) -> str:
    """Runs a command, and returns its output."""
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip()[-500:]}")
    return done.stdout


def seconds(program: str, folder: Path, source: Path, environment: dict[str, str]) -> tuple[float, float]:
    """Saves a version, and returns the CPU seconds of checksums and of everything."""
    data = str(folder / "perf.data")
    record = ["perf", "record", "-q", "-e", "cpu-clock", "-F", str(HERTZ), "-o", data, "--"]
    call([*record, program, "backup", "--quiet", str(source)], environment)
    symbols = call(["perf", "script", "-i", data, "-F", "ip,sym"], environment).splitlines()
    checksums = sum(bool(CHECKSUM.search(line)) for line in symbols)
    return checksums / HERTZ, len(symbols) / HERTZ


def main() -> int:
    parser = backup_parser(__doc__)
    parser.add_argument("--set", default="VM", dest="name")
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    results = Results(args.results)
    program = str(args.program.resolve())
    versions = versions_of(args.name, args.data)
    if not versions:
        return 1
    for block in (4096, 16384):
        cell = f"backup/burst-cpu/{args.name}/{block}/{args.rounds}"
        if results.has(cell):
            continue
        began, samples = time.monotonic(), {}
        for number in range(args.rounds):
            for place in range(len(VARIANTS)):
                name, delta = VARIANTS[(place + number) % len(VARIANTS)]
                with tempfile.TemporaryDirectory(dir=args.work) as folder:
                    environment = os.environ | homes(folder) | {"CUTPOINT_REPO": f"{folder}/repository"}
                    cut = ["--cut", f"fixed:size={block}", "--delta", delta]
                    call([program, "init", "--quiet", "--encryption", "none", *cut], environment)
                    of_each = [seconds(program, Path(folder), version, environment) for version in versions]
                for metric, times in zip(("checksum_time", "cpu_time"), zip(*of_each, strict=True), strict=True):
                    samples.setdefault((name, metric), []).append(sum(times))
        rows = [
            {"data": args.name, "algorithm": name, "target": block, "metric": metric, "unit": "s"} | spread(times)
            for (name, metric), times in samples.items()
        ]
        results.add("backup", cell, rows, time.monotonic() - began)
        for row in rows:
            print(f"{row['algorithm']} {block}: {row['metric']} {row['value']:.2f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
