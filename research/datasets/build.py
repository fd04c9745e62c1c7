#!/usr/bin/env python3
"""Builds data sets to measure with, and says what is in them.

    ./build.py NAME... --out DIR [--size tiny|small|medium|full|BYTES] [--versions N] [--seed N]
    ./build.py NAME... --out DIR --verify       compares what is there with the manifests
    ./build.py --list [--out DIR]               all sets, what they need, and which are in DIR

NAME is a set or a group: `synthetic` (no network, no server), `papers` (those that stand for a set of the papers),
`all`. A size is about how many bytes all versions of a set have together; K, M and G are powers of 1024. Each set
becomes DIR/NAME/v01, v02, ..., and beside it DIR/NAME.manifest: who made it from what, and size and SHA-256 of each
file. A set is replaced once the new one is whole. Python's standard library only; packages that a builder needs are
installed in DIR/.venv.
"""

import argparse
import hashlib
import importlib.metadata
import json
import os
import platform
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
SIZES = {"tiny": 2 << 20, "small": 32 << 20, "medium": 192 << 20, "full": None}
SUFFIXES = {"K": 10, "M": 20, "G": 30}
SEED, RELEASES, ARCHIVE, CHANCE = "seed", "releases", "archive", "chance"
REPEATS = {
    SEED: "the same bytes from the same seed",
    RELEASES: "the same bytes: the releases are named in the builder",
    ARCHIVE: "the same bytes while the package archive offers the same versions",
    CHANCE: "other bytes each time: a server's own chance",
}


@dataclass(frozen=True)
class Set:
    builder: str
    repeats: str  # one of REPEATS
    needs: str = ""  # programs, for --list
    packages: tuple = ()  # of PyPI, with their versions
    paper: bool = False  # stands for a set of a paper

    @property
    def synthetic(self):
        return self.repeats == SEED and not self.needs and not self.packages


NUMPY = ("numpy==2.4.6",)
SETS = {
    "RAND": Set("rand.sh", SEED, "openssl", paper=True),
    "BA": Set("ba.py", SEED, paper=True),
    "BENCH": Set("bench.py", SEED, paper=True),
    "LOGS": Set("logs.py", SEED, paper=True),
    "WEB-ARCHIVE": Set("webarchive.py", SEED, paper=True),
    "SMALL": Set("small.py", SEED),
    "SQLITE": Set("sqlite.py", SEED),
    **{
        f"AD-{name}": Set("adversarial.py", SEED, packages=NUMPY)
        for name in ("ENDS", "SCRAPS", "EXTENTS", "SHUFFLE", "KEYS")
    },
    "CODE": Set("trees.py", RELEASES, "go", paper=True),
    "CODETAR": Set("trees.py", RELEASES, "go, tar"),
    "VERSION-SMALL": Set("trees.py", RELEASES, "cargo", paper=True),
    "VERSION-LARGE": Set("trees.py", RELEASES, "go", paper=True),
    "VERSION-RANGE": Set("trees.py", RELEASES, "go", paper=True),
    "LNX": Set("trees.py", ARCHIVE, "apt, xz, tar", paper=True),
    "DEV": Set("dev.py", RELEASES, "pip", paper=True),
    "PDF": Set("pdf.py", ARCHIVE, "apt", ("pypdf==7.1.0",), paper=True),
    "RDS": Set("rds.py", CHANCE, "redis-server", ("redis==8.1.0",), paper=True),
    "RDS-BENCH": Set("redisbench.py", CHANCE, "redis-server, redis-benchmark", paper=True),
    "TPCC": Set("pg.py", CHANCE, "PostgreSQL", paper=True),
    "TPCC-DUMP": Set("pg.py", SEED, "PostgreSQL", paper=True),
    "PG": Set("pg.py", CHANCE, "PostgreSQL"),
    "SQLDUMP": Set("pg.py", CHANCE, "PostgreSQL"),
    "DEB": Set("debian.py", ARCHIVE, "apt, tar", paper=True),
    "VM": Set("debian.py", ARCHIVE, "apt, mke2fs, debugfs", paper=True),
    "WEB": Set("web.py", RELEASES, "mvn", paper=True),
    "JS": Set("js.py", RELEASES, "npm"),
}
GROUPS = {
    "all": list(SETS),
    "papers": [name for name, set_ in SETS.items() if set_.paper],
    "synthetic": [name for name, set_ in SETS.items() if set_.synthetic],
}


class BuildError(Exception):
    """Said in one line, after the set's name."""


def size_bytes(text):
    """A size's bytes; None for a builder's own."""
    if text in SIZES:
        return SIZES[text]
    digits, shift = (text[:-1], SUFFIXES[text[-1]]) if text[-1:] in SUFFIXES else (text, 0)
    if not (digits.isascii() and digits.isdigit() and int(digits)):
        raise argparse.ArgumentTypeError(f"{text}: {', '.join(SIZES)} or a number of bytes was expected")
    return int(digits) << shift


def hash_of(path):
    with open(path, "rb") as file:
        return (
            hashlib.file_digest(file, "sha256").hexdigest()
            if hasattr(hashlib, "file_digest")
            else hashlib.sha256(file.read()).hexdigest()
        )


def entries(folder):
    """[path, size, SHA-256] of all files below, by name; of a link it is that of its target's path."""
    found = []
    for parent, folders, names in os.walk(folder):
        for name in [*names, *(name for name in folders if os.path.islink(os.path.join(parent, name)))]:
            path = os.path.join(parent, name)
            relative = os.path.relpath(path, folder)
            if os.path.islink(path):
                target = os.fsencode(os.readlink(path))
                found.append([relative, len(target), hashlib.sha256(target).hexdigest()])
            else:
                found.append([relative, os.path.getsize(path), hash_of(path)])
    return sorted(found)


def hash_of_set(files):
    return hashlib.sha256(
        "".join(f"{digest} {size} {path}\n" for path, size, digest in files).encode(errors="surrogateescape")
    ).hexdigest()


def write_manifest(path, facts, files):
    lines = ",\n".join(json.dumps(entry) for entry in files)
    head = json.dumps(
        facts | {"files_count": len(files), "bytes": sum(size for _, size, _ in files), "sha256": hash_of_set(files)},
        indent=1,
    )
    path.write_text(f'{head[:-2]},\n "files": [\n{lines}\n]}}\n', encoding="utf-8")


def read_manifest(path):
    """A manifest, looked through: nothing in it is trusted to be what it should."""
    try:
        manifest = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise BuildError(f"{path}: there is no manifest") from None
    except (OSError, ValueError) as error:
        raise BuildError(f"{path}: no manifest: {error}") from None
    files = manifest.get("files") if isinstance(manifest, dict) else None

    def is_entry(entry):
        return isinstance(entry, list) and [type(part) for part in entry] == [str, int, str]

    if not isinstance(files, list) or not all(map(is_entry, files)):
        raise BuildError(f"{path}: no manifest: a list of [path, size, SHA-256] was expected")
    if hash_of_set(files) != manifest.get("sha256"):
        raise BuildError(f"{path}: its list of files is not the one that its own SHA-256 names")
    return manifest


def verify(name, out):
    """What differs between a set and its manifest, a line each."""
    expected = {path: (size, digest) for path, size, digest in read_manifest(out / f"{name}.manifest")["files"]}
    found = {path: (size, digest) for path, size, digest in entries(out / name)}
    wrong = [f"{path}: is missing" for path in sorted(expected.keys() - found.keys())] + [
        f"{path}: is not in the manifest" for path in sorted(found.keys() - expected.keys())
    ]
    for path in sorted(expected.keys() & found.keys()):
        if expected[path] != found[path]:
            wrong.append("{}: {} bytes {}, the manifest has {} bytes {}".format(path, *found[path], *expected[path]))
    return wrong


def has(package):
    name, version = package.split("==")
    try:
        return importlib.metadata.version(name) == version
    except importlib.metadata.PackageNotFoundError:
        return False


def python_with(packages, out):
    """A Python that has these packages: this one, or that of DIR/.venv."""
    if all(map(has, packages)):
        return sys.executable
    venv = out / ".venv"
    python = venv / "bin" / "python"
    for command in ([] if python.exists() else [[sys.executable, "-m", "venv", str(venv)]]) + [
        [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *packages]
    ]:
        ran = subprocess.run(command, capture_output=True, text=True)
        if ran.returncode:
            raise BuildError(
                f"{', '.join(packages)} cannot be installed: {' '.join(command)} ended with {ran.returncode}: "
                f"{(ran.stderr or ran.stdout).strip()[-500:]}"
            )
    return str(python)


def build(names, options):
    """Builds sets of one builder in one run of it."""
    out = options.out
    sets = [SETS[name] for name in names]
    builder = HERE / sets[0].builder
    for name in names:
        if (out / name).exists() and not (out / f"{name}.manifest").exists():
            raise BuildError(f"{out / name} has no manifest beside it, so it is not replaced: move or remove it")
    wanted = size_bytes(options.size)
    free = shutil.disk_usage(out).free
    if wanted and free < wanted * len(names):
        raise BuildError(f"{out} has {free} bytes free, {wanted * len(names)} are needed")
    hashes = {path: hash_of(HERE / path) for path in (builder.name, "common.py")}  # of what is about to run
    python = python_with(sorted({package for set_ in sets for package in set_.packages}), out)
    work = out / f".building-{names[0]}"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir()
    try:
        given = {"BYTES": wanted, "VERSIONS": options.versions, "SEED": options.seed}
        environment = {name: value for name, value in os.environ.items() if name not in given} | {
            name: str(value) for name, value in given.items() if value is not None
        }
        environment |= {
            "DATA": str(work),
            "SETS": ",".join(names),
            "FACTS": str(work / "facts"),
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        command = [python, str(builder)] if builder.suffix == ".py" else [str(builder)]
        with (
            open(work / "errors", "w+", errors="replace") as errors,
            subprocess.Popen(
                command, env=environment, stdout=subprocess.PIPE, stderr=errors, text=True, errors="replace"
            ) as process,
        ):
            for line in process.stdout:
                print(line, end="", flush=True)
            code = process.wait()
            errors.seek(0)
            said = errors.read()
        if code:  # the builder's own line, or what there is
            lines = said.strip().splitlines() or [f"{builder.name} ended with {code}"]
            own = [line for line in lines if line.startswith(f"{builder.name}: ")]
            raise BuildError((own or lines)[-1])
        facts = work / "facts"
        lines = facts.read_text(encoding="utf-8").splitlines() if facts.exists() else []
        told = {key: value for line in lines for key, value in json.loads(line).items()}
        for name in names:
            finish(name, work, options, hashes, told)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def finish(name, work, options, hashes, told):
    """Gives a set that was built its manifest and its place."""
    made = work / name
    out = options.out
    versions = sorted(path.name for path in made.iterdir()) if made.is_dir() else []
    files = entries(made) if versions else []
    if not files:
        raise BuildError(f"{SETS[name].builder} made no files of {name}")
    facts = {
        "set": name,
        "builder": hashes,
        "size": options.size,
        "versions": versions,
        "repeats": REPEATS[SETS[name].repeats],
        "made with": {"python": platform.python_version()}
        | {package.split("==")[0]: package.split("==")[1] for package in SETS[name].packages}
        | told,
    }
    write_manifest(work / "manifest", facts, files)
    (out / f"{name}.manifest").unlink(missing_ok=True)
    shutil.rmtree(out / name, ignore_errors=True)
    made.rename(out / name)
    (work / "manifest").rename(out / f"{name}.manifest")
    print(
        f"{name}: {len(versions)} versions, {len(files)} files, {sum(size for _, size, _ in files)} bytes, "
        f"sha256 {hash_of_set(files)}",
        flush=True,
    )


def listing(out):
    for name, set_ in SETS.items():
        groups = ", ".join(group for group in ("papers", "synthetic") if name in GROUPS[group])
        print(
            f"{name:14} {set_.builder:16} needs: "
            f"{', '.join(filter(None, [set_.needs, *set_.packages])) or 'nothing else'}; "
            f"{REPEATS[set_.repeats]}{groups and f'; in {groups}'}"
        )
        if out and (out / f"{name}.manifest").exists():
            try:
                manifest = read_manifest(out / f"{name}.manifest")
                print(
                    f"{'':14} there: {len(manifest['versions'])} versions, {manifest['files_count']} files, "
                    f"{manifest['bytes']} bytes, size {manifest['size']}"
                )
            except (BuildError, KeyError) as error:
                print(f"{'':14} there: {error}")


def main(words=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--size", default="small")
    parser.add_argument("--versions", type=int)
    parser.add_argument("--seed", type=int)
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--verify", action="store_true")
    options = parser.parse_args(words)
    options.out = options.out and options.out.resolve()
    try:
        size_bytes(options.size)
    except argparse.ArgumentTypeError as error:
        parser.error(str(error))
    if options.list:
        listing(options.out)
        return 0
    if not options.names or not options.out:
        parser.error("NAME... and --out DIR were expected, or --list")
    unknown = [name for name in options.names if name not in SETS and name not in GROUPS]
    if unknown:
        parser.error(f"{', '.join(unknown)}: no such set: {', '.join([*SETS, *GROUPS])}")
    if any(number is not None and number < least for number, least in ((options.versions, 1), (options.seed, 0))):
        parser.error("--versions of at least 1 and --seed of at least 0 were expected")
    names = list(dict.fromkeys(name for group in options.names for name in GROUPS.get(group, [group])))
    failed = []
    if options.verify:
        names = [
            name
            for name in names
            if name in options.names or (options.out / name).exists() or (options.out / f"{name}.manifest").exists()
        ]  # of a group those that are there
        if not names:
            parser.error(f"{options.out}: none of these sets is there")
        for name in names:
            try:
                wrong = verify(name, options.out)
            except BuildError as error:
                wrong = [str(error)]
            for line in wrong:
                print(f"{name}: {line}", file=sys.stderr)
            if wrong:
                failed.append(name)
            else:
                print(f"{name}: as its manifest says")
    else:
        options.out.mkdir(parents=True, exist_ok=True)
        together = {}
        for name in names:
            together.setdefault(SETS[name].builder, []).append(name)
        for some in together.values():
            try:
                build(some, options)
            except (BuildError, OSError) as error:
                print(f"{', '.join(some)}: {error}", file=sys.stderr)
                failed += some
    if failed:
        print(f"failed: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.dont_write_bytecode = True
    sys.exit(main())
