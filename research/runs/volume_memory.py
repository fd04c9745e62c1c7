#!/usr/bin/env python3
"""The cost of bounded memory of a volume, in ratio and CPU time: the tables of research/results/volume-memory.md.

The concatenated files of a data set, each from a block on, are copied by nbdcopy to a volume that is served with the
least `--memory` that the program takes, and to one that is served with more than all of its tables need. One request
follows another, so that both servers get the same blocks in the same order. Then the volume is read by a new server
with the same setting, and compared. The contenders take turns. In `exact`, the stored bytes are also compared with
those of a set of all blocks, which this script makes itself.

Needs nbdcopy (Debian: libnbd-bin).

    cargo build --release -p cutpoint --bin cutpoint
    research/runs/volume_memory.py --data DATA --work /dev/shm --program target/release/cutpoint > page.md
"""

import argparse
import contextlib
import hashlib
import shutil
import statistics
import sys
import tempfile
from pathlib import Path

from disk import DiskError, Volume, call, commit_of, end_on_signals, remove_leftovers
from rows import page_head
from volume import Clock, Source, image_of, source_of

SETS = ["VM", "PG", "BA"]
BLOCKS = [4096, 65536]
MODES = {"exact": "exact", "burst 255": "burst:tau=1/8,c_max=255", "delta": "delta"}
BOUNDED, UNBOUNDED = "0", "8G"
# One request at a time, in order.
COPY = ["nbdcopy", "--synchronous", "--connections=1", "--requests=1", "--threads=1"]
GOAL = 3.0


def distinct_bytes(image: Path, block: int) -> int:
    """Returns the bytes of the distinct blocks of a file that are not zero."""
    zero, found = bytes(block), set()
    with image.open("rb") as file:
        while data := file.read(block):
            if data != zero:
                found.add(hashlib.blake2b(data, digest_size=16).digest())
    return len(found) * block


def measure(program: Path, work: Path, image: Path, block: int, mode: str, memory: str) -> dict[str, float]:
    """Copies an image to a volume and back, and returns the figures."""
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=work)))
        volume = Volume(program, folder / "volume")
        volume.create(image.stat().st_size, block, mode)
        stack.callback(volume.kill)
        volume.serve(("--memory", memory))
        clock = Clock(volume)
        call([*COPY, "--flush", image, volume.uri])
        write_s, _ = clock.stop()
        write_memory = volume.server.memory()[1]
        volume.stop()
        stats = volume.stats()
        volume.serve(("--memory", memory))
        clock = Clock(volume)
        call([*COPY, volume.uri, folder / "copy"])
        read_s, _ = clock.stop()
        memory_bytes = max(write_memory, volume.server.memory()[1])
        volume.stop()
        call(["cmp", image, folder / "copy"])
    tables = sum(value for name, value in stats.items() if name.endswith("_table_bytes"))
    figures = {"ratio": stats["ratio"], "full": stats["full_bytes"], "tables": tables}
    return figures | {"memory": memory_bytes, "write_s": write_s, "read_s": read_s}


def cells_of(args, source: Source, block: int):
    """Yields the row of each mode: its name, and the figures of both memories, medians of the rounds."""
    image = image_of(source, block, args.work)
    distinct = distinct_bytes(image, block)
    for name, mode in MODES.items():
        samples = {BOUNDED: [], UNBOUNDED: []}
        for number in range(args.rounds):
            for memory in list(samples)[:: -1 if number % 2 else 1]:
                figures = measure(args.program, args.work, image, block, mode, memory)
                if name == "exact" and figures["full"] != distinct:
                    raise DiskError(f"{source.name}, {block}: {figures['full']} bytes are stored, not {distinct}")
                samples[memory].append(figures)
                print(f"{source.name} {block} {name} {memory}: {figures}", file=sys.stderr, flush=True)
        yield (
            name,
            *({key: statistics.median(row[key] for row in rows) for key in rows[0]} for rows in samples.values()),
        )
    image.unlink()


def about_of(losses: list[float], factors: list[float]) -> str:
    """Returns the text above the table, of the losses in % and the factors of the CPU time of writes."""
    reached = "reached" if max(losses) <= GOAL else "missed"
    most, least = f"{max(losses):.3f} %", f"{min(losses):.3f} %"
    cost = f"{min(factors):.1f} to {max(factors):.1f}"
    return f"""Bounded is `volume serve --memory {BOUNDED}`, the least that the program takes; unbounded is
`--memory {UNBOUNDED}`, far more than the tables have. Files are concatenated, each from a block on, and holes between
them are not written. A ratio counts whole blocks, so that small files weigh more at 64 KiB. Write and read are CPU
seconds of the server a GB of files, medians of the rounds. Peak memory is the resident memory of the server at most.
What was read was compared with what was written.

The goal, at most {GOAL:.0f} % of ratio lost, is {reached}: the greatest loss is {most}, the least {least}.
The tables are on disk as a whole, and the setting bounds what of them is in memory, so that a lookup finds the same
with little memory. In `exact`, the stored bytes are those of a set of all blocks, in every run. The cost is CPU time:
writes take {cost} times as much. The tables of these sets are small; those of a terabyte were not served.
"""


def page_of(args) -> str:
    """Measures everything, and returns the page."""
    rows, losses, factors = [], [], []
    for set_name in args.sets:
        source = source_of(set_name, args.data, args.work)
        if source is None:
            raise DiskError(f"{set_name}: no such data set")
        for block in args.blocks:
            for mode, bounded, unbounded in cells_of(args, source, block):
                loss = 100 * (1 - bounded["ratio"] / unbounded["ratio"])
                losses.append(loss)
                factors.append(bounded["write_s"] / unbounded["write_s"])
                cells = [source.name, f"{block >> 10} KiB", mode, f"{source.size / 1e6:,.0f}"]
                cells += [f"{bounded['ratio']:.4f}", f"{unbounded['ratio']:.4f}", f"{loss:+.3f}"]
                cells += [f"{unbounded['tables'] / 1e6:.1f}"]
                cells += [f"{figures['memory'] / 1e6:.1f}" for figures in (bounded, unbounded)]
                for step in ("write_s", "read_s"):
                    cells += [f"{figures[step] / source.size * 1e9:.2f}" for figures in (bounded, unbounded)]
                rows.append(f"| {' | '.join(cells)} |")
        shutil.rmtree(args.work / "source", ignore_errors=True)
    command = f"research/runs/volume_memory.py --data DATA --work /dev/shm --program cutpoint --rounds {args.rounds}"
    client = f"{call(['nbdcopy', '--version']).split(chr(10))[0]}, one request at a time"
    more = {"rounds": f"{args.rounds}", "client": client}
    columns = ["set", "blocks", "mode", "MB", "ratio bounded", "ratio unbounded", "loss, %", "MB of tables"]
    columns += ["peak MB bounded", "peak MB unbounded", "write bounded", "write unbounded"]
    columns += ["read bounded", "read unbounded"]
    return "\n".join(
        [
            *page_head("Cost of bounded memory of a volume", commit_of(args.program), command, more),
            about_of(losses, factors),
            f"| {' | '.join(columns)} |",
            "| --- | --- | --- |" + " ---: |" * (len(columns) - 3),
            *rows,
            "",
        ]
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="folder of data sets")
    parser.add_argument("--work", type=Path, help="folder for volumes; a tmpfs costs no disk")
    parser.add_argument("--program", type=Path, required=True, help="cutpoint")
    parser.add_argument("--sets", type=lambda text: text.split(","), default=SETS)
    parser.add_argument("--blocks", type=lambda text: [int(part) for part in text.split(",")], default=BLOCKS)
    parser.add_argument("--rounds", type=int, default=2)
    args = parser.parse_args()
    end_on_signals()
    args.program = args.program.resolve()
    args.work = Path(tempfile.mkdtemp(prefix="memory-", dir=args.work))
    try:
        print(page_of(args), end="")
    finally:
        remove_leftovers(args.work)
        shutil.rmtree(args.work, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
