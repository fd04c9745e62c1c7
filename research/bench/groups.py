"""The groups of rows of the benchmark: what each measures, and on which sets."""

import argparse
import os
import shutil
import statistics
import sys
import types

from chain import Chain
from cold import Bench as ColdBench
from cold import make_files, tools_in
from far import Far
from files import size
from stage import SkippedError
from steps import STEPS
from steps import Bench as StepBench
from versions import Growth, versions_of

SIZES = ("CODETAR", "CODE", "RDS", "BA", "SQLITE", "JS", "WEB", "SQLDUMP", "PG", "DEB", "VM", "RAND")
EIGHT = ("CODETAR", "CODE", "RDS", "BA", "SQLITE", "JS", "WEB", "SQLDUMP")
ONE_RUN = ("CODETAR", "JS", "WEB", "SQLDUMP")
ADVERSARIAL = ("AD-SCRAPS", "AD-EXTENTS", "AD-ENDS")
# Sets of many small versions, which `tool data` builds into the folder `many` of the data.
MANY, MANY_COUNT = ("RDS", "BA"), 50
# The round of what is measured once: the start of tools, and what is the same each time.
ONCE = 0


class Group:
    """Rows that are measured together. A unit of work is one set in one round."""

    name = title = about = ""
    # The groups of versioned sets take the sets that --sets names.
    candidates = ()

    def __init__(self, options):
        self.options = options

    def units(self):
        """Returns the sets and rounds, in order of rounds."""
        sets = self.sets()
        return [(set_, round_) for round_ in range(1, self.options.rounds + 1) for set_ in sets]

    def sets(self):
        wanted = self.options.sets
        if not wanted:
            return [name for name in self.candidates if self.versions(name)]
        return [name for name in wanted if name in self.candidates]

    def missing(self):
        """Returns the sets that would be measured if they were there."""
        return [name for name in self.candidates if not self.versions(name)] if not self.options.sets else []

    def versions(self, name):
        return versions_of(self.options.data / name)[: self.options.versions or None]

    def measure(self, set_, round_):
        """Yields the rows of a unit. Raises `SkippedError` if it cannot be measured here."""
        raise NotImplementedError

    def tools(self):
        """Returns the versions of the measured programs, and the names of those that are not there."""
        return {}, []

    def close(self):
        pass


class Versioned(Group):
    """Tools that save the versions of a set one after the other, in turns at each step."""

    kinds = ("cutpoint", "cutpoint-exact")
    with_peers = True
    steps = STEPS
    one_run = False
    # The level of the chain of patches beside them.
    level = None

    def __init__(self, options):
        super().__init__(options)
        names = [*self.kinds, *(options.tools if self.with_peers else ())]
        settings = {"work": options.work, "tools": ",".join(names), "cutpoint": options.cutpoint, "bin": options.bin}
        settings |= {"binary": options.binary, "data": options.data, "versions": options.versions, "source": None}
        settings |= {"one_run": self.one_run, "cold": False, "timeout": options.timeout, "out": [], "sets": ""}
        self.settings = argparse.Namespace(**settings)
        self.bench = None

    def tools(self):
        self.start()
        return self.bench.versions, self.bench.missing

    def start(self):
        if not self.bench:
            self.bench = StepBench(self.settings, self.steps)

    def units(self):
        units = super().units()
        if self.level:
            units += [(set_, ONCE) for set_ in self.sets()]
        return units

    def measure(self, set_, round_):
        if round_ == ONCE and set_ != "ONE":
            yield from Chain(self.options.work, self.level).rows(self.versions(set_))
            return
        self.start()
        if not self.bench.tools:
            raise SkippedError("none of the tools is there")
        self.settings.versions = len(self.versions(set_))
        self.bench.rows = []
        if set_ == "ONE":
            self.bench.baseline()
        else:
            self.bench.one_set(set_, round_)
        yield from self.bench.rows

    def close(self):
        if self.bench:
            shutil.rmtree(self.bench.work, ignore_errors=True)


class Sizes(Versioned):
    name, title = "sizes", "Versioned sets"
    about = "size, CPU time and memory of versioned sets, with and without delta chunks, and a chain of zstd -3"
    candidates = SIZES
    level = 3

    def sets(self):
        wanted = self.options.sets
        return [name for name in wanted if not name.startswith("AD-")] if wanted else super().sets()

    def units(self):
        return [("ONE", ONCE), *super().units()] if self.sets() else []


class Max(Versioned):
    name, title = "max", "Smallest size"
    about = "size by --mode max and after optimize, beside a chain of zstd -19 (slow: one round)"
    candidates = EIGHT
    kinds = ("cutpoint-max",)
    with_peers = False
    steps = ("optimize",)
    level = 19
    # zstd -19 takes a second for 1.4 MB: of a larger set, the first versions are measured.
    logical_len_max = 160 << 20

    def units(self):
        return [(set_, round_) for set_ in self.sets() for round_ in (1, ONCE)]

    def versions(self, name):
        chosen, length = [], 0
        for version in super().versions(name):
            length += size(version)[0]
            if len(chosen) >= 2 and length > self.logical_len_max:
                break
            chosen.append(version)
        return chosen


class Adversarial(Versioned):
    name, title = "adversarial", "Adversarial inputs"
    about = "CPU time of later versions of inputs that cost delta encoding most"
    candidates = ADVERSARIAL
    steps = ()


class OneRun(Versioned):
    name, title = "one-run", "All versions in one run"
    about = "size of all versions of a set as one folder, saved once, beside the same versions in order (group sizes)"
    candidates = ONE_RUN
    steps = ("restore",)
    one_run = True

    def measure(self, set_, round_):
        if os.geteuid():
            raise SkippedError("a bind mount needs root")
        if self.options.versions:
            raise SkippedError("one run saves all versions, and --versions leaves some out")
        yield from super().measure(set_, round_)


class Newest(Group):
    name, title = "newest", "The newest of many versions"
    about = f"CPU time of restoring the newest of {MANY_COUNT} versions beside the second"
    candidates = MANY

    def versions(self, name):
        many = versions_of(self.options.data / "many" / name)
        return (many or versions_of(self.options.data / name))[:MANY_COUNT]

    def measure(self, set_, round_):
        versions = self.versions(set_)
        growth = Growth(self.options.cutpoint, self.options.work)
        try:
            for row in growth.rows(versions, {2, len(versions)}):
                yield {"tool": "cutpoint", "step": "restore", **row}
        finally:
            growth.remove()


class Cold(Group):
    name, title = "cold", "Many small files, cold caches"
    about = "first and unchanged backup and restore of small files on a disk, the kernel's caches dropped (root)"

    def __init__(self, options):
        super().__init__(options)
        self.folder = options.disk / "benchmark" / self.name
        self.bench = None

    def file_count(self):
        return self.options.parts.cold_files

    def peers(self):
        return self.options.tools

    def sets(self):
        return [f"files{self.file_count()}"]

    def missing(self):
        return []

    def start(self):
        if os.geteuid():
            raise SkippedError("dropping the kernel's caches needs root")
        if not self.bench:
            self.folder.mkdir(parents=True, exist_ok=True)
            tools, missing = tools_in(self.folder, self.peers(), self.options)
            self.bench, self.missing_tools = ColdBench(self.folder, tools, self.options.helpers), missing

    def source(self):
        source = self.folder / self.sets()[0]
        make_files(source, self.file_count())
        return source

    def measure(self, set_, round_):
        self.start()
        yield from map(cold_row, self.run(self.source()))
        self.bench.remove()

    def run(self, source):
        return self.bench.disk_run(source)

    def tools(self):
        self.start()
        return {tool.name: tool.version() for tool in self.bench.tools}, self.missing_tools

    def close(self):
        if self.bench:
            self.bench.remove()
            print(f"{self.name}: removing what was restored", file=sys.stderr)
            self.bench.wait_for_removal()


class Delayed(Cold):
    name, title = "delayed", "Small files, 1 ms an operation"
    about = "first and unchanged backup of small files on a file system that delays each request by 1 ms (FUSE, root)"

    def file_count(self):
        return self.options.parts.delayed_files

    def peers(self):
        # Others wait for each request before they send the next, and take minutes.
        return [name for name in self.options.tools if name.startswith("restic")]

    def start(self):
        if not os.access("/dev/fuse", os.W_OK):
            raise SkippedError("/dev/fuse is not there")
        super().start()

    def run(self, source):
        return self.bench.delayed_run(source, 1000)


def cold_row(measured):
    case, name, cost = measured
    step = case.removeprefix("delayed ")
    return {"tool": name, "step": step, "wall": cost.wall_s, "cpu": cost.cpu_s, "rss": cost.rss_bytes}


class FarGroup(Group):
    name, title = "far", "Random bytes far away"
    about = "first backup and restore of random bytes over S3 with 30 ms a request, beside plain requests"
    latency_ms = 30

    def __init__(self, options):
        super().__init__(options)
        self.far = None

    def sets(self):
        return [f"random{self.options.parts.far_mib}"]

    def missing(self):
        return []

    def restic(self):
        given = dict(each.split("=", 1) for each in self.options.binary)
        name = next((name for name in self.options.tools if name.startswith("restic")), "restic")
        return name, given.get(name) or shutil.which(name, path=self.options.bin) or shutil.which(name)

    def measure(self, set_, round_):
        if not self.far:
            folder = self.options.work / "far"
            shutil.rmtree(folder, ignore_errors=True)
            settings = {"cutpoint": self.options.cutpoint, "mib": self.options.parts.far_mib}
            settings |= {"latency_ms": self.latency_ms, "restic": self.restic()[1], "proxy": self.proxy()}
            self.far = Far(types.SimpleNamespace(**settings), folder, self.options.build_folder)
        for case, name, cost in self.far.run(round_):
            row = {"tool": self.restic()[0] if name == "restic" else name, "step": case, "wall": cost.wall_s}
            if cost.requests:
                row |= {"cpu": cost.cpu_s, "rss": cost.rss_bytes, "requests": cost.request_count()}
            yield row

    def proxy(self):
        return self.options.helpers and self.options.helpers / "cutpoint-scale"

    def close(self):
        if self.far:
            self.far.close()
            shutil.rmtree(self.far.folder, ignore_errors=True)


GROUPS = {group.name: group for group in (Sizes, Adversarial, OneRun, Newest, Cold, Delayed, FarGroup, Max)}


def base_of(rows):
    """Returns the CPU seconds of a run on one unchanged file by tool, of the rows of `baseline`."""
    seconds = {}
    for row in rows:
        if row["set"] == "ONE" and row["step"] == "noop" and "cpu" in row:
            seconds.setdefault(row["tool"], []).append(row["cpu"])
    return {tool: statistics.median(values) for tool, values in seconds.items()}
