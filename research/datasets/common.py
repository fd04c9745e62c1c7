"""What the builders of data sets share.

A builder is a script that is told by its environment what to make: DATA (the folder that gets SET/v01, v02, ...), SETS
(which of its sets, joined by commas; all of them if not set), BYTES (about how many bytes all versions of one set are
to have together; the builder's own size if not set), VERSIONS and SEED. What it tells about itself (seed, versions of
what it used) goes to the file FACTS, if that is set. Python's standard library only.
"""

import bisect
import hashlib
import itertools
import json
import os
import random
import shutil
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

DATA = Path(os.environ.get("DATA", "data")).resolve()
START_S = 1_700_000_000
DAY_S = 86_400  # mtimes: version n is of n days after the start


def fail(message):
    sys.exit(f"{Path(sys.argv[0]).name}: {message}")


def fact(**facts):
    """Says what the manifest is to hold: seed=1, or the version of a program by its name."""
    if "FACTS" in os.environ:
        with open(os.environ["FACTS"], "a", encoding="utf-8") as file:
            file.write(json.dumps(facts) + "\n")


def wanted(*names):
    """Which of the builder's sets are to be made."""
    chosen = os.environ.get("SETS", "").split(",")
    return [name for name in names if name in chosen] if chosen != [""] else list(names)


def number(name, default):
    """A number of the environment, or what stands for it there."""
    text = os.environ.get(name, "")
    if not text:
        return default
    if not text.isascii() or not text.isdigit():
        fail(f"{name}={text}: a whole number was expected")
    return int(text)


def versions(default, at_most=None):
    count = number("VERSIONS", default)
    if count < 1:
        fail("VERSIONS=0: at least one was expected")
    if at_most is not None and count > at_most:
        fail(f"VERSIONS={count}: there are {at_most}")
    return count


def seed(default):
    value = number("SEED", default)
    fact(seed=value)
    return value


def need(program, package):
    """Where a program is; ends with its name and how it is installed if there is none."""
    found = shutil.which(program, path=os.environ.get("PATH", os.defpath) + ":/usr/sbin:/sbin")
    return found or fail(f"{program} is missing: apt-get install {package}")


def run(*command, **options):
    """What a command prints; ends with what it said if it failed."""
    try:
        ran = subprocess.run(
            list(map(str, command)), **{"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
        )
    except OSError as error:
        fail(f"{command[0]}: {error}")
    if ran.returncode != 0:
        fail(
            f"{' '.join(map(str, command))} ended with {ran.returncode}: "
            f"{(ran.stderr or ran.stdout or b'').decode(errors='replace').strip()[-2000:]}"
        )
    return ran.stdout.decode() if ran.stdout is not None else ""


def piped(*command):
    """A command whose output is read while it runs: (process, file). To be closed with `ended`."""
    process = subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE)
    return process, process.stdout


def ended(process):
    process.stdout.close()
    if process.wait() not in (0, -13):
        fail(f"{process.args[0]} ended with {process.returncode}")  # 13: it was not read to its end


def version_folder(name, version):
    folder = DATA / name / f"v{version:02d}"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


def write(path, content, mtime_s):
    """Writes a file and the folders that it needs."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    os.utime(path, (mtime_s, mtime_s))


def said(name, version):
    folder = DATA / name / f"v{version:02d}"
    files = [path for path in folder.rglob("*") if path.is_file() and not path.is_symlink()]
    print(f"{name} v{version:02d}: {len(files)} files, {sum(path.stat().st_size for path in files)} bytes", flush=True)


def scratch():
    """A folder (below TMPDIR) that is gone when its `with` ends."""
    return tempfile.TemporaryDirectory(prefix="datasets-", ignore_cleanup_errors=True)


def noise(label, size):
    """Bytes that cannot be compressed and follow from a label."""
    return hashlib.shake_128(label.encode()).digest(size)


class Words:
    """Text of words that are as frequent as in a language (Zipf's law), all from one seed."""

    SYLLABLES = [
        "ba",
        "co",
        "di",
        "fe",
        "gu",
        "ha",
        "ki",
        "lo",
        "mu",
        "ne",
        "or",
        "pa",
        "re",
        "si",
        "ta",
        "un",
        "ve",
        "wi",
        "ex",
        "yo",
    ]

    def __init__(self, seed, count=4000):
        source = random.Random(seed)
        made = {"".join(source.choices(self.SYLLABLES, k=source.randrange(1, 5))) for _ in range(count)}
        self.words = sorted(made)
        source.shuffle(self.words)
        self.weights = list(itertools.accumulate(1 / (rank + 2) for rank in range(len(self.words))))

    def choose(self, source, count):
        return source.choices(self.words, cum_weights=self.weights, k=count)

    def sentence(self, source):
        return " ".join(self.choose(source, source.randrange(4, 16))).capitalize() + "."

    def text(self, source, size):
        """`size` bytes in lines."""
        parts = []
        length = 0
        while length < size:
            parts.append(self.sentence(source) + "\n")
            length += len(parts[-1])
        return "".join(parts).encode()[:size]


def rank(path):
    return hashlib.sha256(str(path).encode()).digest()


def thin(sizes, budget):
    """Which files of a large tree to take, so that they have about `budget` bytes: a function of a file's path and
    size.

    Chosen by the path's hash alone, so that a file is in all versions or in none, whenever it is added. `sizes` are
    those of one version; files larger than an eighth of the budget when they are first seen are left out. With None all
    are taken."""
    if budget is None or sum(sizes.values()) <= budget:
        return lambda path, size: True
    large = {path for path, size in sizes.items() if size > budget // 8}
    paths = sorted((path for path in sizes if path not in large), key=rank)
    totals = list(itertools.accumulate(sizes[path] for path in paths))
    kept = max(1, bisect.bisect_right(totals, budget))
    if not paths:
        fail(f"no file is smaller than an eighth of {budget} bytes: a larger size is needed")
    last = rank(paths[min(kept, len(paths)) - 1])
    fits = {path: path not in large for path in sizes}  # a file that grows stays
    return lambda path, size: fits.setdefault(path, size <= budget // 8) and rank(path) <= last


def keep_mtimes(before, folder, mtime_s):
    """Gives all files and folders a version's mtime, but those that are as in the version before the mtime that they
    have there."""
    for parent, _, names in os.walk(folder, topdown=False):
        for name in names:
            path = Path(parent, name)
            old = before and before / path.relative_to(folder)
            time_ns = mtime_s * 10**9
            if old and old.is_file() and not old.is_symlink() and not path.is_symlink() and same(old, path):
                time_ns = old.stat().st_mtime_ns
            os.utime(path, ns=(time_ns, time_ns), follow_symlinks=False)
        os.utime(parent, (mtime_s, mtime_s))


def same(left, right):
    return left.stat().st_size == right.stat().st_size and left.read_bytes() == right.read_bytes()


def tar(folder, target):
    """One tar of a folder that follows from its contents and modes: sorted names, no owner, one mtime."""
    run(
        "tar",
        "--sort=name",
        "--format=gnu",
        f"--mtime=@{START_S}",
        "--owner=0",
        "--group=0",
        "--numeric-owner",
        "-C",
        folder,
        "-cf",
        target,
        ".",
    )


def remove(folder):
    """Removes a tree whose folders may not be writable."""
    for parent, _, _ in os.walk(folder):
        os.chmod(parent, stat.S_IRWXU)
    shutil.rmtree(folder, ignore_errors=True)
