#!/usr/bin/env python3
"""DEB, VM: root file systems and images of virtual machines, of Debian's packages. Nothing is installed and no
maintainer script runs: the packages are unpacked with dpkg-deb, below a folder; apt works out what depends on what for
a machine that has no package at all.

DEB  12 machines with one Debian and another task each (web server, database, name server, ...): a tar of the root file
     system each. The SeqCDC papers took 65 Debian machines from a vendor's market place: like these, they share the
     system and little else.
VM   5 backups of one machine's raw ext4 image, as in the BURST paper. From one to the next: packages come in a newer
     version where apt offers two, another package is installed, a day's logs are written and old ones deleted, files of
     a home folder come, go and change, and 2 % of the pages of a database file are written in place. What is not
     touched stays where it is in the image: debugfs does the work in it.

With BYTES, a part of each machine: files that their path's hash chooses, the same ones in all versions.
"""

import hashlib
import os
import random
import re
import shutil
import subprocess
import tarfile
from pathlib import Path

from common import (
    DAY_S,
    START_S,
    Words,
    ended,
    fact,
    fail,
    need,
    noise,
    number,
    piped,
    remove,
    run,
    said,
    scratch,
    seed,
    tar,
    thin,
    version_folder,
    versions,
    wanted,
)

SYSTEM = [
    "base-files",
    "base-passwd",
    "bash",
    "coreutils",
    "dpkg",
    "apt",
    "util-linux",
    "login",
    "passwd",
    "sed",
    "grep",
    "gzip",
    "tar",
    "findutils",
    "mawk",
    "perl-base",
    "ncurses-bin",
    "iproute2",
    "systemd-sysv",
    "openssh-server",
    "curl",
]
TASKS = [
    "nginx-light",
    "postgresql",
    "bind9",
    "redis-server",
    "php-fpm",
    "exim4-daemon-light",
    "python3-flask",
    "git",
    "haproxy",
    "unbound",
    "memcached",
    "nfs-kernel-server",
]
LATER = [
    "rsync",
    "tmux",
    "vim-tiny",
    "strace",
    "sqlite3",
    "lsof",
    "zstd",
    "wget",
]  # a package for each next version of the machine


class Packages:
    """Packages for a machine without any, downloaded into a folder and unpacked from there."""

    def __init__(self, folder):
        self.folder = Path(folder)
        (self.folder / "partial").mkdir(parents=True)
        (self.folder / "status").touch()
        self.apt = [
            need("apt-get", "apt"),
            "-q",
            "-y",
            "-o",
            f"Dir::State::Status={self.folder}/status",
            "-o",
            f"Dir::Cache::Archives={self.folder}",
            "-o",
            "APT::Install-Recommends=false",
            "-o",
            "APT::Sandbox::User=root",
            "-o",
            "Debug::NoLocking=true",
        ]

    def closure(self, names):
        """What is needed for these packages, and their files: {package: (version, file)}."""
        planned = re.findall(r"^Inst (\S+) \((\S+) ", run(*self.apt, "--simulate", "install", *names), re.MULTILINE)
        if not planned:
            fail(f"apt plans nothing for {' '.join(names)}: run apt-get update")
        run(*self.apt, "--download-only", "install", *names)
        return {name: (version, self.file(name, version)) for name, version in planned}

    def file(self, name, version):
        """A package's file, downloaded if it is not there."""
        pattern = f"{name}_{version.replace(':', '%3a')}_*.deb"
        if not any(self.folder.glob(pattern)):
            run(*self.apt, "download", f"{name}={version}", cwd=self.folder)
        return next(self.folder.glob(pattern))

    def offered(self, names):
        """The versions of packages that apt offers, the newest first."""
        found = {name: [] for name in names}
        for line in run("apt-cache", "madison", *names).splitlines():
            name, version, _ = (part.strip() for part in line.split("|"))
            if name in found and version not in found[name]:
                found[name].append(version)
        return found


def members(deb):
    """(archive, entry, path) of all that is in a package."""
    process, stream = piped(need("dpkg-deb", "dpkg"), "--fsys-tarfile", deb)
    with tarfile.open(fileobj=stream, mode="r|") as packed:
        for entry in packed:
            yield packed, entry, entry.name.removeprefix("./").rstrip("/")
    ended(process)


def sizes(debs):
    return {path: entry.size for deb in debs for _, entry, path in members(deb) if entry.isfile()}


def unpack(debs, root, is_chosen):
    """Unpacks packages; of their files those that are chosen, but all folders and links. Hard links become links by
    name."""
    for deb in debs:
        for packed, entry, path in members(deb):
            target = root / path
            if entry.isdir():
                target.mkdir(parents=True, exist_ok=True)
                continue
            if not (entry.isfile() and is_chosen(path, entry.size) or entry.issym() or entry.islnk()):
                continue
            target.parent.mkdir(parents=True, exist_ok=True)
            target.unlink(missing_ok=True)
            if entry.issym():
                target.symlink_to(entry.linkname)
            elif entry.islnk():
                target.symlink_to("/" + entry.linkname.removeprefix("./"))
            else:
                target.write_bytes(packed.extractfile(entry).read())
                target.chmod(entry.mode & 0o777 | 0o600)


def build_deb(work):
    count = versions(len(TASKS), len(TASKS))
    budget = number("BYTES", None)
    packages = Packages(f"{work}/packages")
    is_chosen = None
    for version, task in enumerate(TASKS[:count], 1):
        closure = packages.closure(SYSTEM + [task])
        root = Path(work, "root")
        root.mkdir()
        debs = [file for _, file in closure.values()]
        is_chosen = is_chosen or (thin(sizes(debs), budget // count) if budget else lambda path, size: True)
        unpack(debs, root, is_chosen)
        digest = hashlib.sha256(
            " ".join(f"{name}={got}" for name, (got, _) in sorted(closure.items())).encode()
        ).hexdigest()
        fact(
            **{
                f"v{version:02d}": f"{task} {closure.get(task, ('',))[0]}, {len(closure)} packages, "
                f"SHA-256 of their versions {digest}"
            }
        )
        (root / "etc/hostname").write_text(f"machine-{version}\n")
        (root / "etc/machine-id").write_text(noise(f"machine {version}", 16).hex() + "\n")
        folder = version_folder("DEB", version)
        tar(root, folder / "root.tar")
        os.utime(folder / "root.tar", (START_S + version * DAY_S,) * 2)
        remove(root)
        said("DEB", version)


class Image:
    """A raw ext4 image that is not mounted: debugfs writes into it, with a clock of ours, so that it is the same each
    time."""

    QUIET = re.compile(r"debugfs: |debugfs \d|Allocated inode: |$")

    def __init__(self, path, size):
        self.path = path
        self.now_s = START_S
        self.folders = {"."}
        self.commands = []
        zero = "00000000-0000-4000-8000-000000000001"
        with open(path, "wb") as file:
            file.truncate(size)
        run(
            need("mke2fs", "e2fsprogs"),
            "-q",
            "-F",
            "-t",
            "ext4",
            "-b",
            4096,
            "-i",
            4096,
            "-J",
            "size=4",
            "-U",
            zero,
            "-E",
            f"hash_seed={zero},lazy_itable_init=0,lazy_journal_init=0,root_owner=0:0",
            path,
            env=self.clock(),
        )

    def clock(self):
        return os.environ | {"E2FSPROGS_FAKE_TIME": str(self.now_s)}

    def folder(self, path):
        if path not in self.folders:
            self.at(path, 'mkdir "{}"')
            self.folders.add(path)

    def at(self, path, command):
        """Asks for a command in the folder of a path, with the path's last part."""
        parent, name = os.path.split(path)
        self.folder(parent or ".")
        self.commands += [f'cd "/{parent}"', command.format(name)]

    def write(self, path, source):
        self.at(path, f'write "{source}" "{{}}"')

    def link(self, path, target):
        self.at(path, f'symlink "{{}}" "{target}"')

    def remove(self, path):
        self.at(path, 'rm "{}"')

    def apply(self):
        """Carries out what was asked for, and has e2fsck look at the outcome."""
        script = Path(f"{self.path}.commands")
        script.write_text("\n".join(self.commands) + "\n")
        self.commands = []
        said_ = run(
            need("debugfs", "e2fsprogs"), "-w", "-f", script, self.path, env=self.clock(), stderr=subprocess.STDOUT
        )
        script.unlink()
        wrong = [line for line in said_.splitlines() if not self.QUIET.match(line)]
        if wrong:
            fail(f"debugfs: {wrong[0]} ({len(wrong)} such lines)")
        run(need("e2fsck", "e2fsprogs"), "-f", "-n", self.path, env=self.clock())

    def write_pages(self, path, pages):
        """Writes pages of 4 KiB of a file where they are: {page: bytes}."""
        blocks = run("debugfs", "-R", f'blocks "/{path}"', self.path).split()
        with open(self.path, "r+b") as file:
            for page, content in pages.items():
                file.seek(int(blocks[page]) * 4096)
                file.write(content)


def page_of(label, page):
    """A page of a database that is not full. (None is empty: debugfs leaves out blocks of zeros.)"""
    return noise(f"{label} {page}", 3000) + bytes(1096)


def build_vm(work):
    count = versions(5, 1 + len(LATER))
    budget = number("BYTES", None)
    packages = Packages(f"{work}/packages")
    start = seed(20260901)
    source = random.Random(start)
    words = Words(start)
    closure = packages.closure(SYSTEM + ["nginx-light", "redis-server"])
    offered = packages.offered(closure)
    upgrades = [name for name in sorted(closure) if len(offered[name]) > 1]
    root = Path(work, "root")
    debs = [packages.file(name, offered[name][-1]) if name in upgrades else file for name, (_, file) in closure.items()]
    inside = sizes(debs)
    inside = {
        path: -(-size // 4096) * 4096 + 4096 for path, size in inside.items()
    }  # in blocks, and one more for each, as most folders hold few files
    size = max(32 << 20, budget // count if budget else sum(inside.values()) * 2 + (64 << 20)) >> 20 << 20
    is_chosen = thin(inside, size * 45 // 100)
    root.mkdir()
    unpack(debs, root, is_chosen)
    new = Path(work, "new")
    new.mkdir()
    image = Image(f"{work}/disk.img", size)
    unit = size // 400
    database = "var/lib/app/data.db"
    home = {}
    state = {"turn": 0}

    def put(path, content):
        state["turn"] += 1
        own = new / str(state["turn"])
        own.write_bytes(content)
        image.write(path, own)

    def put_tree(tree, known):
        for path in sorted(
            map(str, (path.relative_to(tree) for path in tree.rglob("*") if path.is_symlink() or not path.is_dir()))
        ):
            if path in known:
                image.remove(path)
            if (tree / path).is_symlink():
                image.link(path, os.readlink(tree / path))
            else:
                image.write(path, tree / path)
            known.add(path)

    def document():
        return (
            words.text(source, source.randrange(200, max(400, unit // 4)))
            if source.random() < 0.7
            else noise(f"VM {start} {source.getrandbits(64)}", source.randrange(200, max(400, unit // 4)))
        )

    known = set()
    put_tree(root, known)
    pages = max(8, size // 12 // 4096)
    put(database, b"".join(map(page_of, [f"VM {start} 1"] * pages, range(pages))))
    while sum(home.values()) < 8 * unit:
        path = f"home/user/{words.choose(source, 1)[0]}/{source.getrandbits(32):08x}"
        content = document()
        home[path] = len(content)
        put(path, content)
    for version in range(1, count + 1):
        image.now_s = START_S + version * DAY_S
        log = words.text(source, unit)
        put(f"var/log/app/{version:03d}.log", log)
        if version > 1:
            several = upgrades[version - 2 :: count - 1] if count > 1 else []
            more = packages.closure(SYSTEM + LATER[version - 2 : version - 1])
            tree = Path(work, f"tree{version}")
            tree.mkdir()
            unpack(
                [closure[name][1] for name in several]
                + [file for name, (_, file) in more.items() if name not in closure],
                tree,
                is_chosen,
            )
            closure = more | closure
            put_tree(tree, known)
            if version > 3:
                image.remove(f"var/log/app/{version - 3:03d}.log")
            touched = source.sample(sorted(home), max(3, len(home) // 10))
            for path in touched:
                image.remove(path)
            for path in touched[len(touched) // 3 :]:
                put(path, document())
            for path in touched[: len(touched) // 3]:
                del home[path]
            for _ in range(len(touched) // 2):
                path = f"home/user/new{version}/{source.getrandbits(32):08x}"
                content = document()
                home[path] = len(content)
                put(path, content)
        image.apply()
        if version > 1:
            image.write_pages(
                database,
                {
                    page: page_of(f"VM {start} {version}", page)
                    for page in source.sample(range(pages), max(1, pages // 50))
                },
            )
        folder = version_folder("VM", version)
        shutil.copyfile(image.path, folder / "disk.img")
        os.utime(folder / "disk.img", (image.now_s,) * 2)
        said("VM", version)
    fact(
        upgraded=" ".join(f"{name} {offered[name][-1]} {offered[name][0]}" for name in upgrades),
        e2fsprogs=run("dpkg-query", "-W", "-f", "${Version}", "e2fsprogs"),
    )


for name, build in (("DEB", build_deb), ("VM", build_vm)):
    if wanted(name):
        with scratch() as work:
            build(work)
