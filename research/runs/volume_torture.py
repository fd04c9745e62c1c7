#!/usr/bin/env python3
"""Real programs on a served volume, whose server is killed while they work.

    cargo build --release -p cutpoint --bin cutpoint
    research/runs/volume_torture.py --program target/release/cutpoint --work /dev/shm          # as root

Cases, each on a new volume in each mode of --modes:

  fsx        fsx (crate `fsx`) on the device, and on files of ext4 and XFS with holes punched and caches dropped
  verify     fio --verify=crc32c over NBD, and over a file of ext4, in random and repeated writes
  files      ext4 and XFS with files that are synced one by one; the server is killed; every synced file is whole
  postgres   PostgreSQL with two clients that insert; the server is killed; every committed row is there, pg_amcheck
  sqlite     the same with SQLite, by a rollback journal and by a WAL; integrity_check
  requests   flush and discard of ext4 and XFS arrive at the server: an nbdkit with the filter `stats` stands between
  vm         QEMU boots a kernel whose root file system is the volume, by NBD (--kernel: a Debian package of a kernel)
  client     the kernel's own client in such a machine, by TCP and by TLS; the server is killed; synced files are whole
  power      server and client in such a machine, whose power is cut; synced parts are whole

After a kill the device fails. The programs are ended, the file system is unmounted, the server is started again, and
the file system is mounted, so that its log is replayed. At the end of each case `e2fsck -fn` or `xfs_repair -n`
examines the file system, and `cutpoint volume check` reads everything. Needs root, nbdfuse, losetup, fio, and the
programs of the cases; a case whose program is missing is named and left out. The exit code is 1 if a case failed. With
--page the outcome is written as a page, such as research/results/volume-torture.md.
"""

import argparse
import contextlib
import hashlib
import os
import random
import re
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import guest
from disk import (
    Disk,
    DiskError,
    Process,
    Volume,
    call,
    commit_of,
    end_on_signals,
    make_ext4,
    mounted,
    remove_leftovers,
    wait_until,
)
from rows import page_head

SIZE = 1 << 30
POSTGRES = Path("/usr/lib/postgresql")
FSX = """
flen = 4194304
{mode}
[weights]
close_open = {reopen}
invalidate = 1.0
mapread = 1.0
mapwrite = 1.0
read = 2.0
write = 4.0
truncate = {truncate}
fsync = 0.5
fdatasync = 0.5
punch_hole = {punch}
posix_fadvise = 1.0
"""
SWITCH = """
mount -t ext4 -o discard /dev/vda /mnt || poweroff -f
mount --move /dev /mnt/dev
exec /bin/busybox switch_root /mnt /sbin/init
"""
CLIENT = """
ip link set lo up
ip addr add 10.0.2.15/24 dev eth0
ip link set eth0 up
nbd-client -N main 10.0.2.2 {port} /dev/nbd0 {options} || poweroff -f
mount -t ext4 -o discard,noatime /dev/nbd0 /mnt || poweroff -f
dd if=/dev/urandom of=/mnt/deleted bs=1M count=16 2>/dev/null
sync
rm /mnt/deleted
sync
number=0
while true; do
  number=$((number + 1))
  dd if=/dev/urandom of=/mnt/$number bs=16k count=$((number % 9 + 1)) conv=fsync 2>/dev/null || break
  echo "synced: $number $(md5sum < /mnt/$number)"
done
poweroff -f
"""
POWER = """
mount -t ext4 -o noatime /dev/vda /mnt || poweroff -f
mkdir /tmp
export CUTPOINT_PASSPHRASE=torture
cutpoint volume serve /mnt/volume --listen unix:/tmp/socket --quiet &
until [ -S /tmp/socket ]; do sleep 1; done
nbd-client -N main -unix /tmp/socket /dev/nbd0 || poweroff -f
number=0
while true; do
  part=$((number * 7 % {parts}))
  number=$((number + 1))
  dd if=/dev/urandom of=/tmp/part bs=64k count=16 2>/dev/null
  echo "begun: $part $(md5sum < /tmp/part)"
  dd if=/tmp/part of=/dev/nbd0 bs=64k seek=$((part * 16)) conv=fsync,notrunc 2>/dev/null || break
  echo "synced: $part"
done
poweroff -f
"""
# The number of parts of 1 MiB that the case `power` overwrites again and again.
POWER_PARTS = 40
ROOT_INIT = """#!/bin/busybox sh
/bin/busybox mount -t proc proc /proc
/bin/busybox dd if=/dev/urandom of=/random bs=1M count=16 2>/dev/null
/bin/busybox md5sum /random > /random.md5
/bin/busybox dd if=/dev/urandom of=/deleted bs=1M count=16 2>/dev/null
/bin/busybox sync
/bin/busybox rm /deleted
/bin/busybox sync
/bin/busybox echo "booted: $(/bin/busybox uname -r)" > /booted
/bin/busybox cat /booted
/bin/busybox umount /proc
/bin/busybox mount -o remount,ro /
/bin/busybox sync
/bin/busybox poweroff -f
"""


class LeftOut(Exception):  # noqa: N818
    """A case that cannot run here."""


class Wrong(Exception):  # noqa: N818
    """Something that a disk must not do."""


def need(*programs: str) -> None:
    for program in programs:
        if not shutil.which(program):
            raise LeftOut(f"needs {program}")


def need_guest(args) -> None:
    need(*guest.PROGRAMS)
    if not args.kernel:
        raise LeftOut("needs --kernel: apt-get download linux-image-...-cloud-amd64")


def expect(is_right: bool, problem: str) -> None:
    if not is_right:
        raise Wrong(problem)


class Rig:
    """A volume with a file system."""

    def __init__(self, args, mode: str, folder: Path, system: str = "ext4") -> None:
        self.args, self.folder, self.system = args, folder, system
        self.mount = folder / "mount"
        self.volume = Volume(args.program.resolve(), folder / "volume")
        self.volume.create(SIZE, args.block, mode, tuple(args.create))

    def make(self, device: Path) -> None:
        if self.system == "ext4":
            make_ext4(device, journal=True)
        else:
            need("mkfs.xfs", "xfs_repair")
            call(["mkfs.xfs", "-q", "-f", device])

    @contextlib.contextmanager
    def attached(self, is_new: bool = False):
        """Serves the volume and mounts its file system. A server that was killed meanwhile is left dead."""
        self.volume.serve()
        try:
            with Disk(self.volume.uri, self.folder / "fuse") as disk:
                if is_new:
                    self.make(disk.device)
                with mounted(disk.device, self.mount, "noatime,discard"):
                    self.device = disk.device
                    yield self.mount
        except BaseException:
            self.volume.kill()
            raise
        self.volume.stop()

    def examine(self) -> None:
        """Examines the file system, which is not mounted and whose log was replayed."""
        self.volume.serve()
        with Disk(self.volume.uri, self.folder / "fuse") as disk:
            if self.system == "ext4":
                call(["e2fsck", "-f", "-n", disk.device])
            else:
                call(["xfs_repair", "-n", disk.device])
        self.volume.stop()


# fsx and fio.


def fsx(args, mode: str, folder: Path) -> str:
    """fsx on the device and on files."""
    program = args.fsx or shutil.which("fsx")
    if not program:
        raise LeftOut("needs fsx: cargo install fsx")
    config = folder / "fsx.toml"
    said = []
    for system in ("device", "ext4", "xfs"):
        place = folder / system
        place.mkdir()
        rig = Rig(args, mode, place, system)
        common = [program, "-q", "-N", args.operations, "-S", args.seed, "-f", config, "-P", folder]
        if system == "device":
            config.write_text(FSX.format(mode="blockmode = true", truncate=0, punch=0, reopen=0))
            rig.volume.serve()
            with Disk(rig.volume.uri, place / "fuse") as disk:
                call([*common, disk.device])
            rig.volume.stop()
        else:
            config.write_text(FSX.format(mode="", truncate=1, punch=1, reopen=0.2))
            with rig.attached(is_new=True) as mount:
                call([*common, mount / "file"])
            rig.examine()
        rig.volume.check()
        said.append(system)
    return f"{args.operations} operations each on {', '.join(said)}"


def verify(args, mode: str, folder: Path) -> str:
    """fio with checksums in the data, over NBD and over a file."""
    need("fio")
    rig = Rig(args, mode, folder)
    common = ["fio", "--name=job", "--verify=crc32c", "--verify_fatal=1", "--verify_backlog=4096", "--rw=randrw"]
    common += ["--bsrange=512-128k", "--bs_unaligned=0", "--size=256M", "--loops=2", "--output=/dev/null"]
    common += [f"--randseed={args.seed}", "--verify_state_save=0", "--norandommap=0"]
    rig.volume.serve()
    call([*common, "--ioengine=nbd", f"--uri={rig.volume.uri}", "--iodepth=16"])
    rig.volume.stop()
    rig.volume.check()
    with rig.attached(is_new=True) as mount:
        call([*common, "--ioengine=libaio", "--direct=1", "--iodepth=16", f"--filename={mount}/file"])
    rig.examine()
    rig.volume.check()
    return "2 x 256 MiB over NBD, and on a file"


# Programs whose server is killed.


def killed(rig: Rig, work, args, seed: int) -> None:
    """Runs `work(stop)` in a thread until the server is killed at a random time. The thread must end by itself."""
    stop = threading.Event()
    thread = threading.Thread(target=work, args=(stop,), daemon=True)
    thread.start()
    time.sleep(args.seconds * random.Random(seed).uniform(0.5, 1.0))
    rig.volume.kill()
    stop.set()
    thread.join(120)
    expect(not thread.is_alive(), "a program does not end after its device has failed")


def files(args, mode: str, folder: Path) -> str:
    """Files that are synced one by one."""
    said = []
    for system in ("ext4", "xfs"):
        place = folder / system
        place.mkdir()
        rig = Rig(args, mode, place, system)
        synced: dict[str, bytes] = {}
        for number in range(args.rounds):
            with rig.attached(is_new=number == 0) as mount:
                compare_files(mount, synced)

                def write(stop, mount=mount, number=number, synced=synced):
                    chance = random.Random(f"{args.seed} {number}")
                    count = 0
                    while not stop.is_set():
                        name = f"{number}-{count}"
                        content = chance.randbytes(chance.randrange(1, 200_000)) * chance.choice([1, 1, 3])
                        count += 1
                        try:
                            with (mount / name).open("wb") as file:
                                file.write(content)
                                file.flush()
                                os.fsync(file.fileno())
                            entry = os.open(mount, os.O_RDONLY)
                            try:
                                os.fsync(entry)
                            finally:
                                os.close(entry)
                        except OSError:
                            return
                        synced[name] = content

                killed(rig, write, args, args.seed + number)
        with rig.attached() as mount:
            compare_files(mount, synced)
        rig.examine()
        rig.volume.check()
        said.append(f"{system} {len(synced)} files, {args.rounds} kills")
    return ", ".join(said)


def compare_files(mount: Path, synced: dict[str, bytes]) -> None:
    for name, content in synced.items():
        path = mount / name
        expect(path.exists(), f"{name} was synced, and is missing")
        expect(path.read_bytes() == content, f"{name} was synced, and has other bytes")


class Postgres:
    """A PostgreSQL server on a folder."""

    def __init__(self, data: Path, socket: Path) -> None:
        found = sorted(POSTGRES.glob("*/bin/postgres"), key=lambda path: int(path.parents[1].name))
        if not found:
            raise LeftOut("needs PostgreSQL (Debian: postgresql)")
        self.bin, self.data, self.socket = found[-1].parent, data, socket
        self.user = ["setpriv", "--reuid", "postgres", "--regid", "postgres", "--clear-groups"]
        self.process: Process | None = None

    def create(self) -> None:
        self.data.mkdir()
        shutil.chown(self.data, "postgres", "postgres")
        call([*self.user, self.bin / "initdb", "-D", self.data, "--auth=trust", "--no-instructions"], cwd="/")
        with (self.data / "postgresql.conf").open("a") as file:
            file.write("listen_addresses = ''\nfsync = on\nsynchronous_commit = on\nshared_buffers = 32MB\n")
            file.write("checkpoint_timeout = 30s\nmax_wal_size = 64MB\nmin_wal_size = 32MB\n")
            file.flush()
            os.fsync(file.fileno())

    def start(self) -> None:
        command = [*self.user, self.bin / "postgres", "-D", self.data, "-k", self.socket]
        log = self.socket / "log"
        with log.open("a") as file:
            self.process = Process(command, stdout=file, stderr=file, cwd="/")

        def is_ready() -> bool:
            expect(self.process.child.poll() is None, f"PostgreSQL does not start: {log.read_text()[-800:]}")
            words = [self.bin / "pg_isready", "-q", "-h", self.socket]
            return subprocess.run(words, check=False).returncode == 0

        wait_until(is_ready, "PostgreSQL", 120)

    def stop(self, number: int = signal.SIGINT) -> None:
        if self.process:
            with contextlib.suppress(ProcessLookupError):
                # The group, so that no server process keeps the file system busy.
                if number == signal.SIGKILL:
                    os.killpg(self.process.pid, number)
            self.process.end(number)
            self.process = None

    def psql(self, text: str) -> str:
        words = ["psql", "-h", self.socket, "-U", "postgres", "-v", "ON_ERROR_STOP=1", "-qAt", "-c", text]
        return call(words).strip()

    def client(self) -> subprocess.Popen:
        words = ["psql", "-h", str(self.socket), "-U", "postgres", "-qAt"]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
        return subprocess.Popen(words, text=True, bufsize=1, start_new_session=True, **pipes)


def postgres(args, mode: str, folder: Path) -> str:
    """PostgreSQL with clients that insert and update."""
    need("psql", "setpriv")
    folder.chmod(0o755)
    socket = folder / "socket"
    socket.mkdir()
    shutil.chown(socket, "postgres", "postgres")
    rig = Rig(args, mode, folder)
    server = Postgres(rig.mount / "data", socket)
    committed: set[str] = set()

    def insert(stop, client: int, number: int):
        child = server.client()
        count = 0
        try:
            while not stop.is_set():
                key = f"{number}-{client}-{count}"
                count += 1
                text = f"INSERT INTO rows VALUES ('{key}', repeat('{key} ', 50)) RETURNING key;"
                text += f" UPDATE sums SET count = count + 1 WHERE client = {client};\n"
                child.stdin.write("BEGIN; " + text.strip() + " COMMIT; SELECT 'committed';\n")
                answer = []
                while not answer or answer[-1] != "committed":
                    line = child.stdout.readline()
                    if not line:
                        return
                    answer.append(line.strip())
                if answer == [key, "committed"]:
                    committed.add(key)
                else:
                    return
        except (BrokenPipeError, ValueError):
            return
        finally:
            child.kill()
            child.wait()

    def load(stop, number: int):
        threads = [threading.Thread(target=insert, args=(stop, client, number)) for client in (0, 1)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def compare():
        found = set(server.psql("SELECT key FROM rows").split())
        lost = committed - found
        expect(not lost, f"{len(lost)} of {len(committed)} committed rows are missing, such as {sorted(lost)[:3]}")
        count = int(server.psql("SELECT sum(count) FROM sums"))
        expect(count == len(found), f"{count} counted, {len(found)} rows")
        call([server.bin / "pg_amcheck", "-h", socket, "-U", "postgres", "--install-missing", "postgres"])

    try:
        for number in range(args.rounds + 1):
            with rig.attached(is_new=number == 0):
                if number == 0:
                    server.create()
                server.start()
                if number == 0:
                    server.psql("CREATE TABLE rows (key text PRIMARY KEY, text text)")
                    server.psql("CREATE TABLE sums (client int PRIMARY KEY, count bigint)")
                    server.psql("INSERT INTO sums VALUES (0, 0), (1, 0)")
                compare()
                if number < args.rounds:
                    killed(rig, lambda stop, number=number: load(stop, number), args, args.seed + number)
                    server.stop(signal.SIGKILL)
                else:
                    server.stop()
    finally:
        server.stop(signal.SIGKILL)
    rig.examine()
    rig.volume.check()
    return f"{len(committed)} committed transactions, {args.rounds} kills"


SQLITE = """
import sqlite3, sys
database = sqlite3.connect(sys.argv[1], isolation_level=None, timeout=5)
database.execute("PRAGMA journal_mode=" + sys.argv[2])
database.execute("PRAGMA synchronous=" + sys.argv[3])
database.execute("CREATE TABLE IF NOT EXISTS rows (key TEXT PRIMARY KEY, text TEXT)")
count = 0
while True:
    key = f"{sys.argv[4]}-{count}"
    count += 1
    database.execute("BEGIN IMMEDIATE")
    database.execute("INSERT INTO rows VALUES (?, ?)", (key, (key + " ") * 50))
    database.execute("COMMIT")
    print(key, flush=True)
"""


def sqlite(args, mode: str, folder: Path) -> str:
    """SQLite with a program that inserts."""
    said = []
    # With a rollback journal, EXTRA also syncs the folder from which the journal was deleted.
    for journal, synchronous in (("DELETE", "EXTRA"), ("WAL", "FULL")):
        place = folder / journal
        place.mkdir()
        rig = Rig(args, mode, place)
        committed: set[str] = set()

        def compare(path: Path, committed: set[str]) -> None:
            if not path.exists():
                expect(not committed, "the database is missing")
                return
            with contextlib.closing(sqlite3.connect(path)) as database:
                result = database.execute("PRAGMA integrity_check").fetchall()
                expect(result == [("ok",)], f"integrity_check: {result[:3]}")
                if committed:
                    found = {key for (key,) in database.execute("SELECT key FROM rows")}
                    lost = committed - found
                    expect(not lost, f"{len(lost)} of {len(committed)} committed rows are missing")

        for number in range(args.rounds + 1):
            with rig.attached(is_new=number == 0) as mount:
                path = mount / "database"
                compare(path, committed)
                if number == args.rounds:
                    continue

                def insert(stop, path=path, number=number, committed=committed, modes=(journal, synchronous)):
                    words = [sys.executable, "-c", SQLITE, str(path), *modes, str(number)]
                    child = subprocess.Popen(words, text=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
                    # A line that is not complete was not written by a whole COMMIT.
                    for line in child.stdout:
                        if line.endswith("\n"):
                            committed.add(line.strip())
                    child.wait()

                killed(rig, insert, args, args.seed + number)
        rig.examine()
        rig.volume.check()
        said.append(f"{journal} {len(committed)} transactions, {args.rounds} kills")
    return ", ".join(said)


# Requests that arrive, and a machine.


def requests(args, mode: str, folder: Path) -> str:
    """Flush and discard of file systems, counted by an nbdkit before the server."""
    need("nbdkit")
    said = []
    for system in ("ext4", "xfs"):
        place = folder / system
        place.mkdir()
        rig = Rig(args, mode, place, system)
        rig.volume.serve()
        used = {}
        with contextlib.ExitStack() as stack:
            stack.callback(rig.volume.kill)
            proxy, counts = place / "proxy.socket", place / "counts"
            words = ["nbdkit", "--foreground", "-U", proxy, "--filter=stats", "nbd", f"socket={rig.volume.socket}"]
            between = Process([*words, f"statsfile={counts}"])
            stack.callback(between.end)
            wait_until(proxy.exists, "nbdkit")
            with Disk(f"nbd+unix:///?socket={proxy}", place / "fuse") as disk:
                rig.make(disk.device)
                with mounted(disk.device, rig.mount, "noatime") as mount:
                    with (mount / "file").open("wb") as file:
                        file.write(os.urandom(64 << 20))
                        file.flush()
                        os.fsync(file.fileno())
                    (mount / "file").unlink()
                # XFS frees the blocks of deleted files later, and at the latest when it is unmounted.
                with mounted(disk.device, rig.mount, "noatime") as mount:
                    call(["fstrim", mount])
            between.end()
            rig.volume.stop()
            used = rig.volume.stats()
        text = counts.read_text()
        found = {kind: re.search(rf"^{kind}: (\d+) ops", text, re.MULTILINE) for kind in ("write", "flush", "trim")}
        expect(all(found.values()), f"{system}: not all kinds of requests arrived: {text}")
        expect(used["used_bytes"] < 32 << 20, f"{system}: {used['used_bytes']} bytes are used after fstrim")
        ops = ", ".join(f"{kind} {match.group(1)}" for kind, match in found.items())
        said.append(f"{system}: {ops}, {used['used_bytes'] >> 20} MiB used after fstrim of 64")
        rig.volume.check()
    return "; ".join(said)


def vm(args, mode: str, folder: Path) -> str:
    """A kernel with its root file system on the volume."""
    need_guest(args)
    machine = guest.Guest(args.kernel, folder / "guest", guest.DISK, SWITCH)
    root = folder / "root"
    guest.make_root(root, ("bin", "sbin", "dev", "proc"))
    guest.write_script(root / "sbin/init", ROOT_INIT)
    rig = Rig(args, mode, folder)
    rig.volume.serve()
    with contextlib.ExitStack() as stack:
        stack.callback(rig.volume.kill)
        with Disk(rig.volume.uri, folder / "fuse") as disk:
            call(["mkfs.ext4", "-q", "-F", "-d", root, disk.device])
        drive = f"file=nbd+unix:///?socket={rig.volume.socket},format=raw,if=virtio,discard=unmap,cache=writeback"
        began = time.monotonic()
        said = machine.run(["-nic", "none", "-drive", drive])
        wall = time.monotonic() - began
        expect("booted: " in said, f"the machine did not boot: {said[-500:]}")
        with Disk(rig.volume.uri, folder / "fuse") as disk, mounted(disk.device, rig.mount) as mount:
            written = call(["md5sum", mount / "random"]).split()[0]
            expect((mount / "random.md5").read_text().split()[0] == written, "the machine wrote another file")
        rig.volume.stop()
    rig.examine()
    rig.volume.check()
    version = re.search(r"booted: (\S+)", said).group(1)
    return f"kernel {version} booted, wrote and ended in {wall:.1f} s without hardware support"


def make_certificates(folder: Path) -> None:
    """Writes an authority, and certificates that it has signed, for a server and a client."""
    folder.mkdir()
    key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
    authority = ["-keyout", "ca-key.pem", "-out", "ca-cert.pem", "-days", "2", "-subj", "/CN=authority"]
    call(["openssl", "req", "-x509", *key, *authority], cwd=folder)
    (folder / "names").write_text("subjectAltName=DNS:localhost")
    for name in ("server", "client"):
        request = ["-keyout", f"{name}-key.pem", "-out", f"{name}.csr", "-subj", "/CN=localhost"]
        call(["openssl", "req", *key, *request], cwd=folder)
        signed = ["-CA", "ca-cert.pem", "-CAkey", "ca-key.pem", "-CAcreateserial", "-days", "2", "-extfile", "names"]
        call(["openssl", "x509", "-req", "-in", f"{name}.csr", *signed, "-out", f"{name}-cert.pem"], cwd=folder)


def client(args, mode: str, folder: Path) -> str:
    """The kernel's own client, in a guest, with and without TLS; the server is killed."""
    need("nbd-client", "openssl")
    need_guest(args)
    certificates = folder / "certificates"
    make_certificates(certificates)
    said = []
    for word in ("clear", "TLS"):
        place = folder / word
        place.mkdir()
        rig = Rig(args, mode, place)
        rig.volume.serve()
        with Disk(rig.volume.uri, place / "fuse") as disk:
            rig.make(disk.device)
        rig.volume.stop()
        with contextlib.closing(socket.create_server(("127.0.0.1", 0))) as free:
            port = free.getsockname()[1]
        options, served = "", []
        if word == "TLS":
            files = {"cacertfile": "ca-cert", "certfile": "client-cert", "keyfile": "client-key"}
            options = "-enable-tls -tlshostname localhost"
            options += "".join(f" -{name} /tls/{file}.pem" for name, file in files.items())
            served = ["--tls-certificates", certificates]
        script = CLIENT.format(port=port, options=options)
        machine = guest.Guest(args.kernel, place / "guest", [*guest.NETWORK, "nbd"], script)
        guest.put_program(machine.root, "nbd-client")
        shutil.copytree(certificates, machine.root / "tls")
        synced, lines = {}, []
        rig.volume.serve(served, address=f"tcp:127.0.0.1:{port}")
        try:
            with machine.running(["-nic", "user,model=virtio-net-pci"]) as printed:
                for line in printed:
                    lines.append(line)
                    if found := re.search(r"synced: (\d+) ([0-9a-f]{32})", line):
                        synced[found.group(1)] = found.group(2)
                    if len(synced) == 40:
                        rig.volume.kill()
                        break
        finally:
            rig.volume.kill()
        expect(len(synced) == 40, f"{word}: the machine ended early: {lines[-10:]}")
        with rig.attached() as mount:
            for name, digest in synced.items():
                expect(call(["md5sum", mount / name]).split()[0] == digest, f"{word}: file {name} is another one")
        rig.examine()
        rig.volume.check()
        used = rig.volume.stats()["used_bytes"]
        expect(used < 24 << 20, f"{word}: {used} bytes are used, although the kernel has discarded 16 MiB")
        said.append(f"{word}: {len(synced)} synced files, 1 kill")
    return "; ".join(said)


def power(args, mode: str, folder: Path) -> str:
    """The server in a guest whose power is cut: the guest's cache is lost, and what it has synced is not."""
    need("nbd-client", "strip")
    need_guest(args)
    program = folder / "cutpoint"
    call(["strip", "-o", program, args.program.resolve()])
    image, mount = folder / "image", folder / "mount"
    with image.open("wb") as file:
        file.truncate(2 * SIZE)
    make_ext4(image, journal=True)
    volume = Volume(args.program.resolve(), mount / "volume")
    size = POWER_PARTS << 20
    with mounted(image, mount, "loop"):
        volume.create(size, args.block, mode, tuple(args.create))
    machine = guest.Guest(args.kernel, folder / "guest", [*guest.DISK, "nbd"], POWER.format(parts=POWER_PARTS))
    guest.put_program(machine.root, program)
    guest.put_program(machine.root, "nbd-client")
    chance = random.Random(args.seed)
    digests, count = {}, 0
    for number in range(args.rounds):
        begun, synced, lines, more = {}, 0, [], chance.randrange(150, 300)
        with machine.running(["-nic", "none", "-drive", f"file={image},format=raw,if=virtio"]) as printed:
            for line in printed:
                lines.append(line)
                if found := re.search(r"begun: (\d+) ([0-9a-f]{32})", line):
                    begun = {int(found.group(1)): found.group(2)}
                    if synced >= more:
                        time.sleep(chance.random() / 20)
                        break
                elif re.search(r"synced: \d+", line):
                    digests |= begun
                    begun, synced = {}, synced + 1
        expect(synced >= more, f"round {number}: the machine ended early: {lines[-10:]}")
        count += synced
        # What was being written may be there in part.
        unknown = set(begun)
        with mounted(image, mount, "loop"):
            volume.serve()
            copy = folder / "copy"
            try:
                call(["nbdcopy", volume.uri, copy])
            finally:
                volume.stop()
            volume.check()
        with copy.open("rb") as file:
            for part, digest in digests.items():
                file.seek(part << 20)
                found = hashlib.md5(file.read(1 << 20), usedforsecurity=False).hexdigest()
                expect(part in unknown or found == digest, f"round {number}: part {part} has other bytes")
                digests[part] = found
    call(["e2fsck", "-f", "-n", image])
    return f"{count} synced parts of 1 MiB, {args.rounds} power cuts"


def page_of(args, rows: list[tuple]) -> str:
    """Returns the page of the outcomes."""
    # The documentation of the script describes the cases.
    described = dict(re.findall(r"^  (\w+) +(.+)$", __doc__, re.MULTILINE))
    names = list(dict.fromkeys(name for name, *_ in rows))
    words = f"--rounds {args.rounds} --seconds {args.seconds:g} --operations {args.operations} --seed {args.seed}"
    command = f"research/runs/volume_torture.py --modes '{args.modes}' {words}"
    # The outcomes of a case are beside each other.
    lines = [row for name in names for row in rows if row[0] == name]
    return "\n".join(
        [
            *page_head("Real programs on a volume whose server is killed", commit_of(args.program), command),
            "Each case has a new volume in each mode. After a kill the file system is mounted again, so that its log "
            "is replayed. At the end it is examined (`e2fsck -fn`, `xfs_repair -n`), and `cutpoint volume check` reads "
            "everything.\n",
            *(f"- **{name}**: {described[name]}." for name in names),
            "\n| case | mode | outcome | time | |\n| --- | --- | --- | ---: | --- |",
            *(f"| {' | '.join(line)} |" for line in lines),
            "",
        ]
    )


CASES = {case.__name__: case for case in (fsx, verify, files, postgres, sqlite, requests, vm, client, power)}


def choose(args, kind: str) -> str:
    """Makes the volumes of the next cases those of a kind, such as `delta+64k+zstd+encrypted`, and returns its mode."""
    mode, *words = kind.split("+")
    args.block = 65536 if "64k" in words else 4096
    args.create = ["--compression", "zstd"] if "zstd" in words else []
    if "encrypted" in words:
        os.environ["CUTPOINT_PASSPHRASE"] = "torture"
    else:
        os.environ.pop("CUTPOINT_PASSPHRASE", None)
    return mode


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", type=Path, required=True, help="cutpoint")
    parser.add_argument("--work", type=Path, required=True, help="folder for volumes; a tmpfs costs no disk")
    parser.add_argument("--cases", default=",".join(CASES))
    parser.add_argument(
        "--modes", default="exact;burst", help="modes with ; between them; +64k, +zstd and +encrypted: such volumes"
    )
    parser.add_argument("--rounds", type=int, default=3, help="kills of each case")
    parser.add_argument("--seconds", type=float, default=5.0, help="longest time before a kill")
    parser.add_argument("--operations", type=int, default=5000, help="operations of fsx")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--fsx", type=Path, help="program fsx, if it is not on the PATH")
    parser.add_argument("--page", type=Path, help="file of the page to write")
    parser.add_argument("--kernel", type=Path, help="Debian package of a kernel, for vm, client and power")
    args = parser.parse_args()
    end_on_signals()
    if os.geteuid() != 0:
        parser.error("mounts need root")
    rows = []
    for kind in args.modes.split(";"):
        mode = choose(args, kind)
        for name in args.cases.split(","):
            folder = Path(tempfile.mkdtemp(prefix="volume-torture-", dir=args.work))
            began = time.monotonic()
            try:
                said = CASES[name](args, mode, folder)
                row = ("well", f"{time.monotonic() - began:.0f} s", said)
            except LeftOut as reason:
                row = ("LEFT OUT", "", f"{reason}")
            except (Wrong, DiskError, OSError, subprocess.TimeoutExpired, sqlite3.Error) as error:
                row = ("FAILED", f"seed {args.seed}", f"{error!r}"[:1500])
            finally:
                remove_leftovers(folder)
                shutil.rmtree(folder, ignore_errors=True)
            print(f"{kind}, {name}: {', '.join(part for part in row if part)}", flush=True)
            rows.append((name, kind, *row))
    if args.page:
        args.page.write_text(page_of(args, rows), encoding="utf-8")
    return 1 if any(outcome == "FAILED" for _, _, outcome, *_ in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
