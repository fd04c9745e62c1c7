"""A small Linux guest of QEMU, for scripts that test volumes.

The kernel is that of a Debian package (`apt-get download linux-image-...-cloud-amd64`), and runs without hardware
support: `-accel tcg`. Everything else is in the initial RAM disk: busybox, kernel modules, and programs with their
libraries. Needs `qemu-system-x86_64`, `busybox`, `dpkg-deb`.
"""

import contextlib
import re
import shutil
import signal
import stat
import subprocess
from pathlib import Path

from disk import Process, call

PROGRAMS = ("qemu-system-x86_64", "busybox", "dpkg-deb")
# Modules of the package's kernel in the order in which they are loaded; ext4 is built in.
PCI = ["virtio_ring", "virtio", "virtio_pci_modern_dev", "virtio_pci_legacy_dev", "virtio_pci"]
DISK = [*PCI, "virtio_blk"]
NETWORK = [*PCI, "failover", "net_failover", "virtio_net"]
HEAD = """#!/bin/busybox sh
/bin/busybox --install -s /bin
mount -t devtmpfs dev /dev
mount -t proc proc /proc
for module in {modules}; do
  insmod /modules/$module.ko || echo "insmod $module failed"
done
"""


def put_program(root: Path, program: str | Path) -> None:
    """Copies a program and its libraries to a root file system."""
    path = str(shutil.which(program))
    libraries = re.findall(r"(/\S+) \(0x", call(["ldd", path]))
    for source in [path, *libraries]:
        copy = root / source.lstrip("/")
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source, copy)
    shutil.copy(path, root / "bin")


def make_root(root: Path, names: tuple[str, ...]) -> None:
    """Makes a root file system of busybox alone."""
    for name in names:
        (root / name).mkdir(parents=True)
    shutil.copy(shutil.which("busybox"), root / "bin/busybox")


def write_script(path: Path, text: str) -> None:
    path.write_text(text)
    path.chmod(path.stat().st_mode | stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH)


class Guest:
    """A guest whose first process is a script of busybox's shell, behind the loading of modules."""

    def __init__(self, package: Path, folder: Path, modules: list[str], script: str) -> None:
        self.folder = folder
        folder.mkdir()
        self.unpacked, self.root = folder / "package", folder / "initial"
        call(["dpkg-deb", "-x", package, self.unpacked])
        make_root(self.root, ("bin", "dev", "proc", "modules", "mnt"))
        for module in modules:
            found = next(self.unpacked.rglob(f"{module}.ko"))
            shutil.copy(found, self.root / "modules")
        write_script(self.root / "init", HEAD.format(modules=" ".join(modules)) + script)

    def command(self, options: list[str]) -> list:
        """Returns the command that runs the guest, and writes its initial RAM disk."""
        kernel = next((self.unpacked / "boot").glob("vmlinuz-*"))
        archive = self.folder / "initial.cpio"
        call(["sh", "-c", f"cd {self.root} && busybox find . | busybox cpio -o -H newc > {archive}"])
        words = ["qemu-system-x86_64", "-accel", "tcg", "-m", "384", "-nographic", "-no-reboot"]
        return [*words, "-kernel", kernel, "-initrd", archive, "-append", "console=ttyS0 panic=-1 quiet", *options]

    def run(self, options: list[str]) -> str:
        """Runs the guest to its end, and returns what it prints."""
        return call(self.command(options), timeout=300, stdin=subprocess.DEVNULL)

    @contextlib.contextmanager
    def running(self, options: list[str]):
        """Runs the guest for the duration of a block, and yields the lines that it prints."""
        words = self.command(options)
        guest = Process(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, errors="replace")
        try:
            yield (line.rstrip() for line in guest.child.stdout)
        finally:
            guest.end(signal.SIGKILL)
