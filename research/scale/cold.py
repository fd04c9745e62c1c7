#!/usr/bin/env python3
"""Measures backups and restores of many small files with cold caches of the kernel.

    research/scale/cold.py PROGRAM FOLDER [--files 200000] [--delayed-files 20000] [--delay-us 1000]
                           [--runs 3] [--cases first,unchanged,restore,delayed] [--restic restic]
                           [--helpers FOLDER]

PROGRAM is a release build of cutpoint, FOLDER a folder on a disk, for the files and the repositories; the
files stay for the next run. Needs root, to drop the caches, and for `delayed`, /dev/fuse. Builds two
helpers of the package cutpoint-scale, unless --helpers names the folder of their builds: read-folder reads
all files with several threads, delayed-folder delays each request to a file system. In each run, cutpoint,
restic and plain readers alternate. The readers read all files with 1, 8 and 32 threads, or ask for their
metadata if nothing has changed. Files lie 100 in a folder, have 4 KiB on average, and compress to a third.
Prints wall and CPU seconds and peak memory of each run, and medians, with their ratio to 32 readers.
"""

import argparse
import os
import pathlib
import random
import shutil
import statistics
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from stage import ROOT, timed  # noqa: E402

TIMEOUT_S = 3600
FILES_IN_FOLDER = 100
THREADS = (1, 8, 32)
# Phrases that lines of files begin with; random bytes follow, which do not compress.
PHRASES = [random.Random(-number).randbytes(48) for number in range(1, 65)]
RANDOM_LEN = 24


def make_files(folder, count):
    """Makes `count` files, unless they are there."""
    done = folder.with_suffix(".done")
    if done.exists():
        return
    shutil.rmtree(folder, ignore_errors=True)
    for number in range(count):
        if number % FILES_IN_FOLDER == 0:
            below = folder / f"folder{number // FILES_IN_FOLDER:05}"
            below.mkdir(parents=True)
        choice = random.Random(number)
        lines = choice.randrange(28, 85)
        random_bytes = choice.randbytes(lines * RANDOM_LEN)
        content = b"".join(
            choice.choice(PHRASES) + random_bytes[at : at + RANDOM_LEN]
            for at in range(0, len(random_bytes), RANDOM_LEN)
        )
        (below / f"file{number:07}").write_bytes(content)
    done.touch()


def drop_caches():
    os.sync()
    pathlib.Path("/proc/sys/vm/drop_caches").write_text("3\n", encoding="ascii")


class Bench:
    """The programs, and what they took."""

    def __init__(self, args):
        self.args, self.folder = args, args.folder.resolve()
        self.seconds = {}
        self.environment = os.environ | {"CUTPOINT_PASSPHRASE": "secret", "RESTIC_PASSWORD": "secret"}
        for name in ("XDG_CACHE_HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME"):
            self.environment[name] = str(self.folder / name)
        self.helpers = args.helpers
        if not self.helpers:
            build = ["cargo", "build", "--release", "-q", "-p", "cutpoint-scale", "--bins"]
            subprocess.run(build, cwd=ROOT, check=True)
            self.helpers = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "release"

    def ours(self, *words):
        return [os.path.realpath(self.args.program), "--repo", self.folder / "ours", *words]

    def theirs(self, *words):
        return [self.args.restic, "-r", self.folder / "theirs", *words]

    def run(self, command):
        """Runs a command. Returns its cost."""
        cost = timed(command, self.environment, self.folder, TIMEOUT_S)
        if cost.failure:
            sys.exit(f"{command}: {cost.failure}")
        return cost

    def measure(self, case, name, command):
        drop_caches()
        cost = self.run(command)
        figures = f"{cost.wall_s:.2f} s, {cost.cpu_s:.2f} CPU s, {cost.rss_bytes >> 20} MiB"
        print(f"{case}: {name}: {figures}", flush=True)
        self.seconds.setdefault((case, name), []).append(cost.wall_s)

    def readers(self, case, source, *words):
        for threads in THREADS:
            self.measure(case, f"{threads} readers", [self.helpers / "read-folder", source, threads, *words])

    def new_repositories(self):
        for name in ("ours", "theirs", "kit"):
            path = self.folder / name
            shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
        self.run(self.ours("init", "--recovery-kit", self.folder / "kit"))
        if self.args.restic:
            self.run(self.theirs("init"))

    def backups(self, case, source, *words):
        self.measure(case, "cutpoint", self.ours("backup", "-q", *words, source))
        if self.args.restic:
            self.measure(case, "restic", self.theirs("backup", "-q", source))

    def restores(self):
        out = self.folder / "restored"
        shutil.rmtree(out, ignore_errors=True)
        self.measure("restore", "cutpoint", self.ours("restore", "-q", "latest", "--to", out))
        shutil.rmtree(out)
        if self.args.restic:
            self.measure("restore", "restic", self.theirs("restore", "-q", "latest", "--target", out))
            shutil.rmtree(out)

    def disk_run(self, source):
        self.new_repositories()
        self.readers("first", source)
        self.backups("first", source)
        if "unchanged" in self.args.cases:
            self.readers("unchanged", source, "stat")
            self.backups("unchanged", source)
        if "restore" in self.args.cases:
            self.restores()

    def delayed_run(self, source):
        self.new_repositories()
        mounted = self.folder / "mounted"
        mounted.mkdir(exist_ok=True)
        command = [str(self.helpers / "delayed-folder"), str(source), str(mounted), str(self.args.delay_us)]
        server = subprocess.Popen(command)
        while not os.path.ismount(mounted):
            if server.poll() is not None:
                sys.exit("delayed-folder has ended")
            time.sleep(0.05)
        try:
            self.readers("delayed first", mounted)
            self.backups("delayed first", mounted)
            self.readers("delayed unchanged", mounted, "stat")
            self.backups("delayed unchanged", mounted)
        finally:
            subprocess.run(["umount", str(mounted)], check=True)
            server.wait()

    def report(self):
        for (case, name), seconds in self.seconds.items():
            median = statistics.median(seconds)
            line = f"{case}: {name}: median {median:.2f} s"
            if plain := self.seconds.get((case, f"{THREADS[-1]} readers")):
                line += f", {median / statistics.median(plain):.2f} times {THREADS[-1]} readers"
            print(line)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--files", type=int, default=200_000)
    parser.add_argument("--delayed-files", type=int, default=20_000)
    parser.add_argument("--delay-us", type=int, default=1000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--cases", default="first,unchanged,restore,delayed")
    parser.add_argument("--restic")
    parser.add_argument("--helpers", type=pathlib.Path)
    args = parser.parse_args()
    args.cases = set(args.cases.split(","))
    args.folder.mkdir(parents=True, exist_ok=True)
    bench = Bench(args)
    source, delayed = bench.folder / f"files{args.files}", bench.folder / f"files{args.delayed_files}"
    if args.cases - {"delayed"}:
        make_files(source, args.files)
    if "delayed" in args.cases:
        make_files(delayed, args.delayed_files)
    for _ in range(args.runs):
        if args.cases - {"delayed"}:
            bench.disk_run(source)
        if "delayed" in args.cases:
            bench.delayed_run(delayed)
    bench.report()


if __name__ == "__main__":
    main()
