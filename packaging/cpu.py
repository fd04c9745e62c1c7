#!/usr/bin/env python3
"""Compares the CPU time of two programs, such as those linked with glibc and with musl, in backups.

Each program saves the same data into new repositories, in turns, so that a change of the machine's speed concerns both.
The times are user and system time together; the medians and their ratio are printed.
"""

import argparse
import os
import random
import shutil
import statistics
import tempfile
from pathlib import Path

DUMP_LEN = 500_000_000
WORDS = 5_000


def write_dump(path):
    """Writes rows of a table as in the dump of a database."""
    rng = random.Random(1)
    letters = "abcdefghijklmnopqrstuvwxyz"
    words = ["".join(rng.choices(letters, k=rng.randint(2, 11))) for _ in range(WORDS)]
    length = number = 0
    with open(path, "w", encoding="ascii") as dump:
        while length < DUMP_LEN:
            rows = []
            for _ in range(1000):
                number += 1
                text = " ".join(rng.choices(words, k=12))
                digest = f"{rng.getrandbits(64):016x}"
                day = f"2026-{number // 300_000 % 12 + 1:02d}-{number // 10_000 % 28 + 1:02d}"
                rows.append(f"{number}\t{rng.choice(words)}\t{digest}\t{day}\t{rng.randint(1, 99999)}\t{text}\n")
            length += dump.write("".join(rows))


def run(program, words, folder):
    """Runs the program and returns its CPU time in seconds."""
    environment = {
        "HOME": str(folder / "home"),
        "PATH": "/usr/bin:/bin",
        "CUTPOINT_REPO": str(folder / "repo"),
        "CUTPOINT_PASSPHRASE": "a passphrase of the measurement",
    }
    process = os.fork()
    if process == 0:
        null = os.open("/dev/null", os.O_RDWR)
        for stream in range(2):
            os.dup2(null, stream)
        os.execve(program, [program, "--quiet", *words], environment)
    _, status, usage = os.wait4(process, 0)
    if status != 0:
        raise SystemExit(f"{program} {' '.join(words)}: exit code {os.waitstatus_to_exitcode(status)}")
    return usage.ru_utime + usage.ru_stime


def backup(program, data, folder):
    """Saves the data in a new repository, and returns the CPU time of that alone."""
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "home").mkdir(parents=True)
    run(program, ["init"], folder)
    return run(program, ["backup", str(data)], folder)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("programs", nargs=2, type=Path, metavar="PROGRAM", help="compares the second with the first")
    parser.add_argument("--files", type=Path, required=True, help="a folder with sources, of about 500 MB")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--work", type=Path, default=Path("/dev/shm"), help="a folder in memory")
    options = parser.parse_args()
    programs = [program.resolve() for program in options.programs]
    with tempfile.TemporaryDirectory(dir=options.work) as folder:
        folder = Path(folder)
        dump = folder / "dump.sql"
        write_dump(dump)
        for name, data in [("files", options.files.resolve()), ("dump", dump)]:
            times = {program: [] for program in programs}
            for number in range(options.rounds + 1):
                for program in programs if number % 2 else programs[::-1]:
                    time = backup(program, data, folder / "trial")
                    # The first round fills the page cache.
                    if number:
                        times[program].append(time)
            medians = [statistics.median(times[program]) for program in programs]
            for program, median in zip(programs, medians, strict=True):
                values = " ".join(f"{time:.2f}" for time in times[program])
                print(f"{name}: {program}: {median:.2f} s ({values})", flush=True)
            print(f"{name}: ratio {medians[1] / medians[0]:.3f}", flush=True)


if __name__ == "__main__":
    main()
