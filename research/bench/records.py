"""The rows of a run in a file: one JSON object a line, appended as they are measured.

A unit is a group of rows, a set and a round. Its rows count once the line `done` follows them, so that a run that was
interrupted goes on with the first unit that is not done.
"""

import json
import os
from pathlib import Path

# The number by which rounds of a further run are larger than those of the run before.
RUN_STEP = 1000


class RecordsError(Exception):
    pass


class Records:
    def __init__(self, path):
        self.path = Path(path)
        self.runs, self.rows, self.done, self.skipped = [], [], set(), []
        pending = {}
        lines = self.path.read_bytes().splitlines(keepends=True) if self.path.exists() else []
        # The length of the complete lines; the last one can be cut off.
        self.whole_len = sum(len(line) for line in lines if line.endswith(b"\n"))
        for number, line in enumerate(lines, 1):
            try:
                record = json.loads(line)
                kind = record.pop("kind")
            except (ValueError, KeyError, AttributeError):
                if not line.endswith(b"\n"):
                    break
                raise RecordsError(f"{self.path}:{number}: not a row of a benchmark") from None
            if kind == "run":
                self.runs.append(record)
                pending = {}
                continue
            unit = (record["group"], record["set"], record["round"])
            if kind == "done":
                self.rows += pending.pop(unit, [])
                self.done.add(unit)
            elif kind == "skipped":
                self.skipped.append(record)
            else:
                pending.setdefault(unit, []).append(record)

    def append(self, kind, **record):
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"kind": kind, **record}) + "\n")

    def start(self, run):
        """Notes the beginning of a run. Fails if the file has rows of another program."""
        for key in ("program", "size"):
            if self.runs and self.runs[0][key] != run[key]:
                raise RecordsError(f"{self.path} has rows of another {key}: give another --out, or remove it")
        if self.path.exists():
            os.truncate(self.path, self.whole_len)
        self.append("run", **run)
        self.runs.append(run)
        self.skipped = []

    def add(self, unit, rows):
        """Notes the rows of a unit, one by one as they are measured, and that it is done."""
        group, set_, round_ = unit
        place = {"group": group, "set": set_, "round": round_}
        taken = []
        for row in rows:
            row = row | place
            self.append("row", **row)
            taken.append(row)
        self.append("done", **place)
        self.rows += taken
        self.done.add(unit)

    def skip(self, unit, reason):
        record = {"group": unit[0], "set": unit[1], "round": unit[2], "reason": reason}
        self.append("skipped", **record)
        self.skipped.append(record)


def is_once(round_):
    """Returns whether a round, perhaps of a further run, is that of what is measured once."""
    return round_ % RUN_STEP == 0


def merged(paths):
    """Returns the records of several files as one, the rounds of later files behind those of the first."""
    all_ = [Records(path) for path in paths]
    first = all_[0]
    for number, other in enumerate(all_[1:], 1):
        first.runs += other.runs
        first.rows += [row | {"round": row["round"] + RUN_STEP * number} for row in other.rows]
        first.done |= {(group, set_, round_ + RUN_STEP * number) for group, set_, round_ in other.done}
        first.skipped += other.skipped
    if not first.runs:
        raise RecordsError(f"{paths[0]}: no rows of a benchmark")
    return first
