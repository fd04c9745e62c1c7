#!/usr/bin/env python3
"""CPU time of each stage of a backup, for new, known and resembling data, and what follows for many cores.

    research/bench/stages.py --cutpoint BINARY --work DIR --data DATA SET...

For each set: a first backup of v01 (new), the same with --force-read (known), and a backup of v02 at the same path
(resembling). Each runs under `perf record` (Debian: linux-perf), which samples the CPU clock of every thread. The
stages are threads that are started in a fixed order: source (the main thread), workers, dedup, containers, put,
progress, and behind them threads that read files ahead. Prints a Markdown table: CPU seconds by stage, nanoseconds a
byte and a chunk of the two ordered stages, source and dedup, and the largest speed-up by 4, 16 and 64 cores:
min(n, all CPU time / that of the largest ordered stage), because ordered stages run beside each other. Medians of
--rounds. Chunks are those of the first backup.
"""

import argparse
import collections
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
from pathlib import Path

HERTZ = 5000
WORKERS = 2
STAGES = ("source", *["workers"] * WORKERS, "dedup", "containers", "put", "progress")
CORES = (4, 16, 64)


def samples_by_stage(script):
    """Returns the numbers of samples, of the output of `perf script` with events of threads.

    Threads count in the order in which they began, also those without a sample. A thread with a name of its own, such
    as that of signals, is no stage; its samples count as those of the main thread.
    """
    threads, named, samples = [], set(), collections.Counter()
    for line in script.splitlines():
        if match := re.search(r"PERF_RECORD_FORK\((\d+):(\d+)\):\(\1:", line):
            threads.append(match[2])
        elif match := re.search(r"PERF_RECORD_COMM: .*:(\d+)/(\d+)", line):
            named.update({match[2]} - {match[1]})
        elif match := re.search(r"(\d+)\s+cpu-clock", line):
            samples[match[1]] += 1
    stages = [thread for thread in threads if thread not in named]
    places = {thread: STAGES[number + 1] for number, thread in enumerate(stages[: len(STAGES) - 1])}
    places |= dict.fromkeys(stages[len(STAGES) - 1 :], "ahead")
    found = collections.Counter()
    for thread, count in samples.items():
        found[places.get(thread, "source")] += count
    return found


class Bench:
    def __init__(self, options, name):
        self.options, self.versions = options, sorted((options.data / name).glob("v[0-9]*"))[:2]
        self.root = options.work / "stages"
        shutil.rmtree(self.root, ignore_errors=True)
        self.root.mkdir(parents=True)
        self.source = self.root / "source"
        self.environment = os.environ | {"HOME": str(self.root / "home"), "CUTPOINT_REPO": str(self.root / "repo")}
        for variable in ("XDG_CACHE_HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME"):
            self.environment.pop(variable, None)
        self.key = ["--key-file", str(self.root / "key")]

    def show(self, version):
        shutil.rmtree(self.source, ignore_errors=True)
        shutil.copytree(version, self.source, symlinks=True)

    def call(self, command):
        done = subprocess.run(command, env=self.environment, capture_output=True, text=True, check=False)
        if done.returncode:
            sys.exit(f"{command} ended with {done.returncode}: {done.stderr[-500:]}")
        return done.stdout

    def backup(self, *words):
        """Returns the summary of a backup and the CPU seconds by stage."""
        data = self.root / "perf.data"
        record = ["perf", "record", "-q", "-e", "cpu-clock", "-F", str(HERTZ), "-o", str(data), "--"]
        command = [self.options.cutpoint, "backup", str(self.source), "--json", "--threads", str(WORKERS)]
        output = self.call([*record, *command, *self.key, *words])
        script = self.call(["perf", "script", "-i", str(data), "--show-task-events", "-F", "comm,tid,event"])
        seconds = collections.Counter()
        for stage, count in samples_by_stage(script).items():
            seconds[stage] = count / HERTZ
        return json.loads(output.strip().splitlines()[-1]), seconds

    def cases(self):
        self.call([self.options.cutpoint, "init", "--quiet", *self.key])
        self.show(self.versions[0])
        yield "new", self.backup()
        yield "known", self.backup("--force-read")
        if len(self.versions) > 1:
            self.show(self.versions[1])
            yield "resembling", self.backup()

    def remove(self):
        shutil.rmtree(self.root)


def row(name, case, runs, chunk_count):
    summary = runs[0][0]
    seconds = {stage: statistics.median(each[stage] for _, each in runs) for stage in (*STAGES, "ahead")}
    total = sum(seconds.values())
    cells = [f"{name}, {case}", f"{summary['read_bytes'] / 1e6:.0f}", f"{chunk_count:,}", f"{total:.2f}"]
    cells += [f"{seconds[stage]:.2f}" for stage in ("source", "ahead", "workers", "dedup", "containers", "put")]
    for stage in ("source", "dedup"):
        per_byte, per_chunk = (1e9 * seconds[stage] / max(1, count) for count in (summary["read_bytes"], chunk_count))
        cells.append(f"{per_byte:.2f}, {per_chunk:,.0f}")
    largest = max(seconds[stage] for stage in ("source", "dedup", "containers", "put"))
    cells.append(f"{100 * (seconds['source'] + seconds['dedup']) / total:.0f}")
    cells += [f"{min(cores, total / largest):.1f}" for cores in CORES]
    return "| " + " | ".join(cells) + " |"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sets", nargs="+", metavar="SET")
    parser.add_argument("--cutpoint", type=os.path.abspath, default="target/release/cutpoint", help="the program")
    parser.add_argument("--data", type=Path, default=Path("data"), help="folder of the data sets")
    parser.add_argument("--work", type=Path, default=Path("/dev/shm"), help="folder for copies and repositories")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    head = [
        "set, data",
        "MB",
        "chunks",
        "all, CPU s",
        "source",
        "reading ahead",
        "workers",
        "dedup",
        "containers",
        "put",
    ]
    head += ["source, ns a byte, a chunk", "dedup, ns a byte, a chunk", "both, %", *(f"{n} cores" for n in CORES)]
    print(f"| {' | '.join(head)} |\n| --- |" + " ---: |" * (len(head) - 1))
    for name in options.sets:
        runs = {}
        for _ in range(options.rounds):
            bench = Bench(options, name)
            for case, run in bench.cases():
                runs.setdefault(case, []).append(run)
            bench.remove()
        chunk_count = runs["new"][0][0]["new_chunk_count"]
        for case, each in runs.items():
            print(row(name, case, each, chunk_count), flush=True)


if __name__ == "__main__":
    main()
