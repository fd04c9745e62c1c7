#!/usr/bin/env python3
"""Estimates beside what backups then take.

    ./estimates.py --data DATA --work DIR --bin CUTPOINT --sets CODE,WEB [--versions N]

For each set, `cutpoint estimate` counts what the default mode stores: for one run over all versions, and with
--as-versions. Then real repositories with the default settings are made, in both ways; each version is mounted at one
and the same path (as root), or copied there. Prints a Markdown table: sizes of the repositories, estimated and real,
and the largest error of what a single version adds; then CPU seconds and the most memory of the table of algorithms
alone (--no-default-mode), of the estimates, and of the backups. Python's standard library only.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

from files import size
from source import Source, can_bind

MIB = 1 << 20


class Run:
    """A command: its events, its CPU seconds, and its most memory in bytes."""

    def __init__(self, command, env):
        process = subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        out = process.stdout.read()
        err = process.stderr.read()
        _, status, used = os.wait4(process.pid, 0)
        if os.waitstatus_to_exitcode(status) != 0:
            sys.exit(f"{' '.join(command)}: {err}")
        self.events = [json.loads(line) for line in out.splitlines()]
        self.cpu_s = used.ru_utime + used.ru_stime
        self.memory = used.ru_maxrss * 1024


class Bench:
    def __init__(self, options):
        self.options = options
        self.root = Path(options.work) / "estimates"
        shutil.rmtree(self.root, ignore_errors=True)
        (self.root / "scratch").mkdir(parents=True)
        self.mode = "bind" if can_bind(self.root) else "sync"
        self.key = self.root / "key"

    def env(self, repository):
        return {
            **os.environ,
            "XDG_CACHE_HOME": str(self.root / "cache"),
            "XDG_STATE_HOME": str(self.root / "state"),
            "CUTPOINT_REPO": str(repository),
        }

    def estimate(self, paths, *arguments):
        command = [self.options.bin, "estimate", "--json", *arguments, *map(str, paths)]
        run = Run(command, self.env(self.root / "none"))
        return [event for event in run.events if event["type"] == "default_mode"], run

    def repository(self, name):
        """An empty repository with the default settings."""
        folder = self.root / name
        for gone in (folder, self.root / "cache", self.root / "state"):
            shutil.rmtree(gone, ignore_errors=True)
        Run([self.options.bin, "init", "--json", "--key-file", str(self.key)], self.env(folder))
        return folder

    def back_up(self, folder, paths):
        command = [self.options.bin, "backup", "--json", "--key-file", str(self.key), *map(str, paths)]
        return Run(command, self.env(folder))

    def measure(self, name):
        versions = sorted((Path(self.options.data) / name).iterdir())[: self.options.versions]
        table = self.estimate(versions, "--no-default-mode")[1]
        one, one_run = self.estimate(versions)
        scratch = ("--as-versions", "--scratch", str(self.root / "scratch"))
        each, each_run = self.estimate(versions, *scratch)
        folder = self.repository("one")
        real = self.back_up(folder, versions)
        one_size = size(folder)[0]
        shutil.rmtree(folder)
        folder = self.repository("each")
        source = Source(self.mode, self.options.data, name, self.root)
        sizes, cpu_s, memory = [], 0, 0
        try:
            for version in versions:
                source.show(version.name)
                run = self.back_up(folder, [source.path])
                cpu_s, memory = cpu_s + run.cpu_s, max(memory, run.memory)
                sizes.append(size(folder)[0])
        finally:
            source.close()
        shutil.rmtree(folder)
        added = [after - before for before, after in zip([0, *sizes[:-1]], sizes, strict=True)]
        errors = [found["added_bytes"] / truth - 1 for found, truth in zip(each, added, strict=True)]
        read = one[-1]["size_bytes"]
        return {
            "set": name,
            "size": read,
            "one": (one[-1]["stored_bytes"], one_size),
            "each": (each[-1]["stored_bytes"], sizes[-1]),
            "worst": max(errors, key=abs),
            "table": table,
            "one_run": one_run,
            "each_run": each_run,
            "real_run": real,
            "real_each": (cpu_s, memory),
        }


def mib(count):
    return f"{count / MIB:,.1f}"


def error(pair):
    return f"{(pair[0] / pair[1] - 1) * 100:+.1f} %"


def main():
    parser = argparse.ArgumentParser(
        description=__doc__.split("\n\n")[0], epilog=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", required=True)
    parser.add_argument("--work", required=True)
    parser.add_argument("--bin", required=True)
    parser.add_argument("--sets", required=True)
    parser.add_argument("--versions", type=int)
    options = parser.parse_args()
    bench = Bench(options)
    rows = []
    for name in options.sets.split(","):
        rows.append(bench.measure(name))
        print(f"{name} is measured", file=sys.stderr, flush=True)
    print("| set | MiB | one run: estimated | real | error | versions: estimated | real | error | worst version |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    for row in rows:
        cells = [row["set"], mib(row["size"])]
        for pair in (row["one"], row["each"]):
            cells += [mib(pair[0]), mib(pair[1]), error(pair)]
        cells.append(f"{row['worst'] * 100:+.1f} %")
        print("| " + " | ".join(cells) + " |")
    print()
    print("| CPU s; most MiB | table alone | with one run | with versions | backup, one run | backups, versions |")
    print("| --- | ---: | ---: | ---: | ---: | ---: |")
    for row in rows:
        runs = [row["table"], row["one_run"], row["each_run"], row["real_run"]]
        used = [(run.cpu_s, run.memory) for run in runs] + [row["real_each"]]
        cells = [row["set"], *(f"{cpu_s:.1f}; {memory / MIB:.0f}" for cpu_s, memory in used)]
        print("| " + " | ".join(cells) + " |")
    shutil.rmtree(bench.root)


if __name__ == "__main__":
    main()
