#!/usr/bin/env python3
"""Volumes beside a plain file and other systems that deduplicate, in one run, and the page of the figures.

    cargo build --release -p cutpoint --bin cutpoint
    cargo build --release -p cutpoint-volume --example plain_file
    research/bench/volume.py run --program target/release/cutpoint --work /dev/shm     # as root
    research/bench/volume.py run --on-disk --work FOLDER
    research/bench/volume.py page                                                      # writes the page again

All systems are disks of one size that fio's NBD engine writes and reads, so that the clients are the same. Volumes are
served by `cutpoint volume serve`, and a plain file by the same server (the example `plain_file` of the crate), as it
is, and with the work that no volume avoids: hashes, checksums, and features for half of the blocks. All others are
served by nbdkit's plugins for files: a plain file once more, a file on ZFS with deduplication (zfs-fuse), and 64 files
on XFS that duperemove deduplicates after the filling and after the overwriting; within a file it finds nothing. A
missing peer is named and left out.

The plain files and the volumes take turns: each measures one row, while the servers of the others stand still. ZFS and
XFS come behind them, each alone, in one round. The disks of all take up to three times --size each in --work. For each
contender and round:

  fill       writes the whole disk in order, half of its requests of 64 KiB equal to others (fio's dedupe_percentage)
  before     reads and writes in order and at random, of 4 and 64 KiB, at depths 1 and 16, for --seconds each
  overwrite  writes the size of the disk three times at random, in requests of 64 KiB, half of them duplicates
  after      the same reads and writes again
  rest       waits, for a volume, until its server has written nothing for REST_S

CPU seconds and memory are those of the server (nbdkit, and zfs-fuse where that is behind it; XFS and the loop device
are in the kernel and not counted). Bytes that the server of a volume writes are those of its calls. `recovery` kills a
server by SIGKILL during random writes, drops the kernel's caches, and times the start of the next one until it serves,
and commands for snapshots and clones of this disk and of one that was never written. Memory is that of the new server.
`trim` fills a volume with different blocks, trims nine tenths of it, 576 of each 640 KiB, and waits until its server
writes nothing.
Most of it is a cache of tables, whose size is a setting; docs/volume.md has what the tables of a terabyte need.

On a tmpfs, all but the servers' own work costs next to nothing. With --on-disk, the folder of --work is on a disk: the
kernel's caches are dropped before each job, and each job of writes ends with a sync, whose time counts (XFS is left
out: nbdkit's plugin for several files has no flush). These rows have a file and a page of their own.

Hosts of virtual machines may take back free memory, which makes a new page dear and an old one not. --warm SIZE avoids
that (`warm.py`), and should be as large as the disks of all.

Every figure is appended to --out at once, and the same command goes on after an interruption.
"""

import argparse
import contextlib
import datetime
import json
import os
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "research/runs"), str(ROOT / "research/peers")]

from disk import (  # noqa: E402
    DiskError,
    Process,
    Volume,
    call,
    commit_of,
    end_on_signals,
    mounted,
    remove_leftovers,
    unmount,
    wait_until,
)
from machine import machine  # noqa: E402
from records import Records, RecordsError  # noqa: E402
from volume_page import COMMANDS, CONTENDERS, FILL, JOBS, write_page  # noqa: E402
from warm import hold  # noqa: E402

PAGE = ROOT / "research/results/volume.md"
OUT = ROOT / "target/volume.jsonl"
PAGE_ON_DISK = ROOT / "research/results/volume-disk.md"
OUT_ON_DISK = ROOT / "target/volume-disk.jsonl"
SIZES = {"K": 10, "M": 20, "G": 30}
OVERWRITES = 3
# Cleaning looks for work every five seconds.
REST_S = 12.0
REST_MAX_S = 120.0
# Files that are one disk on XFS.
XFS_FILES = 64


class Server:
    """A disk of a contender that is served: its URI, and the processes behind it."""

    def __init__(self, uri: str, processes: list[Process]) -> None:
        self.uri, self.processes = uri, processes

    def cpu_s(self) -> float:
        return sum(process.cpu_s() for process in self.processes)

    def written_bytes(self) -> int:
        return sum(process.written_bytes() for process in self.processes)

    def memory(self) -> tuple[int, int]:
        """Returns the resident bytes now and at most."""
        found = [process.memory() for process in self.processes]
        return sum(now for now, _ in found), sum(peak for _, peak in found)


def nbdkit(files: list[Path], folder: Path, stack: contextlib.ExitStack) -> Server:
    """Serves a file, or several files as one disk, by nbdkit, until the stack ends."""
    socket = folder / "nbdkit.socket"
    plugin = "file" if len(files) == 1 else "split"
    server = Process(["nbdkit", "--foreground", "--exit-with-parent", "-U", socket, plugin, *files])
    stack.callback(server.end)
    wait_until(socket.exists, "nbdkit")
    return Server(f"nbd+unix:///?socket={socket}", [server])


class Contender:
    """A contender on its own folder. `served` is what fio sees, `ratio` what is saved after the server has ended."""

    def __init__(self, name: str, args, folder: Path, stack: contextlib.ExitStack) -> None:
        self.kind, self.block, self.mode = CONTENDERS[name]
        self.size, self.folder, self.stack = args.size, folder, stack
        getattr(self, f"start_{self.kind}")(args)

    def create_file(self, folder: Path) -> Path:
        self.file = folder / "file"
        with self.file.open("wb") as file:
            file.truncate(self.size)
        return self.file

    def start_plain(self, args) -> None:
        program = args.program.resolve().parent / "examples/plain_file"
        if not program.exists():
            raise DiskError(f"needs {program} (cargo build --release -p cutpoint-volume --example plain_file)")
        socket = self.folder / "nbd.socket"
        hashed = [str(self.block), *self.mode.split()] if self.kind == "hashed" else []
        server = Process([program, self.create_file(self.folder), socket, *hashed])
        self.stack.callback(server.end)
        wait_until(socket.exists, "plain_file")
        self.served = Server(f"nbd+unix:///?socket={socket}", [server])

    start_hashed = start_plain

    def start_nbdkit(self, _args) -> None:
        self.served = nbdkit([self.create_file(self.folder)], self.folder, self.stack)

    def start_volume(self, args) -> None:
        self.volume = Volume(args.program.resolve(), self.folder / "volume")
        self.volume.create(self.size, self.block, self.mode)
        self.stack.callback(self.volume.kill)
        self.volume.serve()
        self.served = Server(self.volume.uri, [self.volume.server])

    def start_zfs(self, _args) -> None:
        if not shutil.which("zfs-fuse"):
            raise DiskError("needs zfs-fuse (Debian: zfs-fuse)")
        if subprocess.run(["pgrep", "-x", "zfs-fuse"], capture_output=True, check=False).returncode == 0:
            raise DiskError("another zfs-fuse runs")
        command = ["zfs-fuse", "--no-daemon", "--pidfile", self.folder / "zfs.pid"]
        process = Process(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.stack.callback(process.end)
        self.pool_file = self.folder / "pool"
        with self.pool_file.open("wb") as file:
            file.truncate(self.size * 3 + (512 << 20))
        self.pool = f"cutpoint-{os.getpid()}"
        mount = self.folder / "zfs"
        mount.mkdir()

        def made() -> bool:
            words = ["zpool", "create", "-f", "-m", str(mount), self.pool, str(self.pool_file)]
            return subprocess.run(words, capture_output=True, check=False).returncode == 0

        wait_until(made, "zpool create", 120)
        self.stack.callback(self.destroy_pool, mount)
        for setting in ("dedup=on", f"recordsize={self.block}", "atime=off", "compression=off"):
            call(["zfs", "set", setting, self.pool])
        self.served = nbdkit([self.create_file(mount)], self.folder, self.stack)
        self.served.processes.append(process)

    def destroy_pool(self, mount: Path) -> None:
        with contextlib.suppress(DiskError, subprocess.TimeoutExpired):
            call(["zpool", "destroy", "-f", self.pool], timeout=120)
        unmount(mount)

    def start_xfs(self, _args) -> None:
        if not shutil.which("duperemove"):
            raise DiskError("needs duperemove (Debian: duperemove)")
        image = self.folder / "image"
        with image.open("wb") as file:
            file.truncate(self.size * 6 + (512 << 20))
        device = call(["losetup", "--find", "--show", image]).strip()
        self.stack.callback(subprocess.run, ["losetup", "--detach", device], check=False)
        call(["mkfs.xfs", "-q", "-m", "reflink=1", device])
        mount = self.stack.enter_context(mounted(Path(device), self.folder / "xfs"))
        self.mount = mount
        self.base = self.used()
        # duperemove finds no duplicates within a file.
        self.files = [mount / f"{number:02}" for number in range(XFS_FILES)]
        for path in self.files:
            with path.open("wb") as file:
                file.truncate(self.size // XFS_FILES)
        self.served = nbdkit(self.files, self.folder, self.stack)

    def used(self) -> int:
        found = os.statvfs(self.mount)
        return (found.f_blocks - found.f_bfree) * found.f_frsize

    def signal(self, number: int) -> None:
        for process in self.served.processes:
            process.child.send_signal(number)

    def settle(self) -> dict:
        """Does what a contender needs to save space, and returns its cost."""
        if self.kind != "xfs":
            return {}
        began, before = time.monotonic(), os.times()
        call(["sync", "-f", self.mount])
        call(["duperemove", "-d", "-q", "-b", self.block, "--lookup-extents=no", *self.files])
        after = os.times()
        cpu = after.children_user + after.children_system - before.children_user - before.children_system
        return {"dedupe_wall_s": time.monotonic() - began, "dedupe_cpu_s": cpu}

    def sizes(self) -> dict:
        """Returns the ratio and the bytes on disk, if the contender tells them while it is served."""
        if self.kind == "xfs":
            call(["sync", "-f", self.mount])
            stored = self.used() - self.base
            return {"physical_bytes": stored, "ratio": self.size / stored}
        if self.kind == "zfs":
            call(["sync"])
            text = call(["zpool", "get", "dedupratio,allocated", self.pool])
            ratio = float(re.search(r"dedupratio\s+([\d.]+)x", text).group(1))
            number, unit = re.search(r"allocated\s+([\d.]+)([KMGT]?)", text).groups()
            return {"ratio": ratio, "physical_bytes": float(number) * 1024 ** " KMGT".index(unit or " ")}
        if self.kind in ("plain", "hashed", "nbdkit"):
            return {"ratio": 1.0, "physical_bytes": self.file.stat().st_blocks * 512}
        # A volume tells its sizes once it is no longer served.
        self.volume.stop()
        stats = self.volume.stats()
        self.volume.serve()
        self.served.processes = [self.volume.server]
        return {"ratio": stats["ratio"] or 1.0, "physical_bytes": stats["physical_bytes"]}


def fio(server: Server, words: list[str]) -> dict:
    """Runs a job of fio, and returns throughput, latencies, and the CPU seconds of the server by gigabyte."""
    common = ["fio", "--name=job", "--ioengine=nbd", f"--uri={server.uri}", "--output-format=json", "--randrepeat=1"]
    cpu, written = server.cpu_s(), server.written_bytes()
    text = call([*common, *words])
    job = json.loads(text[text.index("{") :])["jobs"][0]
    if job["error"]:
        raise DiskError(f"fio ended with error {job['error']}: {' '.join(words)}")
    side = job["read"] if job["read"]["io_bytes"] else job["write"]
    cpu, written = server.cpu_s() - cpu, server.written_bytes() - written
    percentiles = side["clat_ns"].get("percentile", {})
    return {
        "bytes_per_s": side["io_bytes"] / (side["runtime"] / 1000) if side["runtime"] else 0.0,
        "p50_us": percentiles.get("50.000000", 0) / 1000,
        "p99_us": percentiles.get("99.000000", 0) / 1000,
        "cpu_s_per_gb": cpu / (side["io_bytes"] / 1e9) if side["io_bytes"] else 0.0,
        "client_bytes": job["write"]["io_bytes"],
        "written_bytes": written,
    }


def contents(seed: int) -> list[str]:
    """Returns the options of written bytes: random, half of the requests duplicates from anywhere.

    With `--allrandrepeat` fio would ignore the seed, and each job would write the bytes of the one before.
    """
    duplicates = ["--dedupe_percentage=50", "--dedupe_mode=working_set", "--dedupe_working_set_percentage=25"]
    return [*duplicates, "--refill_buffers", f"--randseed={seed}"]


def phases(contender: Contender, args):
    """Measures a contender, and yields its rows. All contenders have the same rows, but for the last ones."""
    size = [f"--size={args.size}"]
    start_memory = contender.served.memory()[0]
    # nbdkit's plugin for several files has no flush; `settle` syncs them.
    flush = [] if contender.kind == "xfs" else ["--end_fsync=1"]

    def jobs(phase):
        for number, (pattern, block, depth) in enumerate(JOBS):
            words = [f"--rw={pattern}", f"--bs={block}", f"--iodepth={depth}", *size, *contents(1000 + number)]
            words += [f"--runtime={args.seconds}", "--time_based"]
            if args.on_disk:
                drop_caches()
                words += flush if "write" in pattern else []
            yield {"phase": phase, "pattern": pattern, "block": block, "depth": depth} | fio(contender.served, words)

    pattern, block, depth = FILL
    fill = [f"--rw={pattern}", f"--bs={block}", f"--iodepth={depth}", *flush, *size, *contents(1)]
    yield {"phase": "fill", "pattern": pattern, "block": block, "depth": depth} | fio(contender.served, fill)
    now, peak = contender.served.memory()
    yield {"phase": "fill", "start_bytes": start_memory, "memory_bytes": now, "peak_memory_bytes": peak}
    yield {"phase": "fill"} | contender.settle() | contender.sizes()
    yield from jobs("before")
    for number in range(OVERWRITES):
        words = ["--rw=randwrite", "--bs=64k", "--iodepth=16", *flush, "--norandommap", *size]
        row = fio(contender.served, [*words, *contents(2 + number)])
        yield {"phase": "overwrite", "number": number + 1, "pattern": "randwrite", "block": "64k", "depth": 16} | row
    yield {"phase": "overwrite", "peak_memory_bytes": contender.served.memory()[1]} | contender.settle()
    yield from jobs("after")
    peak = {"peak_memory_bytes": contender.served.memory()[1]}
    if contender.kind == "volume":
        yield {"phase": "rest"} | rest(contender.volume.folder, contender.served)
    yield {"phase": "after"} | peak | contender.sizes()


def drop_caches() -> None:
    call(["sync"])
    Path("/proc/sys/vm/drop_caches").write_text("3\n")


def files_bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def rest(folder: Path, server: Server) -> dict:
    """Waits until a server writes nothing, and returns the bytes of its files before, and what it has written."""
    busy_bytes, before = files_bytes(folder), server.written_bytes()
    began = changed = time.monotonic()
    last = before
    while (now := time.monotonic()) < min(changed + REST_S, began + REST_MAX_S):
        time.sleep(0.1)
        if server.written_bytes() != last:
            changed, last = now, server.written_bytes()
    row = {"busy_bytes": busy_bytes, "rest_bytes": files_bytes(folder), "rest_s": changed - began}
    return row | {"written_bytes": last - before, "client_bytes": 0}


def commands(volume: Volume) -> dict:
    """Returns the medians of the seconds of commands for snapshots of the disk, and for clones of these."""
    found = {"snapshot_s": [], "clone_s": []}
    for number in range(COMMANDS):
        snapshot = f"snapshot-{number}"
        for verb, words in (("snapshot", ["main", snapshot]), ("clone", [f"main@{snapshot}", f"clone-{number}"])):
            began = time.monotonic()
            volume.command(verb, *words)
            found[f"{verb}_s"].append(time.monotonic() - began)
    return {key: statistics.median(values) for key, values in found.items()}


def filled(size: int, name: str, args, folder: Path, stack: contextlib.ExitStack) -> tuple[Volume, Server, int]:
    """Serves a volume that is full of different blocks, and returns the resident bytes of its server before as well."""
    _, block, mode = CONTENDERS[name]
    volume = Volume(args.program.resolve(), folder / "volume")
    volume.create(size, block, mode)
    stack.callback(volume.kill)
    volume.serve()
    server = Server(volume.uri, [volume.server])
    empty = server.memory()[0]
    fio(server, ["--rw=write", "--bs=64k", "--iodepth=16", "--end_fsync=1", "--refill_buffers", f"--size={size}"])
    return volume, server, empty


def trim(size: int, name: str, args, folder: Path, stack: contextlib.ExitStack):
    """Trims nine tenths of a volume that is full of different blocks, and waits until its server writes nothing."""
    volume, server, _ = filled(size, name, args, folder, stack)
    zones = ["--zonemode=strided", "--zonesize=576k", "--zonerange=640k", f"--io_size={size // 640 * 576}"]
    fio(server, ["--rw=trim", "--bs=64k", "--iodepth=16", f"--size={size}", *zones])
    row = rest(volume.folder, server)
    stats = volume.stats()
    yield {
        "phase": "trim",
        "size_bytes": size,
        "used_bytes": stats["used_bytes"],
        "live_bytes": stats["live_bytes"],
    } | row


def recovery(size: int, name: str, args, folder: Path, stack: contextlib.ExitStack):
    """Fills a volume with different blocks, kills its server during random writes, and times the next start."""
    volume, _, empty = filled(size, name, args, folder, stack)
    words = ["fio", "--name=job", "--ioengine=nbd", f"--uri={volume.uri}", "--rw=randwrite", "--bs=4k", "--iodepth=16"]
    words += ["--runtime=600", "--time_based", "--refill_buffers", f"--size={size}"]
    writer = Process(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    stack.callback(writer.end, signal.SIGKILL)
    time.sleep(args.seconds)
    volume.kill()
    writer.end(signal.SIGKILL)
    physical = files_bytes(volume.folder)
    drop_caches()
    wall = volume.serve()
    cpu = volume.server.cpu_s()
    now, peak = volume.server.memory()
    row = {"phase": "recovery", "size_bytes": size, "physical_bytes": physical, "start_s": wall, "start_cpu_s": cpu}
    yield row | {"empty_memory_bytes": empty, "memory_bytes": now, "peak_memory_bytes": peak}
    volume.stop()
    clean = volume.serve()
    yield {"phase": "recovery", "size_bytes": size, "clean_start_s": clean} | commands(volume)
    volume.stop()


def empty_commands(size: int, name: str, args, folder: Path, stack: contextlib.ExitStack):
    """Times the commands for a disk of one size that was never written."""
    _, block, mode = CONTENDERS[name]
    volume = Volume(args.program.resolve(), folder / "volume")
    volume.create(size, block, mode)
    stack.callback(volume.kill)
    volume.serve()
    yield {"phase": "recovery", "size_bytes": size, "physical_bytes": files_bytes(volume.folder)} | commands(volume)


def size_of(text: str) -> int:
    digits, shift = (text[:-1], SIZES[text[-1]]) if text[-1:] in SIZES else (text, 0)
    return int(digits) << shift


class Turns:
    """A round in which several contenders take turns: each measures one row while the servers of the others stand
    still, so that all meet the same state of the host, and the work that a server has put off is its own."""

    def __init__(self, names: list[str], number: int, args, records: Records) -> None:
        self.args, self.records = args, records
        self.units = {name: ("fio", name, number) for name in names}
        self.failed = False

    def run(self, folder: Path) -> None:
        running = {}
        with contextlib.ExitStack() as stack:
            for number, name in enumerate(self.units):
                base = folder / str(number)
                base.mkdir()
                if contender := self.tried(name, partial(Contender, name, self.args, base, stack)):
                    running[name] = (contender, phases(contender, self.args))
                    # A server that stands still does not end. This comes before its end.
                    stack.callback(contender.signal, signal.SIGCONT)
                    contender.signal(signal.SIGSTOP)
            while running:
                for name, (contender, rows) in list(running.items()):
                    contender.signal(signal.SIGCONT)
                    row = self.tried(name, partial(next, rows, None))
                    contender.signal(signal.SIGSTOP)
                    if row is None:
                        del running[name]
                    else:
                        self.records.append("row", **row, **self.place(name))
        for name, unit in self.units.items():
            if not any(unit == (it["group"], it["set"], it["round"]) for it in self.records.skipped):
                self.records.append("done", **self.place(name))

    def place(self, name: str) -> dict:
        return dict(zip(("group", "set", "round"), self.units[name], strict=True))

    def tried(self, name: str, measure):
        """Returns the result of `measure`, or nothing if it fails: the contender is then left out."""
        try:
            return measure()
        except (DiskError, OSError, subprocess.TimeoutExpired) as error:
            self.records.skip(self.units[name], str(error))
            print(f"fio, {name}: left out: {error}", file=sys.stderr, flush=True)
            self.failed = True
            return None


def run(args) -> int:
    if os.geteuid() != 0:
        raise DiskError("mounts need root")
    end_on_signals()
    records = Records(args.out)
    records.start(
        {
            "program": call([args.program, "version"]).split()[1],
            "size": args.size,
            "commit": commit_of(args.program),
            "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d"),
            "machine": machine(),
            "seconds": args.seconds,
            "on_disk": args.on_disk,
            "warm": args.warm,
            "fio": call(["fio", "--version"]).strip(),
        }
    )
    _held = hold(args.warm) if args.warm else None
    names = args.contenders.split(",") if args.contenders else list(CONTENDERS)
    names = [name.strip().replace(";", ",") for name in names]
    # nbdkit's plugin for several files has no flush.
    names = [name for name in names if CONTENDERS[name][0] != "xfs" or not args.on_disk]
    failed = False

    @contextlib.contextmanager
    def new_folder(base):
        base.mkdir(parents=True, exist_ok=True)
        folder = Path(tempfile.mkdtemp(prefix="volume-bench-", dir=base))
        try:
            yield folder
        finally:
            remove_leftovers(folder)
            shutil.rmtree(folder, ignore_errors=True)

    def unit(group, name, number, base, measure):
        nonlocal failed
        if (group, name, number) in records.done:
            return
        try:
            with new_folder(base) as folder, contextlib.ExitStack() as stack:
                records.add((group, name, number), measure(name, args, folder, stack))
            print(f"{group}, {name}, round {number}: done", flush=True)
        except (DiskError, OSError, subprocess.TimeoutExpired) as error:
            records.skip((group, name, number), str(error))
            print(f"{group}, {name}: left out: {error}", file=sys.stderr, flush=True)
            failed = True

    # The kernel waits for zfs-fuse, which must not stand still, and duperemove takes minutes.
    alone = [name for name in names if CONTENDERS[name][0] in ("xfs", "zfs")]
    for number in range(args.rounds):
        by_turns = [name for name in names if name not in alone and ("fio", name, number) not in records.done]
        if by_turns:
            turns = Turns(by_turns, number, args, records)
            with new_folder(args.work) as folder:
                turns.run(folder)
            failed |= turns.failed
            print(f"fio, by turns, round {number}: done", flush=True)
    for name in alone if args.rounds else []:
        base = args.disk if CONTENDERS[name][0] == "zfs" and args.disk else args.work
        unit("fio", name, 0, base, lambda *words: phases(Contender(*words), args))
    for text in args.recovery.split(",") if args.recovery else []:
        for name in [name for name in names if CONTENDERS[name][0] == "volume"]:
            unit(f"recovery {text}", name, 0, args.disk or args.work, partial(recovery, size_of(text)))
            unit(f"empty {text}", name, 0, args.disk or args.work, partial(empty_commands, size_of(text)))
    for name in [name for name in names if CONTENDERS[name][0] == "volume"] if args.trim else []:
        unit("trim", name, 0, args.disk or args.work, partial(trim, args.trim))
    write_page(Records(args.out), args.page)
    return 1 if failed else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["run", "page"])
    parser.add_argument("--program", type=Path, default=ROOT / "target/release/cutpoint")
    parser.add_argument(
        "--work", type=Path, default=Path("/dev/shm"), help="folder of the disks; a tmpfs, but for --on-disk"
    )
    parser.add_argument("--on-disk", action="store_true", help="--work is on a disk: sync writes, read without caches")
    parser.add_argument("--disk", type=Path, help="folder of recovery and ZFS, if these do not fit into --work")
    parser.add_argument("--size", type=size_of, default=1 << 30, help="size of a disk: 1G")
    parser.add_argument("--seconds", type=int, default=3, help="seconds of each job")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--warm", type=size_of, default=0, help="free memory that no host takes back meanwhile: 12G")
    parser.add_argument("--contenders", help="names with commas between them (a comma in a name is ;)")
    parser.add_argument("--recovery", default="4G,20G", help="sizes of the volumes that are killed; empty for none")
    parser.add_argument(
        "--trim", type=size_of, default=4 << 30, help="size of the volumes that are trimmed; 0 for none"
    )
    parser.add_argument("--out", type=Path, help=f"{OUT.name}, or with --on-disk {OUT_ON_DISK.name}, in target")
    parser.add_argument("--page", type=Path, help=f"{PAGE.name}, or with --on-disk {PAGE_ON_DISK.name}, of the results")
    args = parser.parse_args()
    args.out = args.out or (OUT_ON_DISK if args.on_disk else OUT)
    args.page = args.page or (PAGE_ON_DISK if args.on_disk else PAGE)
    try:
        if args.what == "run":
            return run(args)
        write_page(Records(args.out), args.page)
        return 0
    except (DiskError, RecordsError) as error:
        print(f"volume.py: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
