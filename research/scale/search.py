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


def measured(command, runs=3, **options):
    """Runs a command. Returns the best wall seconds, with CPU seconds, peak KiB and output."""
    best = None
    for _ in range(runs):
        begin = time.monotonic()
        child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, **options)
        output = child.stdout.read()
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        wall = time.monotonic() - begin
        if child.returncode not in (0, 1):
            sys.exit(f"{command} ended with {child.returncode}")
        cpu = usage.ru_utime + usage.ru_stime
        if best is None or wall < best[0]:
            best = (wall, cpu, usage.ru_maxrss, output)
    return best


def show(name, result, note=""):
    wall, cpu, peak, output = result
    print(f"{name}: {wall:.2f} s, {cpu:.2f} CPU s, {peak // 1024} MiB, {output.count(10)} lines {note}", flush=True)


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
    root, chance = args.folder / "files", random.Random(1)
    environment = dict(os.environ, XDG_CACHE_HOME=str(args.folder / "cache"))

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
    show(name, measured(find, env=environment))
    show("the same, all files", measured(cutpoint("few", "find", "*.txt"), env=environment))
    show("diff latest~1 latest", measured(cutpoint("few", "diff", "latest~1", "latest"), env=environment))

    initialize("all")
    for snapshot in range(10):
        for number in range(args.files):
            path = root / f"{number % 211:03}" / f"file-{number:06}.txt"
            os.utime(path, (snapshot, snapshot))
        backup("all")
    result = measured(cutpoint("all", "find", "file-012345.txt"), env=environment)
    show("find, 10 snapshots, all entries differ", result, f"({10 * args.files / result[1]:.0f} entries per CPU s)")

    make_files(args.folder / "more", 2 * args.files)
    root = args.folder / "more"
    initialize("one")
    backup("one")
    (root / "000" / "file-000000.txt").write_text("changed")
    backup("one")
    show(
        f"diff, {2 * args.files} files, one changed",
        measured(cutpoint("one", "diff", "latest~1", "latest"), env=environment),
    )


if __name__ == "__main__":
    main()
