#!/usr/bin/env python3
"""Measures `find` and `diff` on snapshots of many small files.

    research/scale/search.py PROGRAM FOLDER [--files 100000] [--snapshots 100]

PROGRAM is a release build of cutpoint, FOLDER an empty folder for the files and the repositories,
best in memory. Prints wall and CPU seconds and the peak memory of each command, the best of three.
"""

import argparse
import os
import pathlib
import random
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from stage import measured  # noqa: E402


def best_of(command, environment, folder, runs=3):
    """Runs a command. Returns the best cost by wall time, and the number of lines of output."""
    best = None
    for _ in range(runs):
        # 1 is the end of a `diff` that has found differences.
        cost = measured(command, environment, folder, codes=(0, 1))
        if best is None or cost.wall_s < best[0].wall_s:
            best = (cost, (folder / "log").read_bytes().count(10))
    return best


def show(name, result, note=""):
    cost, lines = result
    print(f"{name}: {cost.figures()}, {lines} lines {note}", flush=True)


def make_files(root, count):
    for number in range(count):
        folder = root / f"{number % 211:03}"
        if number < 211:
            folder.mkdir(parents=True)
        (folder / f"file-{number:06}.txt").write_text(f"file {number}\n")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--files", type=int, default=100_000)
    parser.add_argument("--snapshots", type=int, default=100)
    args = parser.parse_args()
    args.program, args.folder = os.path.realpath(args.program), args.folder.resolve()
    root, chance = args.folder / "files", random.Random(1)
    environment = dict(os.environ, XDG_CACHE_HOME=str(args.folder / "cache"))

    def measure(command):
        return best_of(command, environment, args.folder)

    def cutpoint(repository, *words):
        return [args.program, "--repo", str(args.folder / repository), *words]

    def backup(repository):
        subprocess.run(
            cutpoint(repository, "backup", "-q", str(root)),
            env=environment,
            check=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def initialize(repository):
        subprocess.run(
            cutpoint(repository, "init", "--encryption", "none"),
            env=environment,
            check=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    make_files(root, args.files)
    # Files settle after a minute.
    time.sleep(61)
    initialize("few")
    for snapshot in range(args.snapshots):
        backup("few")
        for number in chance.sample(range(args.files), args.files // 100):
            path = root / f"{number % 211:03}" / f"file-{number:06}.txt"
            path.write_text(f"file {number} in version {snapshot}\n")
    find = cutpoint("few", "find", "file-012345.txt")
    name = f"find, {args.snapshots} snapshots of {args.files} files, 1 % differ"
    show(name, measure(find))
    show("the same, all files", measure(cutpoint("few", "find", "*.txt")))
    show("diff latest~1 latest", measure(cutpoint("few", "diff", "latest~1", "latest")))

    initialize("all")
    for snapshot in range(10):
        for number in range(args.files):
            path = root / f"{number % 211:03}" / f"file-{number:06}.txt"
            os.utime(path, (snapshot, snapshot))
        backup("all")
    result = measure(cutpoint("all", "find", "file-012345.txt"))
    show(
        "find, 10 snapshots, all entries differ", result, f"({10 * args.files / result[0].cpu_s:.0f} entries per CPU s)"
    )

    make_files(args.folder / "more", 2 * args.files)
    root = args.folder / "more"
    initialize("one")
    backup("one")
    (root / "000" / "file-000000.txt").write_text("changed")
    backup("one")
    show(f"diff, {2 * args.files} files, one changed", measure(cutpoint("one", "diff", "latest~1", "latest")))


if __name__ == "__main__":
    main()
