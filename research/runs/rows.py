"""Rows that scripts add to a folder of results of `cutpoint-lab run`."""

import argparse
import csv
import datetime
import io
import os
import platform
import statistics
import sys
import time
from collections.abc import Iterable
from pathlib import Path

# The columns of the file, as `research/lab/src/row.rs` has them.
COLUMNS = [
    *("cell", "measure", "data", "data_hash", "entropy", "input_bytes", "algorithm", "selection", "target", "spec"),
    *("level", "metric", "variant", "value", "unit", "lower_quartile", "upper_quartile", "count", "samples", "note"),
    *("commit", "machine", "time_s"),
]


class Results:
    """A file of rows, to which cells are appended as a whole.

    Rows are signed like those of the last run. With `commit`, that of the program that is measured, they are signed
    with it and with this machine, and the file is made if it is missing.
    """

    def __init__(self, folder: Path, commit: str = "") -> None:
        self.path = folder / "results.csv"
        self.signature = {"commit": commit, "machine": machine()} if commit else {}
        if commit and not self.path.exists():
            folder.mkdir(parents=True, exist_ok=True)
            self.path.write_text(",".join(COLUMNS) + "\n")
        with self.path.open(newline="") as file:
            self.rows = list(csv.DictReader(file))
        if not self.rows and not commit:
            raise SystemExit(f"{self.path}: has no rows yet; run cutpoint-lab run first")
        self.columns = list(self.rows[0]) if self.rows else COLUMNS

    def has(self, cell: str) -> bool:
        """Tells whether the cell is complete."""
        return any(row["cell"] == cell and row["metric"] == "elapsed" for row in self.rows)

    def spec_of(self, algorithm: str, target: int) -> str | None:
        """Returns the rule in full that a run used for an algorithm and a target on random data."""
        for row in self.rows:
            is_it = (row["algorithm"], row["target"], row["data"]) == (algorithm, str(target), "RAND")
            if is_it and row["selection"] == "paper" and row["spec"]:
                return row["spec"]
        return None

    def add(self, measure: str, cell: str, rows: Iterable[dict], elapsed: float = 0.0) -> None:
        """Appends the rows of a cell, signed like those of the last run."""
        signature = self.signature or {name: self.rows[-1][name] for name in ("commit", "machine")}
        elapsed_row = {"metric": "elapsed", "value": elapsed, "unit": "s"}
        text = io.StringIO()
        writer = csv.DictWriter(text, self.columns, lineterminator="\n")
        for row in [*rows, elapsed_row]:
            whole = dict.fromkeys(self.columns, "")
            whole |= {"cell": cell, "measure": measure, "entropy": 0.0, "input_bytes": 0, "target": 0, "count": 1}
            whole |= signature | {"time_s": int(time.time())}
            whole |= {"lower_quartile": row["value"], "upper_quartile": row["value"]} | row
            writer.writerow(whole)
            self.rows.append({name: str(value) for name, value in whole.items()})
        with self.path.open("a") as file:
            file.write(text.getvalue())


def page_head(title: str, commit: str, command: str, more: dict[str, str] | None = None) -> list[str]:
    """Returns the first lines of a page of results."""
    head = {"date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d"), "machine": machine()}
    head |= {"commit": commit, "command": f"`{command}`"} | (more or {})
    lines = (f"| {name} | {value} |" for name, value in head.items())
    return [f"# {title}\n", "|  |  |\n| --- | --- |", *lines, ""]


def machine() -> str:
    """Returns the processor, the number of processors, and the system, as the lab writes them."""
    pairs = (line.split(":", 1) for line in Path("/proc/cpuinfo").read_text().splitlines() if ":" in line)
    # Keys of the first processor count.
    found = {key.strip(): value.strip() for key, value in reversed(list(pairs))}
    processor = found.get("model name", platform.machine())
    if "cpu family" in found and "model" in found:
        processor += f" (family {found['cpu family']}, model {found['model']})"
    return f"{processor}, {os.cpu_count()} processors, {platform.system().lower()} {platform.machine()}"


def backup_parser(doc: str) -> argparse.ArgumentParser:
    """Returns the parser of a script that measures backups, with what all of these need."""
    parser = argparse.ArgumentParser(description=doc.splitlines()[0])
    parser.add_argument("--results", type=Path, required=True, help="folder of results of cutpoint-lab run")
    parser.add_argument("--data", type=Path, required=True, help="folder of data sets")
    parser.add_argument("--work", type=Path, help="folder for repositories; a tmpfs costs no disk")
    parser.add_argument("--program", type=Path, required=True, help="cutpoint")
    return parser


def versions_of(name: str, data: Path) -> list[Path]:
    """Returns the versions of a data set, in order, and says so if there are none."""
    versions = sorted(path for path in (data / name).glob("v*") if path.is_dir())
    if not versions:
        print(f"{name}: not below {data}", file=sys.stderr)
    return versions


def homes(folder: str) -> dict[str, str]:
    """Returns the variables by which a program keeps its files in a folder."""
    return dict.fromkeys(("HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME"), folder)


def spread(samples: list[float]) -> dict:
    """Returns the median and the quartiles of repeats, as the fields of a row."""
    lower, upper = samples[0], samples[0]
    if len(samples) > 1:
        lower, _, upper = statistics.quantiles(samples, n=4, method="inclusive")
    return {
        "value": statistics.median(samples),
        "lower_quartile": lower,
        "upper_quartile": upper,
        "count": len(samples),
        "samples": " ".join(f"{sample:.6g}" for sample in samples),
    }
