#!/usr/bin/env python3
"""The price of several repositories: stored bytes of one repository against a split into 2 and 4.

    research/scale/split.py --data DATA CODETAR SMALL RDS

DATA has sets of research/datasets/build.py. Each version of a set stands for the data of one client; the clients are
dealt to the repositories in turn, so that neighbouring versions are apart. All repositories of a set are made by
`init --like` of the first one.
"""

import argparse
import os
import subprocess
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
COUNTS = (1, 2, 4)


def stored_len(folder):
    """Returns the bytes of all objects of a repository, without the reserve."""
    files = (path for path in Path(folder).rglob("*") if path.is_file() and path.parent.name != "tmp")
    return sum(path.stat().st_size for path in files)


class Machine:
    """Runs the program in a folder of its own."""

    def __init__(self, program, folder):
        self.program, self.folder = program, Path(folder)
        names = {"HOME": "home", "XDG_CACHE_HOME": "cache", "XDG_STATE_HOME": "state", "XDG_CONFIG_HOME": "config"}
        self.environment = os.environ | {name: str(self.folder / value) for name, value in names.items()}

    def run(self, *words):
        command = [str(self.program), *map(str, words)]
        done = subprocess.run(command, env=self.environment, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise SystemExit(f"{' '.join(command)} ended with {done.returncode}: {done.stderr[-500:]}")
        return done.stdout


def split(program, versions, count):
    """Returns the stored bytes of `count` repositories that share the clients `versions`."""
    with tempfile.TemporaryDirectory() as folder:
        machine = Machine(program, folder)
        key = ["--key-file", Path(folder) / "key"]
        repositories = [Path(folder) / f"repo{number}" for number in range(count)]
        for number, repository in enumerate(repositories):
            like = ["--like", repositories[0], "--like-key-file", key[1]] if number else []
            machine.run("init", "--repo", repository, *key, *like)
        for number, version in enumerate(versions):
            place = ["--repo", repositories[number % count], *key]
            machine.run("backup", version, "--host", f"client{number}", "--quiet", *place)
        return sum(stored_len(repository) for repository in repositories)


def main():
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("set", nargs="+")
    parser.add_argument("--data", type=Path, required=True, help="folder of the data sets")
    parser.add_argument("--cutpoint", type=Path, default=target / "release" / "cutpoint", help="the program")
    options = parser.parse_args()
    print("| set | clients | logical MB | " + " | ".join(f"in {count}, MB" for count in COUNTS) + " |")
    for name in options.set:
        versions = sorted(path for path in (options.data / name).iterdir() if path.is_dir())
        logical_len = sum(path.stat().st_size for each in versions for path in each.rglob("*") if path.is_file())
        stored = [split(options.cutpoint.resolve(), versions, count) for count in COUNTS]
        cells = [f"{each / 1e6:.1f} ({each / stored[0]:.2f})" for each in stored]
        print(f"| {name} | {len(versions)} | {logical_len / 1e6:.1f} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
