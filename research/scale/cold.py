#!/usr/bin/env python3
"""Measures backups and restores of many small files with cold caches of the kernel.

    research/scale/cold.py PROGRAM FOLDER [--files 200000] [--delayed-files 20000] [--delay-us 1000]
                           [--runs 3] [--cases first,unchanged,restore,delayed] [--tools restic,borg]
                           [--binary restic=PATH] [--helpers FOLDER]

PROGRAM is a release build of cutpoint, FOLDER a folder on a disk, for the files and the repositories; the
files stay for the next run. Needs root, to drop the caches, and for `delayed`, /dev/fuse. Builds
helpers of the package cutpoint-scale, unless --helpers names the folder of their builds: read-folder reads
all files with several threads, write-folder writes as many, delayed-folder delays each request to a file
system. In each run, cutpoint, the other tools (of research/peers/tools.py) and plain readers and writers
alternate. The readers read all files with 1, 8 and 32 threads, or ask for their metadata if nothing has
changed. Files lie 100 in a folder, have 4 KiB on average, and compress to a third. Prints wall and CPU
seconds and peak memory of each run, and medians, with their ratio to 32 readers.
"""

import argparse
import itertools
import os
import pathlib
import random
import shutil
import statistics
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from stage import ROOT, measured  # noqa: E402
from tools import PASS, Cutpoint, find  # noqa: E402

FILES_IN_FOLDER = 100
THREADS = (1, 8, 32)
# Phrases that lines of files begin with; random bytes follow, which do not compress.
PHRASES = [random.Random(-number).randbytes(48) for number in range(1, 65)]
RANDOM_LEN = 24
# Cutpoint reads a file again whose times were younger at the last backup, because it could have changed since: a
# minute on a disk, a day by modification time alone.
SETTLED_S = 75
AGE_S = 3 * 24 * 3600


def make_files(folder, count):
    """Makes `count` files, unless they are there, and waits until their times are settled."""
    done = folder.with_suffix(".done")
    if not done.exists():
        write_files(folder, count)
        done.touch()
    time.sleep(max(0, done.stat().st_mtime + SETTLED_S - time.time()))


def write_files(folder, count):
    modified = time.time() - AGE_S
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
        file = below / f"file{number:07}"
        file.write_bytes(content)
        os.utime(file, (modified, modified))


def drop_caches():
    os.sync()
    pathlib.Path("/proc/sys/vm/drop_caches").write_text("3\n", encoding="ascii")


class CutpointByPassphrase(Cutpoint):
    """Cutpoint with a passphrase, whose key takes as long to derive as that of its peers."""

    def env(self):
        return super().env() | {"CUTPOINT_PASSPHRASE": PASS}

    def opt(self):
        return ["--repo", str(self.repo)]

    def init(self):
        return [[*super().init()[0], "--recovery-kit", str(self.root / "kit")]]


def build_helpers():
    """Builds the helpers and returns their folder."""
    subprocess.run(["cargo", "build", "--release", "-q", "-p", "cutpoint-scale", "--bins"], cwd=ROOT, check=True)
    return pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "release"


class Bench:
    """The tools in a folder on a disk. The cases yield their own name, the name of a tool and its cost."""

    def __init__(self, folder, tools, helpers=None):
        self.folder, self.tools, self.removal = folder, tools, None
        self.helpers = helpers or build_helpers()

    def measure(self, case, name, command, tool=None, folder=None):
        drop_caches()
        environment = os.environ | (tool.env() if tool else {})
        return case, name, measured(command, environment, folder or self.folder)

    def readers(self, case, source, *words):
        for threads in THREADS:
            name = f"{threads} reader{'s' if threads > 1 else ''}"
            yield self.measure(case, name, [self.helpers / "read-folder", source, str(threads), *words])

    def new_repositories(self):
        self.wait_for_removal()
        for tool in self.tools:
            tool.clear()
            for command in tool.init():
                measured(command, os.environ | tool.env(), self.folder)

    def backups(self, case, source, is_delayed=False):
        for tool in self.tools:
            command = tool.backup(str(source))
            if is_delayed and isinstance(tool, Cutpoint):
                # Change times of FUSE prove nothing, other than those of the servers that it stands for.
                command.append("--ignore-ctime")
            yield self.measure(case, tool.name, command, tool)

    def writers(self, source):
        """Plain programs that write files of the same number and mean size, and set their times."""
        files = [path for path in source.rglob("*") if path.is_file()]
        mean = sum(path.stat().st_size for path in files) // len(files)
        for threads in THREADS:
            name = f"{threads} writer{'s' if threads > 1 else ''}"
            folder = self.folder / "written" / name.replace(" ", "-")
            folder.mkdir(parents=True)
            counts = (str(threads), str(len(files)), str(mean))
            yield self.measure("restore", name, [self.helpers / "write-folder", folder, *counts])

    def restores(self):
        for tool in self.tools:
            tool.out.mkdir()
            tool.find_latest()
            yield self.measure("restore", tool.name, tool.restore(), tool, tool.out)

    def disk_run(self, source, cases=("first", "unchanged", "restore")):
        self.new_repositories()
        yield from self.readers("first", source)
        yield from self.backups("first", source)
        if "unchanged" in cases:
            yield from self.readers("unchanged", source, "stat")
            yield from self.backups("unchanged", source)
        if "restore" in cases:
            yield from self.writers(source)
            yield from self.restores()

    def delayed_run(self, source, delay_us):
        self.new_repositories()
        mounted = self.folder / "mounted"
        mounted.mkdir(exist_ok=True)
        server = subprocess.Popen([str(self.helpers / "delayed-folder"), str(source), str(mounted), str(delay_us)])
        while not os.path.ismount(mounted):
            if server.poll() is not None:
                sys.exit("delayed-folder has ended")
            time.sleep(0.05)
        try:
            yield from self.readers("delayed first", mounted)
            yield from self.backups("delayed first", mounted, is_delayed=True)
            yield from self.readers("delayed unchanged", mounted, "stat")
            yield from self.backups("delayed unchanged", mounted, is_delayed=True)
        finally:
            subprocess.run(["umount", str(mounted)], check=True)
            server.wait()

    def remove(self):
        """Begins to remove the repositories and what was restored, but not the files.

        Where a disk is told of each free block, that takes minutes for so many files.
        """
        self.wait_for_removal()
        trash = self.folder / "removed"
        trash.mkdir(exist_ok=True)
        written = self.folder / "written"
        for name, folder in [("written", written), *((tool.name, tool.root) for tool in self.tools)]:
            if folder.exists():
                folder.rename(trash / name)
        self.removal = subprocess.Popen(["nice", "-n", "19", "rm", "-rf", str(trash)])

    def wait_for_removal(self):
        if self.removal:
            self.removal.wait()
        shutil.rmtree(self.folder / "removed", ignore_errors=True)


def tools_in(folder, names, options):
    """Returns cutpoint and those of `names` that are there, each with a folder of its own below `folder`, and the
    names of the others."""
    tools, missing = find([name for name in names if name != "cutpoint"], folder, options)
    return [CutpointByPassphrase(os.path.realpath(options.cutpoint), folder / "cutpoint"), *tools], missing


def report(seconds):
    for (case, name), values in seconds.items():
        median = statistics.median(values)
        line = f"{case}: {name}: median {median:.2f} s"
        if plain := seconds.get((case, f"{THREADS[-1]} readers")):
            line += f", {median / statistics.median(plain):.2f} times {THREADS[-1]} readers"
        print(line)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cutpoint", metavar="PROGRAM")
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--files", type=int, default=200_000)
    parser.add_argument("--delayed-files", type=int, default=20_000)
    parser.add_argument("--delay-us", type=int, default=1000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--cases", default="first,unchanged,restore,delayed")
    parser.add_argument("--tools", default="", help="peers, of research/peers/tools.py (default: none)")
    parser.add_argument("--bin", help="folder with the peers' binaries under the tools' names (else PATH)")
    parser.add_argument("--binary", action="append", default=[], metavar="TOOL=PATH", help="binary of one tool")
    parser.add_argument("--helpers", type=pathlib.Path)
    args = parser.parse_args()
    cases = set(args.cases.split(","))
    folder = args.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    bench = Bench(folder, tools_in(folder, filter(None, args.tools.split(",")), args)[0], args.helpers)
    source, delayed = folder / f"files{args.files}", folder / f"files{args.delayed_files}"
    if cases - {"delayed"}:
        make_files(source, args.files)
    if "delayed" in cases:
        make_files(delayed, args.delayed_files)
    seconds = {}
    for _ in range(args.runs):
        on_disk = bench.disk_run(source, cases) if cases - {"delayed"} else ()
        from_afar = bench.delayed_run(delayed, args.delay_us) if "delayed" in cases else ()
        for case, name, cost in itertools.chain(on_disk, from_afar):
            print(f"{case}: {name}: {cost.figures()}", flush=True)
            seconds.setdefault((case, name), []).append(cost.wall_s)
        bench.remove()
    bench.wait_for_removal()
    report(seconds)


if __name__ == "__main__":
    main()
