"""Served volumes, block devices of them, and file systems on these, for scripts that measure or test volumes.

Everything is taken down in the opposite order, also after an error or a signal. Needs root, `nbdfuse` and `nbdcopy`
(Debian: libnbd-bin), `losetup`, `fusermount3`.
"""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import ClassVar

# The maximum duration of a command, in seconds, so that a stuck file system ends the script.
TIMEOUT_S = 900


class DiskError(Exception):
    """A command that failed, with its last output."""


def call(command: list, timeout: float = TIMEOUT_S, **options) -> str:
    """Runs a command, and returns what it prints. Fails with the end of its messages."""
    text = [str(part) for part in command]
    done = subprocess.run(text, capture_output=True, text=True, check=False, timeout=timeout, **options)
    if done.returncode:
        said = (done.stderr.strip() or done.stdout.strip())[-500:]
        raise DiskError(f"{' '.join(text)[:200]} ended with {done.returncode}: {said}")
    return done.stdout


def commit_of(program: Path) -> str:
    """Returns the commit of a `cutpoint` program."""
    found = re.search(r"commit ([0-9a-f]+[^,)]*)", call([program, "version"]))
    return found.group(1) if found else "not recorded"


def end_on_signals() -> None:
    """Makes SIGTERM and SIGHUP end the script like an error does, so that mounts are removed."""

    def end(number, _frame):
        sys.exit(128 + number)

    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, end)


def wait_until(condition, what: str, timeout: float = 30.0) -> None:
    """Waits for a condition. Fails with `what` after `timeout` seconds."""
    ends = time.monotonic() + timeout
    while not condition():
        if time.monotonic() > ends:
            raise DiskError(f"{what}: not within {timeout:.0f} s")
        time.sleep(0.005)


class Process:
    """A child process of which CPU time and memory can be read while it runs."""

    def __init__(self, command: list, **options) -> None:
        text = [str(part) for part in command]
        # A session of its own: Ctrl-C reaches the script alone, which takes everything down in order.
        self.child = subprocess.Popen(text, start_new_session=True, **options)
        self.pid = self.child.pid

    def cpu_s(self) -> float:
        """Returns the CPU seconds of all threads so far, also of those that have ended, to the nanosecond."""
        return time.clock_gettime((~self.pid << 3) | 2)

    def memory(self) -> tuple[int, int]:
        """Returns the resident bytes now and at most."""
        found = {}
        for line in Path(f"/proc/{self.pid}/status").read_text().splitlines():
            name, _, value = line.partition(":")
            if name in ("VmRSS", "VmHWM"):
                found[name] = int(value.split()[0]) * 1024
        return found.get("VmRSS", 0), found.get("VmHWM", 0)

    def written_bytes(self) -> int:
        """Returns the bytes of all calls of `write` and its kin so far; a `send` to a socket is none."""
        lines = Path(f"/proc/{self.pid}/io").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("wchar:"))

    def end(self, number: int = signal.SIGTERM, timeout: float = 120.0) -> int:
        """Ends the process by a signal, and by SIGKILL after `timeout` seconds."""
        if self.child.poll() is None:
            self.child.send_signal(number)
        try:
            return self.child.wait(timeout)
        except subprocess.TimeoutExpired:
            self.child.kill()
            return self.child.wait()


class Volume:
    """A volume in a folder, and the program that serves it."""

    # The volumes that this script has served, for `remove_leftovers`.
    served: ClassVar[list["Volume"]] = []

    def __init__(self, program: Path, folder: Path) -> None:
        self.program, self.folder = program, folder
        self.socket = folder.with_name(folder.name + ".socket")
        self.server: Process | None = None
        home = folder.with_name(folder.name + ".home")
        variables = ("HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME")
        self.environment = os.environ | dict.fromkeys(variables, str(home))

    @property
    def uri(self) -> str:
        return f"nbd+unix:///?socket={self.socket}"

    def create(self, size: int, block: int, mode: str, options: tuple = ()) -> None:
        """Creates the volume, in clear if there is no passphrase."""
        sizes = ["--size", str(size), "--block-size", str(block)]
        clear = () if "CUTPOINT_PASSPHRASE" in self.environment else ("--encryption", "none")
        self.command("create", *sizes, "--mode", mode, *clear, *options)

    def serve(self, options: tuple = (), address: str | None = None) -> float:
        """Starts the server, at its socket or another address, and returns the seconds until it says that it serves."""
        self.socket.unlink(missing_ok=True)
        Volume.served.append(self)
        began = time.monotonic()
        address = address or f"unix:{self.socket}"
        command = [self.program, "volume", "serve", self.folder, "--listen", address, "--json", *options]
        with self.folder.with_name(self.folder.name + ".errors").open("w") as errors:
            self.server = Process(command, env=self.environment, stdout=subprocess.PIPE, stderr=errors, text=True)
        line = self.server.child.stdout.readline()
        if not line or json.loads(line).get("type") != "serving":
            self.server.end()
            raise DiskError(f"{self.folder}: not served: {line.strip() or self.errors()}")
        return time.monotonic() - began

    def errors(self) -> str:
        """Returns the messages of the last server."""
        return self.folder.with_name(self.folder.name + ".errors").read_text()[-1000:]

    def stop(self) -> None:
        """Ends the server in the ordinary way. Fails if it ends with an error."""
        server, self.server = self.server, None
        if server and (code := server.end()):
            raise DiskError(f"{self.folder}: the server ended with {code}: {self.errors()}")

    def kill(self) -> None:
        """Ends the server by SIGKILL."""
        server, self.server = self.server, None
        if server:
            server.end(signal.SIGKILL)

    def stats(self) -> dict:
        """Returns the statistics of the volume, which must not be served."""
        return json.loads(self.command("stats", "--json").splitlines()[-1])

    def command(self, verb: str, *words: str) -> str:
        """Runs a command for the volume, and returns what it prints."""
        return call([self.program, "volume", verb, self.folder, *words], env=self.environment)

    def check(self) -> str:
        """Reads everything, and fails if something is damaged."""
        return self.command("check")


def backing_file(loop: Path) -> str:
    """Returns the path of the file behind a loop device, or nothing if it has none."""
    try:
        return (loop / "loop/backing_file").read_text().strip()
    except OSError:
        return ""


def is_mounted(path: Path) -> bool:
    """Tells whether a file system is mounted here. A file system that has failed cannot be asked itself."""
    # Octal escapes for spaces do not occur in the names that these scripts give.
    return any(line.split()[1] == str(path) for line in Path("/proc/self/mounts").read_text().splitlines())


def unmount(path: Path) -> None:
    """Unmounts a file system, and detaches it if its device has failed."""
    for words in (["umount", path], ["umount", "-l", path]):
        if is_mounted(path):
            with contextlib.suppress(DiskError, subprocess.TimeoutExpired):
                call(words, timeout=120)


class Disk:
    """A block device of an NBD server, by `nbdfuse` and a loop device."""

    def __init__(self, uri: str, folder: Path) -> None:
        self.uri, self.folder = uri, folder
        self.device: Path | None = None
        self.stack = contextlib.ExitStack()

    def __enter__(self) -> "Disk":
        with contextlib.ExitStack() as stack:
            self.folder.mkdir(parents=True, exist_ok=True)
            file = self.folder / "nbd"
            fuse = Process(["nbdfuse", file, self.uri], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            stack.callback(self._end_fuse, fuse)
            wait_until(lambda: is_mounted(self.folder) or fuse.child.poll() is not None, f"nbdfuse {self.uri}")
            if fuse.child.poll() is not None:
                raise DiskError(f"nbdfuse {self.uri} ended with {fuse.child.returncode}")
            device = call(["losetup", "--find", "--show", "--direct-io=on", file]).strip()
            stack.callback(self._detach, Path(device))
            self.device = Path(device)
            self.stack = stack.pop_all()
        return self

    def __exit__(self, *_error) -> None:
        self.stack.close()

    def _detach(self, device: Path) -> None:
        with contextlib.suppress(DiskError):
            call(["losetup", "--detach", device], timeout=60)
        # A detached device stays until its last user has gone.
        with contextlib.suppress(DiskError):
            wait_until(lambda: not backing_file(Path("/sys/block") / device.name), f"losetup -d {device}", 10)

    def _end_fuse(self, fuse: Process) -> None:
        with contextlib.suppress(DiskError):
            call(["fusermount3", "-u", self.folder], timeout=60)
        unmount(self.folder)
        with contextlib.suppress(subprocess.TimeoutExpired):
            fuse.child.wait(20)
        fuse.end(signal.SIGKILL)


@contextlib.contextmanager
def mounted(device: Path, folder: Path, options: str = "noatime"):
    """Mounts a file system for the duration of a block."""
    folder.mkdir(parents=True, exist_ok=True)
    call(["mount", "-o", options, device, folder])
    try:
        yield folder
    finally:
        unmount(folder)


def make_ext4(device: Path, cluster: int = 4096, files_count: int = 0, journal: bool = False) -> None:
    """Makes an ext4 file system without zeroing by the kernel later.

    With clusters of more than 4 KiB, each file begins at a multiple of the cluster, as it does in a file system with
    records of that size.
    """
    features = [] if journal else ["^has_journal"]
    words = ["mkfs.ext4", "-q", "-F", "-b", 4096, "-m", 0, "-E", "lazy_itable_init=0,lazy_journal_init=0"]
    if cluster > 4096:
        features.append("bigalloc")
        words += ["-C", cluster]
    if features:
        words += ["-O", ",".join(features)]
    if files_count:
        words += ["-N", files_count + 1024]
    call([*words, device])


def remove_leftovers(folder: Path) -> None:
    """Ends servers, unmounts and detaches whatever an interrupted run left below a folder."""
    below = str(folder.resolve()) + "/"
    for volume in Volume.served:
        if str(volume.folder.resolve()).startswith(below):
            volume.kill()
    for line in reversed(Path("/proc/mounts").read_text().splitlines()):
        device, place = line.split()[:2]
        source = backing_file(Path("/sys/block") / Path(device).name) if device.startswith("/dev/loop") else ""
        if place.startswith(below) or source.startswith(below):
            unmount(Path(place))
    for loop in Path("/sys/block").glob("loop*"):
        if backing_file(loop).startswith(below):
            with contextlib.suppress(DiskError):
                call(["losetup", "--detach", f"/dev/{loop.name}"])
