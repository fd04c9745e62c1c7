#!/usr/bin/env python3
"""Many versions: how a repository grows, and what its newest and its first version cost to restore.

    ./versions.py --data DATA --work DIR --bin CUTPOINT --sets BA,RDS [--at 2,10,50,100] [-- OPTIONS OF init]

Backs up DATA/SET/v01, v02, ... from one folder (so each is a version of the one before), and prints a table: after each
version of --at the size of the repository, what the last versions added on average, CPU seconds of the last backup, and
of restoring the newest and the first version (the better of two), each compared with its source. Python's standard
library only.
"""

import argparse
import json
import shutil
import sys
from pathlib import Path

from command import PeerError, run
from files import compare, size


def versions_of(folder):
    return sorted((path for path in Path(folder).glob("v[0-9]*") if path.is_dir()), key=lambda path: int(path.name[1:]))


class Growth:
    """One repository that gets one version of a set after the other."""

    def __init__(self, program, work, timeout_s=1800):
        self.program, self.root, self.timeout_s = str(Path(program).resolve()), Path(work) / "versions", timeout_s
        shutil.rmtree(self.root, ignore_errors=True)
        self.root.mkdir(parents=True)
        self.source = self.root / "source"
        self.environment = {"HOME": str(self.root / "home"), "CUTPOINT_REPO": str(self.root / "repository")}

    def cpu_s(self, *words):
        cost = run([self.program, *words], self.environment, self.root, self.root / "log", self.timeout_s)
        return cost["user"] + cost["sys"]

    def oldest(self):
        environment, log = self.environment, self.root / "log"
        run([self.program, "snapshots", "--json"], environment, self.root, log, self.timeout_s)
        rows = map(json.loads, log.read_text().splitlines())
        return next(found["id"] for found in rows if "id" in found)

    def restore_cpu_s(self, snapshot, expected):
        """Returns the better of two, and compares what is restored."""
        seconds, out = [], self.root / "out"
        for _ in range(2):
            shutil.rmtree(out, ignore_errors=True)
            seconds.append(self.cpu_s("restore", snapshot, "--to", str(out)))
        # The files are below the path of the source, or that without its first folders.
        found = [path.parent for path in out.rglob("source") if path.is_dir()]
        compare(str(expected), str(found[0] / "source" if found else out))
        return min(seconds)

    def rows(self, versions, at, init=()):
        """Saves `versions` and yields a row after those whose numbers are in `at`."""
        self.cpu_s("init", "--encryption", "none", *init)
        logical = 0
        for number, version in enumerate(versions[: max(at)], 1):
            # A bind mount would need root; a copy has the same name each time, as a backup's sources have.
            shutil.rmtree(self.source, ignore_errors=True)
            shutil.copytree(version, self.source, symlinks=True)
            backup_s = self.cpu_s("backup", str(self.source))
            length, _ = size(version)
            logical += length
            if number not in at:
                continue
            yield {
                "versions": number,
                "logical": logical,
                "repo_bytes": size(self.root / "repository")[0],
                "backup_cpu": backup_s,
                "newest_bytes": length,
                "newest_cpu": self.restore_cpu_s("latest", version),
                "first_cpu": self.restore_cpu_s(self.oldest(), versions[0]),
            }

    def remove(self):
        shutil.rmtree(self.root)


def measure(name, options):
    growth, before = Growth(options.bin, options.work), (0, 0)
    versions = versions_of(Path(options.data) / name)
    at = [int(number) for number in options.at.split(",") if int(number) <= len(versions)]
    lines = []
    try:
        for row in growth.rows(versions, at, options.init):
            added = (row["repo_bytes"] - before[1]) / (row["versions"] - before[0])
            before = (row["versions"], row["repo_bytes"])
            figures = [row["logical"] / row["repo_bytes"], row["repo_bytes"] / 1e6, added / 1e6]
            figures += [row["backup_cpu"], row["newest_cpu"], row["first_cpu"]]
            lines.append(f"| {row['versions']} | " + " | ".join(f"{each:.2f}" for each in figures) + " |")
            print(f"{name} {lines[-1]}", file=sys.stderr)
    except PeerError as error:
        sys.exit(f"{name}: {error}")
    growth.remove()
    print(
        f"\n**{name}** {' '.join(options.init)}\n\n"
        "| versions | logical / stored | MB | MB a version since the row before | CPU s of the last backup "
        "| of restoring the newest | the first |\n|---:|---:|---:|---:|---:|---:|---:|"
    )
    print("\n".join(lines))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True)
    parser.add_argument("--work", required=True)
    parser.add_argument("--bin", required=True)
    parser.add_argument("--sets", required=True)
    parser.add_argument("--at", default="1,2,10,50,100")
    parser.add_argument("init", nargs="*")
    options = parser.parse_args()
    for name in options.sets.split(","):
        measure(name, options)


if __name__ == "__main__":
    main()
