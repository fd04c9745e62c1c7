#!/usr/bin/env python3
"""Many versions: how a repository grows, and what its newest and its first version cost to restore.

    ./versions.py --data DATA --work DIR --bin CUTPOINT --sets BA,RDS [--at 2,10,50,100] [-- OPTIONS OF init]

Backs up DATA/SET/v01, v02, ... from one folder (so each is a version of the one before), and prints a table: after each
version of --at the size of the repository, what the last versions added on average, CPU seconds of the last backup, and
of restoring the newest and the first version (the better of two), each compared with its source. Python's standard
library only.
"""

import argparse
import filecmp
import os
import resource
import shutil
import subprocess
import sys
from pathlib import Path


def cpu_s(command, env):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    ran = subprocess.run(command, env=env, capture_output=True, text=True)
    if ran.returncode != 0:
        sys.exit(f"{' '.join(command)}: {ran.stderr}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def size(folder):
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


def same(left, right):
    compared = filecmp.dircmp(left, right)
    _, unlike, unreadable = filecmp.cmpfiles(left, right, compared.common_files, shallow=False)
    return not (compared.left_only or compared.right_only or unlike or unreadable) and all(
        same(left / name, right / name) for name in compared.common_dirs
    )


def measure(name, options, init):
    root = Path(options.work) / "versions"
    shutil.rmtree(root, ignore_errors=True)
    root.mkdir(parents=True)
    env = {
        **os.environ,
        "XDG_CACHE_HOME": str(root / "cache"),
        "XDG_STATE_HOME": str(root / "state"),
        "CUTPOINT_REPO": str(root / "repository"),
    }

    def run(*arguments):
        return cpu_s([options.bin, *arguments], env)

    run("init", "--encryption", "none", *init)
    versions = sorted((Path(options.data) / name).iterdir(), key=lambda path: int(path.name[1:]))
    source = root / "source"
    at = [int(number) for number in options.at.split(",") if int(number) <= len(versions)]
    rows, before = [], (0, 0)
    for number, version in enumerate(versions[: at[-1]], 1):
        # A bind mount would need root; a copy has the same name each time, as a backup's sources have.
        shutil.rmtree(source, ignore_errors=True)
        shutil.copytree(version, source, symlinks=True)
        backup_s = run("backup", str(source))
        if number not in at:
            continue
        bytes_now = size(root / "repository")
        logical = sum(size(path) for path in versions[:number])
        restore_s = []
        for which, expected in (("latest", version), ("first", versions[0])):
            snapshot = which if which == "latest" else oldest(options.bin, env)
            times = []
            for _ in range(2):
                shutil.rmtree(root / "out", ignore_errors=True)
                times.append(run("restore", snapshot, "--to", str(root / "out")))
            found = next(
                path
                for path in [root / "out", *(root / "out").rglob("*")]
                if path.is_dir()
                and path.name == "source"
                or any((path / child.name).exists() for child in expected.iterdir())
            )
            if not same(found, expected):
                sys.exit(f"{name}: what was restored of {expected} differs")
            restore_s.append(min(times))
        rows.append(
            (
                number,
                logical / bytes_now,
                bytes_now / 1e6,
                (bytes_now - before[1]) / (number - before[0]) / 1e6,
                backup_s,
                *restore_s,
            )
        )
        before = (number, bytes_now)
        print(f"{name} {rows[-1]}", file=sys.stderr)
    shutil.rmtree(root)
    print(
        f"\n**{name}** {' '.join(init)}\n\n"
        "| versions | logical / stored | MB | MB a version since the row before | CPU s of the last backup "
        "| of restoring the newest | the first |\n|---:|---:|---:|---:|---:|---:|---:|"
    )
    for row in rows:
        version, *figures = row
        print(
            f"| {version:d} | {figures[0]:.2f} | {figures[1]:.1f} | "
            + " | ".join(f"{each:.2f}" for each in figures[2:])
            + " |"
        )


def oldest(binary, env):
    import json

    lines = subprocess.run(
        [binary, "snapshots", "--json"], env=env, capture_output=True, text=True, check=True
    ).stdout.splitlines()
    return next(found["id"] for found in map(json.loads, lines) if "id" in found)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True)
    parser.add_argument("--work", required=True)
    parser.add_argument("--bin", required=True)
    parser.add_argument("--sets", required=True)
    parser.add_argument("--at", default="1,2,10,50,100")
    parser.add_argument("init", nargs="*")
    options = parser.parse_args()
    for name in options.sets.split(","):
        measure(name, options, options.init)


main()
