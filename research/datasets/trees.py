#!/usr/bin/env python3
"""CODE, CODETAR, VERSION-SMALL, VERSION-LARGE, VERSION-RANGE, LNX: releases of source trees.

CODE           12 consecutive releases of Kubernetes (some 10,000 files each), as folders. CODETAR        the same, one
plain tar each. VERSION-SMALL  12 consecutive releases of OpenSSL (C), as folders; the BURST paper took 12 of GDB.
VERSION-LARGE  10 consecutive releases of Cilium (Go), as folders; the BURST paper took 10 of GCC. VERSION-RANGE  10
releases of Kubernetes over eight years, as folders; the BURST paper took Linux 4.4 to 5.10. LNX            the newest
releases of the Linux kernel that the package archive offers, one plain tar each, as in the SeqCDC papers.

With BYTES, a part of each tree: files that their path's hash chooses, the same ones in all versions. The clients are
go, cargo and apt-get. In folders the mtimes of files that did not change are those of the version before, as a checkout
would leave them.
"""

import json
import os
import shutil
import tarfile
import zipfile
from pathlib import Path

from common import (
    DATA,
    DAY_S,
    START_S,
    ended,
    fact,
    fail,
    keep_mtimes,
    need,
    number,
    piped,
    remove,
    run,
    said,
    scratch,
    tar,
    thin,
    version_folder,
    versions,
    wanted,
)

KUBERNETES = [
    "v1.33.0",
    "v1.33.1",
    "v1.33.2",
    "v1.33.3",
    "v1.33.4",
    "v1.33.5",
    "v1.34.0",
    "v1.34.1",
    "v1.34.2",
    "v1.35.0",
    "v1.35.1",
    "v1.36.0",
]
SOURCES = {
    "CODE": ("go", "k8s.io/kubernetes", KUBERNETES),
    "CODETAR": ("go", "k8s.io/kubernetes", KUBERNETES),
    "VERSION-SMALL": (
        "cargo",
        "openssl-src",
        [
            "300.1.3",
            "300.1.5",
            "300.1.6",
            "300.2.0",
            "300.2.2",
            "300.3.0",
            "300.3.1",
            "300.3.2",
            "300.4.0",
            "300.4.2",
            "300.5.0",
            "300.5.1",
        ],
    ),
    "VERSION-LARGE": (
        "go",
        "github.com/cilium/cilium",
        [f"v1.15.{patch}" for patch in (0, 1, 2, 3, 4, 5, 6, 7, 8, 10)],
    ),
    "VERSION-RANGE": ("go", "k8s.io/kubernetes", [f"v1.{minor}.0" for minor in range(8, 36, 3)]),
    "LNX": ("apt", "linux-source", None),
}


class GoModule:
    """A module's zip, as `go mod download` brings it."""

    def __init__(self, name, version, work):
        environment = os.environ | {"GOFLAGS": "-modcacherw", "GOMODCACHE": str(work / "go")}
        go = need("go", "golang-go")
        self.zip = zipfile.ZipFile(
            json.loads(run(go, "mod", "download", "-json", f"{name}@{version}", env=environment, cwd=work))["Zip"]
        )
        self.prefix = f"{name}@{version}/"

    def sizes(self):
        return {
            entry.filename.removeprefix(self.prefix): entry.file_size
            for entry in self.zip.infolist()
            if not entry.is_dir()
        }

    def write(self, folder, is_chosen):
        for entry in self.zip.infolist():
            path = entry.filename.removeprefix(self.prefix)
            if not entry.is_dir() and is_chosen(path, entry.file_size):
                target = folder / path
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(self.zip.read(entry))


class Crate:
    """A crate's folder, as `cargo vendor` brings it."""

    def __init__(self, name, version, work):
        own = work / "crate"
        own.mkdir()
        (own / "lib.rs").touch()
        (own / "Cargo.toml").write_text(
            '[package]\nname = "fetch"\nversion = "0.0.0"\nedition = "2021"\n[lib]\npath = "lib.rs"\n'
            f'[dependencies]\n{name} = "={version}"\n[workspace]\n'
        )
        run(need("cargo", "cargo"), "vendor", "--quiet", "--versioned-dirs", cwd=own)
        self.folder = next((own / "vendor").glob(f"{name}-{version}*"))
        (self.folder / ".cargo-checksum.json").unlink()

    def sizes(self):
        return {
            str(path.relative_to(self.folder)): path.stat().st_size for path in self.folder.rglob("*") if path.is_file()
        }

    def write(self, folder, is_chosen):
        for path, size in sorted(self.sizes().items()):
            if is_chosen(path, size):
                target = folder / path
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(self.folder / path, target)


class KernelPackage:
    """The tar in a package linux-source-*, read as a stream: unpacked it is larger than most sets."""

    def __init__(self, name, version, work):
        need("xz", "xz-utils")
        run(need("apt-get", "apt"), "-q", "download", f"{name}={version}", cwd=work)
        deb = next(work.glob("*.deb"))
        self.archive = work / "kernel.tar.xz"
        process, stream = piped(need("dpkg-deb", "dpkg"), "--fsys-tarfile", deb)
        with tarfile.open(fileobj=stream, mode="r|") as packed:
            for entry in packed:
                if entry.name.endswith(".tar.xz"):
                    with open(self.archive, "wb") as file:
                        shutil.copyfileobj(packed.extractfile(entry), file)
        ended(process)
        deb.unlink()
        if not self.archive.exists():
            fail(f"{name} {version} holds no .tar.xz")

    def entries(self):
        process, stream = piped("xz", "--decompress", "--stdout", self.archive)
        with tarfile.open(fileobj=stream, mode="r|") as packed:
            for entry in packed:
                if entry.isfile():
                    yield packed, entry, entry.name.split("/", 1)[1]
        ended(process)

    def sizes(self):
        return {path: entry.size for _, entry, path in self.entries()}

    def write(self, folder, is_chosen):
        for packed, entry, path in self.entries():
            if is_chosen(path, entry.size):
                target = folder / path
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(packed.extractfile(entry).read())


def kernels():
    """The package of kernel sources that has most versions, and these from the oldest to the newest."""
    names = run(need("apt-cache", "apt"), "search", "--names-only", r"^linux-source-[0-9.]+$").split("\n")
    offered = {
        name: list(dict.fromkeys(line.split("|")[1].strip() for line in run("apt-cache", "madison", name).splitlines()))
        for name in (line.split(" ")[0] for line in names)
        if name
    }
    name = max(offered, key=lambda name: len(offered[name]), default=None)
    if name is None or len(offered[name]) < 2:
        fail(
            f"apt offers {offered or 'no package linux-source-*'}, two versions or more were expected: "
            "run apt-get update, with the suites of security and of updates among the sources"
        )
    return name, offered[name][::-1]


def build(names):
    """Sets of the same releases: one as folders, the other as tars."""
    kind, package, releases = SOURCES[names[0]]
    if kind == "apt":
        package, releases = kernels()
    count = versions(len(releases), len(releases))
    chosen = releases[-count:] if kind == "apt" else releases[:count]
    budget = number("BYTES", None)
    is_chosen = None
    fact(**{package: " ".join(chosen)})
    for version, release in enumerate(chosen, 1):
        with scratch() as work:
            tree = {"go": GoModule, "cargo": Crate, "apt": KernelPackage}[kind](package, release, Path(work))
            if is_chosen is None:
                is_chosen = thin(tree.sizes() if budget else {}, budget and budget // count)
            for name in names:
                folder = version_folder(name, version)
                if name in ("CODETAR", "LNX"):
                    plain = Path(work) / "tree"
                    plain.mkdir()
                    tree.write(plain, is_chosen)
                    tar(plain, folder / "snap.tar")
                else:
                    tree.write(folder, is_chosen)
                    keep_mtimes(
                        DATA / name / f"v{version - 1:02d}" if version > 1 else None, folder, START_S + version * DAY_S
                    )
                said(name, version)
            remove(work)


chosen = wanted(*SOURCES)
code = [name for name in chosen if name.startswith("CODE")]
for names in [code] * bool(code) + [[name] for name in chosen if name not in code]:
    build(names)
