#!/usr/bin/env python3
"""BENCH: the set "Bench" of the AE paper, section 4.1: 20 versions of a file system on which files are created, deleted
and modified.

The paper names the operations and two sources for them, but neither shares nor sizes; ours are: from one version to the
next 2 % of the files are new, 1 % is deleted, and 8 % are modified, each at 1 to 3 places, at the beginning, at the end
or between: bytes are written over, put in, cut out, or added at the end. Sizes are log-normal (median 12 KiB); 45 % of
the files are text, 25 % tables of numbers, 30 % incompressible.
"""

import math
import random

from common import DAY_S, START_S, Words, noise, number, seed, version_folder, versions, write

count = versions(20)
start = seed(20260401)
source = random.Random(start)
words = Words(start)
budget = number("BYTES", 500 << 20) // count
LARGEST = min(4 << 20, max(16 << 10, budget // 16))


def piece(kind, size):
    if kind == "text":
        return words.text(source, size)
    if kind == "noise":
        return noise(f"BENCH {start} {source.getrandbits(64)}", size)
    row = source.randrange(10**6)
    rows = []
    for _ in range(size // 24 + 1):
        row += source.randrange(9)
        rows.append(f"{row:08d};{source.randrange(1000):03d};{source.randrange(10**9):010d}\n")
    return "".join(rows).encode()[:size]


def create():
    kind = source.choices(["text", "table", "noise"], weights=[45, 25, 30])[0]
    extension = {"text": "txt", "table": "csv", "noise": "bin"}[kind]
    folder = f"{source.choice('abcdefgh')}/{words.choose(source, 1)[0]}"
    path = f"{folder}/{words.choose(source, 1)[0]}-{source.getrandbits(32):08x}.{extension}"
    return path, kind, piece(kind, min(LARGEST, int(math.exp(source.gauss(math.log(12 << 10), 1.4)))))


def modify(kind, content):
    for _ in range(source.randrange(1, 4)):
        size = source.randrange(64, 2048)
        zone = source.choices(["begin", "middle", "end"], weights=[25, 50, 25])[0]
        first, last = {
            "begin": (0, len(content) // 10),
            "middle": (len(content) // 10, len(content) * 9 // 10),
            "end": (len(content) * 9 // 10, len(content)),
        }[zone]
        at = source.randint(first, max(first, last))
        how = source.choices(["over", "in", "out", "after"], weights=[40, 25, 15, 20])[0]
        if how == "over":
            content = content[:at] + piece(kind, min(size, len(content) - at)) + content[at + size :]
        elif how == "in":
            content = content[:at] + piece(kind, size) + content[at:]
        elif how == "out":
            content = content[:at] + content[at + size :]
        else:
            content = content + piece(kind, size)
    return content


files = {}
total = 0
while total < budget:
    path, kind, content = create()
    files[path] = (kind, content, START_S)
    total += len(content)
for version in range(1, count + 1):
    now_s = START_S + version * DAY_S
    if version > 1:
        paths = sorted(files)
        share = len(paths) / 100
        touched = source.sample(paths, max(2, round(9 * share)))
        deleted = max(1, round(share))
        for path in touched[:deleted]:
            del files[path]
        for path in touched[deleted:]:
            kind, content, _ = files[path]
            files[path] = (kind, modify(kind, content), now_s)
        for _ in range(max(1, round(2 * share))):
            path, kind, content = create()
            files[path] = (kind, content, now_s)
    folder = version_folder("BENCH", version)
    for path, (_, content, mtime_s) in files.items():
        write(folder / path, content, mtime_s)
