#!/usr/bin/env python3
"""BA: Backup-Artificial of the BURST paper (section V-F).

17 versions of a file of 128 MiB of random ASCII characters. Each new version is made of the one before: it is split
into 32,768 blocks of 4 KiB, a quarter of the blocks is chosen by chance, and in each of these 1 KiB at an arbitrary
offset is replaced by random characters. SIZE_MIB or BYTES make smaller files in the same way. "ASCII characters" are
the 95 that can be printed here: 6.57 bits each.
"""

import random

from common import DAY_S, START_S, noise, number, seed, version_folder, versions, write

BLOCK = 4096
PIECE = 1024
PRINTABLE = bytes(32 + byte % 95 for byte in range(256))
BEYOND = bytes(range(190, 256))  # 190 = 2 * 95: all are equally likely


class Text:
    """An endless row of random characters."""

    def __init__(self, label):
        self.label = label
        self.made = b""
        self.at = 0
        self.turn = 0

    def take(self, size):
        while len(self.made) - self.at < size:
            self.made = self.made[self.at :] + noise(f"{self.label} {self.turn}", 1 << 20).translate(PRINTABLE, BEYOND)
            self.at = 0
            self.turn += 1
        self.at += size
        return self.made[self.at - size : self.at]


count = versions(17)
start = seed(20260101)
source = random.Random(start)
text = Text(f"BA {start}")
size = number("BYTES", count * (number("SIZE_MIB", 128) << 20)) // count // BLOCK * BLOCK or BLOCK
file = bytearray(b"".join(text.take(BLOCK) for _ in range(size // BLOCK)))
for version in range(1, count + 1):
    if version > 1:
        for block in source.sample(range(size // BLOCK), size // BLOCK // 4):
            at = block * BLOCK + source.randrange(BLOCK - PIECE + 1)
            file[at : at + PIECE] = text.take(PIECE)
    write(version_folder("BA", version) / "file.txt", file, START_S + version * DAY_S)
