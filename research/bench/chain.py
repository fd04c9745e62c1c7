"""A chain of patches: each version compressed by zstd against the one before, as `--patch-from` does it."""

import filecmp
import os
import subprocess
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from command import PeerError, run, stop_running
from files import size


def tar(folder, target):
    """Writes a folder as one file that follows from its contents, modes and times."""
    words = ["tar", "--sort=name", "--format=gnu", "--owner=0", "--group=0", "--numeric-owner"]
    subprocess.run([*words, "-C", folder, "-cf", target, "."], check=True)


class Chain:
    """The patches of one set. They do not depend on each other, so several are made at a time, in CPU time."""

    def __init__(self, work, level, zstd="zstd", timeout_s=3600, jobs=None):
        self.work, self.level, self.zstd, self.timeout_s = Path(work), level, zstd, timeout_s
        self.jobs, self.name = jobs or os.cpu_count(), f"zstd-{level}-chain"

    def rows(self, versions):
        """Yields a row for each of the folders `versions`, as `steps.Bench` does for a backup."""
        pairs = list(zip([None, *versions], versions, strict=False))
        total = 0
        with ThreadPoolExecutor(max_workers=self.jobs) as pool:
            patches = [pool.submit(self.patch, *pair) for pair in pairs]
            try:
                for number, patch in enumerate(patches):
                    length, cost = patch.result()
                    total += length
                    logical, count = size(versions[number])
                    yield {
                        "tool": self.name,
                        "step": "later" if number else "first",
                        "version": versions[number].name,
                        "logical": logical,
                        "files": count,
                        "repo_bytes": total,
                        "repo_files": number + 1,
                        "cpu": cost["user"] + cost["sys"],
                        **cost,
                    }
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                stop_running()
                raise

    def patch(self, previous, version):
        """Makes a patch and compares what it gives back. Returns its length and its cost."""
        with tempfile.TemporaryDirectory(prefix="chain-", dir=self.work) as name:
            folder = Path(name)
            patch, current, decoded = folder / "patch", folder / "current", folder / "decoded"
            tar(version, current)
            reference = []
            if previous:
                tar(previous, folder / "previous")
                reference = [f"--patch-from={folder / 'previous'}"]

            def zstd(*words):
                command = [self.zstd, "-q", "--long=31", *reference, *map(str, words)]
                return run(command, {}, folder, folder / "log", self.timeout_s)

            cost = zstd(f"-{self.level}", current, "-o", patch)
            zstd("-d", "--memory=2048MB", patch, "-o", decoded)
            if not filecmp.cmp(decoded, current, shallow=False):
                raise PeerError(f"{version.name}: the patch does not give back the version")
            return patch.stat().st_size, cost
