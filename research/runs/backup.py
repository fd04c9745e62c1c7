#!/usr/bin/env python3
"""The throughput of a whole backup with each chunker, which papers measure without the rest of a system.

Adds rows of the kind "backup" to a folder of results: for each data set and chunker, a backup of the first version
and of the last into a new repository, in GB a second of CPU time of the process and of wall time, and what is saved.

    cargo build --release -p cutpoint --bin cutpoint
    research/runs/backup.py --results RESULTS --data DATA --work /dev/shm --program target/release/cutpoint
"""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from disk import commit_of
from rows import Results, backup_parser, homes, spread, versions_of

CHUNKERS = [
    ("Fixed", "fixed:size=8192"),
    ("SeqCDC", "seqcdc:avg=8k"),
    ("FastCDC", "fastcdc:avg=8k"),
    ("Gear", "gear:avg=8k,max=64k"),
    ("Rabin", "rabin:avg=8k,max=64k"),
    ("AE", "ae:avg=8k,max=64k"),
    ("RAM", "ram:avg=8k,max=64k"),
]
SETS = ["CODETAR", "DEB", "VM"]


def timed(command: list[str], environment: dict[str, str]) -> tuple[float, float]:
    """Runs a command, and returns its CPU seconds and its wall seconds."""
    began = time.monotonic()
    process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    error = process.stderr.read()
    _, status, usage = os.wait4(process.pid, 0)
    if os.waitstatus_to_exitcode(status) != 0:
        raise RuntimeError(f"{' '.join(command)}: {error.decode(errors='replace').strip()}")
    return usage.ru_utime + usage.ru_stime, time.monotonic() - began


def size_below(folder: Path) -> int:
    """Returns the number of bytes of the files below a folder."""
    return sum(path.lstat().st_size for path in folder.rglob("*") if path.is_file() and not path.is_symlink())


def main() -> int:
    parser = backup_parser(__doc__)
    parser.add_argument("--sets", default=",".join(SETS))
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    results = Results(args.results, commit=commit_of(args.program.resolve()))
    failed = 0
    for data in args.sets.split(","):
        versions = versions_of(data, args.data)
        if not versions:
            failed += 1
            continue
        steps = [("first", versions[0]), ("last", versions[-1])]
        bytes_of = {name: size_below(path) for name, path in steps}
        samples: dict[tuple[str, str, str], list[float]] = {}
        stored: dict[str, int] = {}
        cell = f"backup/{data}/{args.rounds}"
        if results.has(cell):
            continue
        began = time.monotonic()
        for number in range(args.rounds + 1):
            for place in range(len(CHUNKERS)):
                name, spec = CHUNKERS[(place + number) % len(CHUNKERS)]
                with tempfile.TemporaryDirectory(dir=args.work) as folder:
                    environment = os.environ | homes(folder)
                    repository = Path(folder) / "repository"
                    cutpoint = [str(args.program.resolve()), "--repo", str(repository)]
                    kit = str(Path(folder) / "kit.txt")
                    timed([*cutpoint, "init", "--for-machine", "--recovery-kit", kit, "--cut", spec], environment)
                    for step, source in steps:
                        command = [*cutpoint, "--key-file", str(Path(folder) / "cutpoint" / "machine.key"), "backup"]
                        cpu, wall = timed([*command, str(source)], environment)
                        if number > 0:
                            samples.setdefault((name, step, "cpu"), []).append(bytes_of[step] / 1e9 / cpu)
                            samples.setdefault((name, step, "wall"), []).append(bytes_of[step] / 1e9 / wall)
                    stored[name] = size_below(repository)
                    shutil.rmtree(repository)
        rows = []
        for (name, step, clock), speeds in samples.items():
            row = {"data": data, "algorithm": name, "selection": "equal", "target": 8192, "spec": dict(CHUNKERS)[name]}
            rows.append(row | {"metric": f"{clock}_throughput", "variant": step, "unit": "GB/s"} | spread(speeds))
        for name, size in stored.items():
            row = {"data": data, "algorithm": name, "selection": "equal", "target": 8192, "spec": dict(CHUNKERS)[name]}
            rows.append(row | {"metric": "stored_bytes", "value": size, "unit": "bytes"})
        results.add("backup", cell, rows, time.monotonic() - began)
        print(f"{data}: {len(rows)} rows")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
