#!/usr/bin/env python3
"""A backup of known data beside what reading, cutting and fingerprinting it cost together, in one run.

    ./reread.py --file FILE --work DIR --cutpoint BINARY --parts BINARY [--rounds 5]

FILE is saved once; then, in turns, BINARY of `cargo build --release -p cutpoint-backup --example parts` and a backup
with
--force-read, that finds every chunk known. CPU is user + system of the whole process. Python's standard library only.
"""

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
from pathlib import Path


def cpu(cmd):
    """CPU seconds of a command and what it printed."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    out = subprocess.run(cmd, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True, text=True).stdout
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, out


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("file", "work", "cutpoint", "parts"):
        p.add_argument(f"--{name}", type=Path, required=True)
    p.add_argument("--rounds", type=int, default=5)
    a = p.parse_args()
    work = a.work.resolve()
    work.mkdir(parents=True, exist_ok=True)
    os.environ |= {"HOME": str(work / "home"), "CUTPOINT_REPO": str(work / "repo")}
    backup = [a.cutpoint.resolve(), "backup", a.file.resolve(), "--key-file", work / "key", "--json"]
    cpu([*backup, "--init"])
    size = a.file.stat().st_size
    parts, whole, read = [], [], []
    for _ in range(a.rounds):
        row = json.loads(cpu([a.parts.resolve(), a.file, "1"])[1])
        parts.append(row["read_cut_fingerprint_cpu_s"])
        read.append(row["read_cpu_s"])
        seconds, out = cpu([*backup, "--force-read"])
        summary = json.loads(out.strip().splitlines()[-1])
        if summary["new_bytes"] or summary["read_bytes"] != size:
            sys.exit(f"not a backup of known data: {summary}")
        whole.append(seconds)
    gb = size / 1e9
    m = statistics.median
    print(f"{gb:.2f} GB, {a.rounds} rounds, medians of CPU time")
    print(f"reading                               {gb / m(read):6.2f} GB/s")
    print(f"reading, cutting, fingerprinting      {gb / m(parts):6.2f} GB/s")
    print(f"backup of known data, whole process   {gb / m(whole):6.2f} GB/s, {m(parts) / m(whole):.2f} of that")


if __name__ == "__main__":
    main()
