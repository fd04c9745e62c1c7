#!/usr/bin/env python3
"""The evaluation of BURST by its paper (004, section V) on a volume: figures 6, 7, 8 and table II.

Adds rows of the kind "volume" to a folder of results, which it makes if it is missing. As in the paper, the files of a
data set are copied from a tmpfs into a file system: ext4 on a loop device over `nbdfuse` over `cutpoint volume serve`,
without a journal. With blocks above 4 KiB its clusters are as large as the blocks (bigalloc), so that each file begins
at a block, as in ZFS. Throughput is the size of the files over CPU seconds of the server; the paper has the system time
of the process that copies, because its code runs in the kernel. Wall time stands beside it, and includes the kernel,
`nbdfuse` and `cp`. Then the file system is mounted anew, with empty caches, and read. The first round also compares
what was read with what was written.

The parts of --parts, each resumable by data set and size of blocks; a contender that the program does not know is left
out and named:

  files    figures 6(a) to (c), 7, sizes and tables of table II: files in ext4
  copy     the same without a file system: the concatenated files, each from a block on, by `nbdcopy`
  sampled  table II: the shares of a core in checksums, locks and matching, of `perf record` (Debian: linux-perf)
  growth   figure 8: the ratio after each version of BA and LOGS

Needs root, nbdfuse, nbdcopy, mkfs.ext4, losetup. Compression is off: a volume has none unless it is asked for.

    cargo build --release -p cutpoint --bin cutpoint
    research/runs/volume.py --results RESULTS --data DATA --work /dev/shm --program target/release/cutpoint
"""

import contextlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

from disk import Disk, DiskError, Volume, call, commit_of, end_on_signals, make_ext4, mounted, remove_leftovers
from rows import Results, backup_parser, spread, versions_of

BLOCKS = (4096, 8192, 16384)
BASE = {
    "legacy": "exact",
    "BURST 1": "burst:tau=1/8,c_max=1",
    "BURST 3": "burst:tau=1/8,c_max=3",
    "BURST 255": "burst:tau=1/8,c_max=255",
}
VARIANTS = {
    "Head 255": "burst-head:tau=1/8,c_max=255",
    "Raw 255": "burst-raw:c_max=255",
    "Head-Raw 255": "burst-head-raw:c_max=255",
}
OURS = {"delta": "delta"}
SETS = ["VERSION-SMALL", "VERSION-LARGE", "VERSION-RANGE", "VM", "WEB-ARCHIVE"]
# Sets of which the paper has one version.
ONE_VERSION = {"WEB-ARCHIVE": "WEB-ARCHIVE 1"}
GROWTH = ["BA", "LOGS"]
PARTS = ["files", "copy", "sampled", "growth"]
HERTZ = 1999
# Functions by their names, innermost first. Locks that nobody waits for take a few instructions inside other functions.
KINDS = {
    "checksum": re.compile(r"blake3|xxh3|xxhash|fingerprint|crc32", re.IGNORECASE),
    "lock": re.compile(r"futex|mutex|rwlock|lock_contended|spin_lock|rwsem|parking", re.IGNORECASE),
    "matching": re.compile(r"burst|patch|views|extent|delta|common_prefix|memcmp|bcmp", re.IGNORECASE),
}


@dataclass
class Source:
    """A data set on a tmpfs."""

    name: str
    versions: list[Path]
    files_count: int = 0
    size: int = 0
    # The files by the clusters of each size of blocks, in bytes.
    clusters: dict[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for path in self.files():
            size = path.stat().st_size
            self.files_count += 1
            self.size += size
            for block in BLOCKS:
                self.clusters[block] = self.clusters.get(block, 0) + -(-size // block) * block
        folders = sum(len(folders) + 1 for version in self.versions for _, folders, _ in os.walk(version))
        self.files_count += folders
        for block in BLOCKS:
            self.clusters[block] += folders * block

    def files(self) -> list[Path]:
        """Returns the regular files of all versions, in order."""
        found = []
        for version in self.versions:
            paths = sorted(version.rglob("*"))
            found += [path for path in paths if path.is_file() and not path.is_symlink()]
        return found

    def disk_size(self, block: int) -> int:
        """Returns a size of a disk that holds the files in ext4."""
        return (self.clusters[block] * 5 // 4 + self.files_count * 512 + (192 << 20)) >> 20 << 20


def source_of(name: str, data: Path, work: Path) -> Source | None:
    """Copies a data set to the tmpfs, unless it is on one."""
    versions = versions_of(name, data)
    if not versions:
        return None
    if name in ONE_VERSION:
        versions = versions[:1]
    if call(["stat", "-f", "-c", "%T", data]).strip() != "tmpfs":
        copies = work / "source" / name
        for version in versions:
            if not (copies / version.name).exists():
                shutil.copytree(version, copies / version.name, symlinks=True)
        versions = [copies / version.name for version in versions]
    return Source(ONE_VERSION.get(name, name), versions)


class Sampler:
    """Samples of the CPU clock of a server, by `perf record`."""

    def __init__(self, pid: int, folder: Path) -> None:
        self.data = folder / "perf.data"
        words = ["perf", "record", "-q", "-e", "cpu-clock", "-F", str(HERTZ), "-o", str(self.data), "-p", str(pid)]
        self.child = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(0.3)

    def seconds(self) -> dict[str, float]:
        """Ends sampling, and returns the CPU seconds by kind of function."""
        self.child.terminate()
        self.child.wait(60)
        lines = call(["perf", "script", "-i", self.data, "-F", "ip,sym"]).splitlines()
        found = dict.fromkeys(KINDS, 0)
        samples = [line for line in lines if line.strip()]
        for line in samples:
            for kind, pattern in KINDS.items():
                if pattern.search(line):
                    found[kind] += 1
                    break
        return {kind: count / HERTZ for kind, count in found.items()} | {"cpu": len(samples) / HERTZ}


class Clock:
    """The CPU seconds of the server and the wall seconds of a step."""

    def __init__(self, volume: Volume) -> None:
        self.server, self.wall, self.cpu = volume.server, time.monotonic(), volume.server.cpu_s()

    def stop(self) -> tuple[float, float]:
        return self.server.cpu_s() - self.cpu, time.monotonic() - self.wall


def sizes_of(stats: dict, size: int) -> dict[str, tuple[float, str]]:
    """Returns the figures of the statistics of a volume: metric or metric and variant, value and unit."""
    stored = stats["full_bytes"] + stats["burst_bytes"] + stats.get("delta_bytes", 0)
    figures = {
        "dedup_ratio": (stats["ratio"] or 1.0, ""),
        "dedup_ratio_of_files": (size / stored if stored else 1.0, ""),
        "physical_bytes": (stats["physical_bytes"], "bytes"),
    }
    entries = {"DT": "full_count", "BT": "burst_count", "HeadDT": "head_entry_count", "TailDT": "tail_entry_count"}
    for table, name in entries.items():
        figures[f"table_entries/{table}"] = (stats[name], "entries")
    # DT and BT are one table here, by number and by fingerprint.
    pages = {
        "DT and BT": stats["stored_table_bytes"] + stats["fingerprint_table_bytes"],
        "HeadDT": stats["head_table_bytes"],
        "TailDT": stats["tail_table_bytes"],
        "map": stats["map_table_bytes"],
    }
    for table, size_bytes in pages.items():
        figures[f"table_bytes/{table}"] = (size_bytes, "bytes")
    for name in ("head_hit", "tail_hit", "head_exhausted", "tail_exhausted", "cancelled"):
        figures[f"writes/{name}"] = (stats["writes"][f"{name}_count"], "blocks")
    return figures


class Run:
    """A contender on a data set, with one size of blocks."""

    def __init__(self, program: Path, work: Path, source: Source, block: int, mode: str) -> None:
        self.program, self.work, self.source, self.block, self.mode = program, work, source, block, mode

    def volume(self, folder: Path, size: int) -> Volume:
        volume = Volume(self.program, folder / "volume")
        volume.create(size, self.block, self.mode)
        return volume

    def files(self, compare: bool, sampled: bool = False) -> dict[str, tuple[float, str]]:
        """Copies the files into ext4, reads them, and returns the figures."""
        source = self.source
        figures = {}
        with contextlib.ExitStack() as stack:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=self.work)))
            volume = self.volume(folder, source.disk_size(self.block))
            stack.callback(volume.kill)
            volume.serve()
            with Disk(volume.uri, folder / "fuse") as disk:
                make_ext4(disk.device, self.block, source.files_count)
                with mounted(disk.device, folder / "mount") as mount:
                    sampler = Sampler(volume.server.pid, folder) if sampled else None
                    clock = Clock(volume)
                    for version in source.versions:
                        call(["cp", "-a", version, mount])
                    call(["sync", "-f", mount])
                    cpu, wall = clock.stop()
                    if sampler:
                        seconds = sampler.seconds()
                        figures |= {f"{kind}_time": (value, "s") for kind, value in seconds.items()}
                        figures |= {f"{kind}_share": (100 * value / wall, "%") for kind, value in seconds.items()}
            if not sampled:
                self.add_speeds(figures, "write", cpu, wall)
            figures["peak_memory"] = (volume.server.memory()[1], "bytes")
            volume.stop()
            figures |= sizes_of(volume.stats(), source.size)
            if sampled:
                return figures
            volume.serve()
            with Disk(volume.uri, folder / "fuse") as disk, mounted(disk.device, folder / "mount", "ro") as mount:
                clock = Clock(volume)
                call(["sh", "-c", 'find "$1" -type f -exec cat {} + > /dev/null', "sh", mount])
                self.add_speeds(figures, "read", *clock.stop())
                if compare:
                    for version in source.versions:
                        call(["diff", "-r", "--no-dereference", version, mount / version.name])
            volume.stop()
        return figures

    def copy(self, image: Path, compare: bool) -> dict[str, tuple[float, str]]:
        """Copies an image by `nbdcopy`, reads it, and returns the figures."""
        figures = {}
        with contextlib.ExitStack() as stack:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=self.work)))
            volume = self.volume(folder, image.stat().st_size)
            stack.callback(volume.kill)
            volume.serve()
            clock = Clock(volume)
            call(["nbdcopy", "--flush", image, volume.uri])
            self.add_speeds(figures, "write", *clock.stop())
            figures["peak_memory"] = (volume.server.memory()[1], "bytes")
            volume.stop()
            figures |= sizes_of(volume.stats(), self.source.size)
            volume.serve()
            clock = Clock(volume)
            call(["nbdcopy", volume.uri, "null:"])
            self.add_speeds(figures, "read", *clock.stop())
            if compare:
                call(["nbdcopy", volume.uri, folder / "copy"])
                call(["cmp", image, folder / "copy"])
            volume.stop()
        return figures

    def growth(self) -> list[float]:
        """Returns the ratio after each version."""
        ratios = []
        with contextlib.ExitStack() as stack:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=self.work)))
            volume = self.volume(folder, self.source.disk_size(self.block))
            stack.callback(volume.kill)
            for number, version in enumerate(self.source.versions):
                volume.serve()
                with Disk(volume.uri, folder / "fuse") as disk:
                    if number == 0:
                        make_ext4(disk.device, self.block, self.source.files_count)
                    with mounted(disk.device, folder / "mount") as mount:
                        call(["cp", "-a", version, mount])
                volume.stop()
                ratios.append(volume.stats()["ratio"] or 1.0)
        return ratios

    def add_speeds(self, figures: dict, step: str, cpu: float, wall: float) -> None:
        figures[f"{step}_throughput"] = (self.source.size / 1e9 / cpu, "GB/s")
        figures[f"{step}_wall_throughput"] = (self.source.size / 1e9 / wall, "GB/s")
        figures[f"{step}_cpu_time"] = (cpu, "s")


def image_of(source: Source, block: int, work: Path) -> Path:
    """Writes the concatenated files, each from a block on, with holes between them."""
    image = work / "image"
    image.unlink(missing_ok=True)
    place = 0
    with image.open("wb") as output:
        for path in source.files():
            output.seek(place)
            with path.open("rb") as file:
                shutil.copyfileobj(file, output, 1 << 20)
            place += -(-path.stat().st_size // block) * block
        output.truncate(-(-place // (1 << 20)) << 20)
    return image


def rows_of(name: str, block: int, spec: str, variant: str, source: Source, samples: dict) -> list[dict]:
    """Returns the rows of the samples of a contender: metric, or metric and table, and lists of values."""
    fields = {"data": source.name, "algorithm": name, "target": block, "spec": spec, "input_bytes": source.size}
    rows = []
    for key, (values, unit) in samples.items():
        metric, _, table = key.partition("/")
        rows.append(fields | {"metric": metric, "variant": table or variant, "unit": unit} | spread(values))
    return rows


class Evaluation:
    def __init__(self, args, results: Results, known: dict[str, str]) -> None:
        self.args, self.results, self.known = args, results, known
        self.program = args.program.resolve()

    def contenders(self, source: Source, part: str) -> dict[str, str]:
        """Returns the contenders of a part on a data set that the program knows."""
        wanted = BASE | (VARIANTS if source.name == "VM" else {}) | OURS
        if part == "sampled":
            wanted = {"legacy": BASE["legacy"], "BURST 255": BASE["BURST 255"]} | VARIANTS | OURS
        return {name: mode for name, mode in wanted.items() if name in self.known}

    def cell(self, part: str, source: Source, block: int) -> None:
        """Measures the contenders of a cell in turns, another one first in each round, and adds their rows."""
        contenders = list(self.contenders(source, part).items())
        rounds = self.args.rounds
        cell = f"volume/{part}/{source.name}/{block}/{rounds}/{len(contenders)}"
        if self.results.has(cell):
            return
        began, samples = time.monotonic(), {}
        image = image_of(source, block, self.args.work) if part == "copy" else None
        for number in range(rounds):
            for place in range(len(contenders)):
                name, mode = contenders[(place + number) % len(contenders)]
                run = Run(self.program, self.args.work, source, block, mode)
                if image:
                    figures = run.copy(image, compare=number == 0)
                else:
                    figures = run.files(compare=number == 0, sampled=part == "sampled")
                for key, (value, unit) in figures.items():
                    samples.setdefault(name, {}).setdefault(key, ([], unit))[0].append(value)
        if image:
            image.unlink()
        variant = {"files": "ext4", "copy": "nbdcopy", "sampled": "sampled"}[part]
        rows = []
        for name, mode in contenders:
            found = samples[name]
            if part == "sampled":
                found = {key: value for key, value in found.items() if key.endswith(("_time", "_share"))}
            if part == "copy":
                found = {key: value for key, value in found.items() if "/" not in key}
            rows += rows_of(name, block, mode, variant, source, found)
        self.results.add("volume", cell, rows, time.monotonic() - began)
        self.show(part, source, block, rows, time.monotonic() - began)

    def show(self, part: str, source: Source, block: int, rows: list[dict], elapsed: float) -> None:
        print(f"{part} {source.name} {block}: {elapsed:.0f} s", flush=True)
        shown = ("dedup_ratio", "write_throughput", "read_throughput", "checksum_share", "lock_share", "matching_share")
        for name in dict.fromkeys(row["algorithm"] for row in rows):
            of = {row["metric"]: row for row in rows if row["algorithm"] == name}
            texts = [f"{metric} {of[metric]['value']:.3f}" for metric in shown if metric in of]
            print(f"  {name}: {', '.join(texts)}", flush=True)

    def growth(self, source: Source, block: int) -> None:
        for name, mode in (BASE | OURS).items():
            cell = f"volume/growth/{source.name}/{block}/{name}"
            if name not in self.known or self.results.has(cell):
                continue
            began = time.monotonic()
            ratios = Run(self.program, self.args.work, source, block, mode).growth()
            row = {"data": source.name, "algorithm": name, "target": block, "spec": mode, "input_bytes": source.size}
            row |= {"metric": "growth", "variant": "ext4", "value": ratios[-1], "count": len(ratios)}
            row |= {"samples": " ".join(f"{ratio:.6g}" for ratio in ratios)}
            self.results.add("volume", cell, [row], time.monotonic() - began)
            print(f"growth {source.name} {block} {name}: {row['samples']}", flush=True)


def known_contenders(program: Path, work: Path) -> dict[str, str]:
    """Returns the contenders whose modes the program knows, and names the others."""
    known = {}
    for name, mode in (BASE | VARIANTS | OURS).items():
        with tempfile.TemporaryDirectory(dir=work) as folder:
            try:
                Volume(program, Path(folder) / "volume").create(1 << 20, 4096, mode)
                known[name] = mode
            except DiskError as error:
                print(f"{name}: left out: {error}", file=sys.stderr)
    return known


def main() -> int:
    parser = backup_parser(__doc__)
    parser.add_argument("--parts", default=",".join(PARTS))
    parser.add_argument("--sets", default=",".join(SETS), help="sets of the parts files and copy")
    parser.add_argument("--blocks", default=",".join(map(str, BLOCKS)))
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    end_on_signals()
    if os.geteuid() != 0:
        parser.error("mounts need root")
    args.work = Path(tempfile.mkdtemp(prefix="volume-", dir=args.work))
    failed = []
    try:
        program = args.program.resolve()
        results = Results(args.results, commit=commit_of(program))
        evaluation = Evaluation(args, results, known_contenders(program, args.work))
        sets, parts = args.sets.split(","), args.parts.split(",")
        blocks = [int(text) for text in args.blocks.split(",")]
        by_part = {"files": sets, "copy": sets, "sampled": ["VM"], "growth": GROWTH}
        for name in dict.fromkeys(name for part in parts for name in by_part[part]):
            source = source_of(name, args.data, args.work)
            if source is None:
                failed.append(name)
                continue
            for part in [part for part in parts if name in by_part[part]]:
                for block in blocks:
                    if part == "growth":
                        evaluation.growth(source, block)
                    elif part != "sampled" or block != 8192:
                        evaluation.cell(part, source, block)
            shutil.rmtree(args.work / "source", ignore_errors=True)
    finally:
        remove_leftovers(args.work)
        shutil.rmtree(args.work, ignore_errors=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
