#!/usr/bin/env python3
"""The cost of an import beside a restore by the other program, in CPU seconds and wall seconds.

    cargo build --release -p cutpoint --bin cutpoint
    research/bench/imports.py --program target/release/cutpoint

Makes a folder of files, half of it text and half random bytes, in successive versions, saves them by restic and by
Borg in memory, and prints the rows of research/results/import.md. Commands take turns in each round.
"""

import argparse
import json
import os
import random
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

FILES = 1500
FILE_BYTES = 188_000
# The part of the files in which a line is inserted from one version to the next.
CHANGED = 6
PASSWORD = {"RESTIC_PASSWORD": "secret", "BORG_PASSPHRASE": "secret"}


def content(index: int, words: list[str], source: random.Random) -> bytes:
    """Returns the bytes of a file: text in files with an even number, random bytes in the others."""
    if index % 2:
        return source.randbytes(FILE_BYTES)
    lines = (" ".join(source.choices(words, k=12)) for _ in range(FILE_BYTES // 90))
    return "\n".join(lines).encode()


def make(folder: Path, source: random.Random) -> None:
    """Writes the first version."""
    letters = "abcdefghijklmnopqrstuvwxyz"
    words = ["".join(source.choices(letters, k=source.randint(2, 11))) for _ in range(5000)]
    for index in range(FILES):
        path = folder / f"{index % 40:02}" / f"{index:04}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content(index, words, source))


def size_of(folder: Path) -> int:
    """Returns the number of bytes of the files below a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def change(folder: Path, version: int, source: random.Random) -> int:
    """Inserts a line into a part of the files. Returns the number of bytes of these files."""
    changed = 0
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        if source.randrange(CHANGED) == 0:
            old = path.read_bytes()
            at = source.randrange(len(old))
            changed += path.write_bytes(old[:at] + f"\nversion {version}\n".encode() + old[at:])
    return changed


class Bench:
    """The folders of a run, and the rows so far."""

    def __init__(self, program: Path, work: Path) -> None:
        self.program = str(program.resolve())
        self.work = work
        self.rows: dict[str, list[tuple[float, float]]] = {}
        homes = {f"XDG_{kind}_HOME": str(work / kind.lower()) for kind in ("CACHE", "CONFIG", "STATE")}
        self.environment = {**os.environ, **PASSWORD, **homes, "HOME": str(work)}

    def run(self, *command: str, cwd: Path | None = None) -> tuple[float, float]:
        """Runs a command, and returns its CPU seconds, children included, and its wall seconds."""
        began = time.monotonic()
        process = subprocess.Popen(
            command, env=self.environment, cwd=cwd, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
        )
        error = process.stderr.read()
        _, status, usage = os.wait4(process.pid, 0)
        if os.waitstatus_to_exitcode(status) != 0:
            raise RuntimeError(f"{' '.join(command)}: {error.decode(errors='replace').strip()}")
        return usage.ru_utime + usage.ru_stime, time.monotonic() - began

    def add(self, name: str, figures: tuple[float, float]) -> None:
        self.rows.setdefault(name, []).append(figures)
        print(f"{name}: {figures[0]:.2f} CPU s, {figures[1]:.1f} s", flush=True)

    def fresh(self, name: str) -> Path:
        """Returns the path of a folder that does not exist."""
        path = self.work / name
        shutil.rmtree(path, ignore_errors=True)
        return path

    def imported(self, name: str, kind: str, repository: Path, *options: str) -> None:
        """Measures an import into a new repository."""
        target, kit = self.fresh("target"), self.work / "kit.txt"
        kit.unlink(missing_ok=True)
        make = [self.program, "init", "--for-machine", "--recovery-kit", str(kit), "--repo", str(target)]
        self.run(*make, *options)
        key = self.work / "config" / "cutpoint" / "machine.key"
        self.add(
            name, self.run(self.program, "import", kind, str(repository), "--repo", str(target), "--key-file", str(key))
        )
        print(f"  {size_of(target) / 1e6:.1f} MB in the repository", flush=True)

    def restored(self, name: str, repository: Path, snapshots: list[str]) -> None:
        """Measures a restore of each snapshot by restic."""
        total = (0.0, 0.0)
        for snapshot in snapshots:
            out = self.fresh("out")
            figures = self.run("restic", "-r", str(repository), "restore", snapshot, "--target", str(out))
            total = (total[0] + figures[0], total[1] + figures[1])
        self.add(name, total)

    def extracted(self, name: str, repository: Path) -> None:
        """Measures `borg extract`."""
        out = self.fresh("out")
        out.mkdir()
        self.add(name, self.run("borg", "extract", f"{repository}::first", cwd=out))


def snapshots_of(bench: Bench, repository: Path) -> list[str]:
    """Returns the ids of the snapshots of a repository of restic, oldest first."""
    command = ["restic", "-r", str(repository), "snapshots", "--json"]
    output = subprocess.run(command, env=bench.environment, check=True, capture_output=True)
    return [snapshot["id"] for snapshot in json.loads(output.stdout)]


def prepare(bench: Bench, versions: int) -> tuple[Path, Path, Path]:
    """Saves one version and all versions by restic, and one by Borg."""
    source = random.Random(1)
    folder = bench.fresh("source")
    make(folder, source)
    one, all_versions, borg = bench.fresh("one"), bench.fresh("all"), bench.fresh("borg")
    for repository in (one, all_versions):
        bench.run("restic", "-r", str(repository), "init")
        bench.run("restic", "-r", str(repository), "backup", str(folder))
    bench.run("borg", "init", "--encryption", "repokey", str(borg))
    bench.run("borg", "create", "--compression", "zstd", f"{borg}::first", str(folder))
    total = to_read = size_of(folder)
    print(f"{FILES} files, {total / 2**20:.0f} MiB")
    for version in range(1, versions):
        to_read += change(folder, version, source)
        total += size_of(folder)
        bench.run("restic", "-r", str(all_versions), "backup", str(folder))
    print(f"{versions} versions: {total / 2**30:.1f} GiB, {to_read / 2**30:.1f} GiB to read", flush=True)
    return one, all_versions, borg


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", type=Path, required=True)
    parser.add_argument("--work", type=Path, default=Path("/dev/shm"))
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--versions", type=int, default=20)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=args.work) as work:
        bench = Bench(args.program, Path(work))
        one, all_versions, borg = prepare(bench, args.versions)
        ids = snapshots_of(bench, all_versions)
        for _ in range(args.rounds):
            bench.restored("`restic restore`", one, ["latest"])
            bench.imported("`cutpoint import restic`", "restic", one)
            bench.imported("`cutpoint import restic`, level 1", "restic", one, "--mode", "fast")
            bench.extracted("`borg extract`", borg)
            bench.imported("`cutpoint import borg`", "borg", borg)
        bench.restored(f"`restic restore`, {args.versions} snapshots one after the other", all_versions, ids)
        bench.imported(f"`cutpoint import restic`, {args.versions} snapshots", "restic", all_versions)
        for name, figures in bench.rows.items():
            cpu = " | ".join(f"{seconds:.2f}" for seconds, _ in figures)
            print(f"| {name} | {cpu} | {min(wall for _, wall in figures):.1f} |")


if __name__ == "__main__":
    main()
