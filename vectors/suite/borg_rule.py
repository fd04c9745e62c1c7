#!/usr/bin/env python3
"""Compares the cut-points of Borg 1 with its rule, stated byte by byte. Needs the Python of Borg (Debian: borgbackup).

The rule, which differs from `buzhash` of this project in each point:

- The window of `window` bytes lies *behind* the cut-point. A chunk ends at the first place from `min` bytes on at which
  the low `bits` bits of the hash of the next `window` bytes are zero.
- The hash has 32 bits: the XOR of a table's entries for the bytes of the window, the last one as it is, each one before
  turned left by one bit more. The entries are Borg's, each XORed with the seed of the repository.
- Where fewer than `window` + 1 bytes follow, within the file or within `max` bytes from the start of the chunk, the
  chunk ends with the file or has `max` bytes.
- Where fewer than `min` + `window` + 1 bytes of a file are left at the start of a chunk, they are one chunk.
"""

import io
import sys

from borg.chunker import Chunker, buzhash
from check import made

WORD = (1 << 32) - 1


def turned(value, bits):
    bits %= 32
    return (value << bits | value >> (32 - bits)) & WORD


def of_borg(data, min_bits, max_bits, bits, window, seed):
    ends, at = [], 0
    for chunk in Chunker(seed, min_bits, max_bits, bits, window).chunkify(io.BytesIO(data)):
        at += chunk.meta["size"]
        ends.append(at)
    return ends


def by_rule(data, min_bits, max_bits, bits, window, seed):
    table = [buzhash(bytes([value]), seed) for value in range(256)]
    mask, size_min, size_max = (1 << bits) - 1, 1 << min_bits, 1 << max_bits
    ends, start = [], 0
    while start < len(data):
        if len(data) - start < size_min + window + 1:
            ends.append(len(data))
            break
        limit, end = min(len(data), start + size_max), start + size_min
        value = 0
        for at in range(end, end + window):
            value = turned(value, 1) ^ table[data[at]]
        while limit - end > window and value & mask:
            value = turned(value, 1) ^ turned(table[data[end]], window) ^ table[data[end + window]]
            end += 1
        start = end if limit - end > window else limit
        ends.append(start)
    return ends


def main():
    inputs = [{"kind": "random", "seed": seed, "size": size} for seed, size in ((1, 1 << 20), (2, 100_003), (3, 5100))]
    inputs += [{"kind": "constant", "byte": 0, "size": 1 << 18}, {"kind": "rising", "size": 1 << 18}]
    different = 0
    for recipe in inputs:
        data = made(recipe)
        for parameters in ((10, 16, 12, 4095, 0), (10, 13, 15, 48, 0x12345678), (6, 12, 9, 31, 7)):
            found, expected = of_borg(data, *parameters), by_rule(data, *parameters)
            different += found != expected
            print(f"{recipe} {parameters}: {len(found)} chunks, {'equal' if found == expected else 'DIFFERENT'}")
    sys.exit(1 if different else 0)


if __name__ == "__main__":
    main()
