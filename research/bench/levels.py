#!/usr/bin/env python3
"""Bound of compression levels that are chosen for each region: how much time would a perfect choice save?

    research/bench/levels.py FOLDER...

Cuts the files of each folder, in the order of their paths, into regions of 2 MiB, and compresses each with several
levels of zstd (CPU time, the best of three). The perfect choice knows all results: it lowers the level of the regions
that save the most time for each byte that they lose, until the whole is --percent larger than at --level. A choice by
samples can only be worse, and has to pay for its samples. Prints a Markdown table. Needs the package zstandard.
"""

import argparse
import time
from pathlib import Path

import zstandard

REGION_LEN = 2 << 20
LEVELS = (-1, 1, 2, 3, 4, 6, 9)
TRIES = 3


def regions(folder):
    bytes_ = b""
    for path in sorted(folder.rglob("*")):
        if path.is_symlink() or not path.is_file():
            continue
        bytes_ += path.read_bytes()
        while len(bytes_) >= REGION_LEN:
            yield bytes_[:REGION_LEN]
            bytes_ = bytes_[REGION_LEN:]
    if bytes_:
        yield bytes_


def compressed(region, level):
    """Returns the compressed length of a region, and the CPU time in seconds."""
    compressor, best = zstandard.ZstdCompressor(level=level), float("inf")
    for _ in range(TRIES):
        start = time.process_time()
        length = len(compressor.compress(region))
        best = min(best, time.process_time() - start)
    return length, best


def perfect_choice(results, level, percent):
    """Returns the number of regions with a lower level, and the time as a share of that at `level`."""
    spare = sum(region[level][0] for region in results) * percent / 100
    moves = []
    for number, region in enumerate(results):
        length, seconds = region[level]
        for lower in (it for it in LEVELS if it < level):
            lost, saved = region[lower][0] - length, seconds - region[lower][1]
            if saved > 0:
                moves.append((saved / max(lost, 1), number, lost, saved))
    lowered, saved_total = set(), 0
    for _, number, lost, saved in sorted(moves, reverse=True):
        if number not in lowered and lost <= spare:
            lowered.add(number)
            spare -= lost
            saved_total += saved
    total = sum(region[level][1] for region in results)
    return len(lowered), (total - saved_total) / total


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", type=Path, nargs="+", metavar="FOLDER")
    parser.add_argument("--level", type=int, default=3, choices=LEVELS, help="the level of all regions (default 3)")
    parser.add_argument("--percent", type=float, default=1, help="how much larger the whole may become (default 1)")
    options = parser.parse_args()
    heads = " | ".join(f"level {level}: MB, s" for level in LEVELS)
    print(f"| folder | {heads} | regions lowered | times as fast |")
    print("| --- |" + " ---: |" * (len(LEVELS) + 2))
    for folder in options.folders:
        results = [{level: compressed(region, level) for level in LEVELS} for region in regions(folder)]
        if not results:
            parser.error(f"{folder} has no files")
        sums = [[sum(region[level][part] for region in results) for part in (0, 1)] for level in LEVELS]
        cells = " | ".join(f"{length / 1e6:.2f}, {seconds:.2f}" for length, seconds in sums)
        lowered, share = perfect_choice(results, options.level, options.percent)
        print(f"| {folder} | {cells} | {lowered} of {len(results)} | {1 / share:.2f} |", flush=True)


if __name__ == "__main__":
    main()
