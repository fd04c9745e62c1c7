#!/usr/bin/env python3
# AD-*: 4 versions of one file of SIZE_MIB=64 each, made to cost whoever matches the most and to give the least. Nothing
# in it can be compressed, so that a backup that does not match has little to do. AD-ENDS     blocks of 44 KiB that
# begin and end as ever, with new bytes between: they collide in head and tail. AD-SCRAPS   of every 144 bytes 64 are as
# they were: a match everywhere, and no chunk is worth it. AD-EXTENTS  of every 64 bytes 12 are new: worth it, with as
# many extents as there can be. AD-SHUFFLE  blocks of 512 bytes of the version before in another order: each chunk is
# made of as many others as it can be. AD-KEYS     every 32 bytes begin with the same 8, and 12 of the others are new:
# each place looks like each other.
import os

from common import DATA, fail, number, seed, versions, wanted

try:
    import numpy as np
except ImportError:
    fail("the package numpy is missing: pip install numpy")
count = versions(4)
size = max(1 << 17, number("BYTES", count * (number("SIZE_MIB", 64) << 20)) // count // 512 * 512)
R = np.random.default_rng(seed(20261121))


def noise(n):
    return R.integers(0, 256, n, dtype=np.uint8)


def renew(file, period, begin, end):  # bytes begin..end of every period are new
    rows = file[: len(file) // period * period].reshape(-1, period).copy()
    rows[:, begin:end] = noise(rows.shape[0] * (end - begin)).reshape(-1, end - begin)
    return rows.reshape(-1)


def same(file, period, begin, end, with_):
    rows = file[: len(file) // period * period].reshape(-1, period)
    rows[:, begin:end] = with_
    return file


ends = noise(8192)
sets = {
    "ENDS": (
        lambda: same(same(noise(size), 45056, 0, 4096, ends[:4096]), 45056, 40960, 45056, ends[4096:]),
        lambda f: renew(f, 45056, 4096, 40960),
    ),
    "SCRAPS": (lambda: noise(size), lambda f: renew(f, 144, 64, 144)),
    "EXTENTS": (lambda: noise(size), lambda f: renew(f, 64, 52, 64)),
    "SHUFFLE": (lambda: noise(size), lambda f: R.permutation(f.reshape(-1, 512)).reshape(-1)),
    "KEYS": (lambda: same(noise(size), 32, 0, 8, ends[:8]), lambda f: renew(f, 32, 20, 32)),
}
for name, (first, next_) in sets.items():
    file = first()
    for v in range(1, count + 1):
        if v > 1:
            file = next_(file)
        if f"AD-{name}" not in wanted(f"AD-{name}"):
            continue  # made all the same: each set begins where the chance of the one before ends
        d = f"{DATA}/AD-{name}/v{v:02d}"
        os.makedirs(d, exist_ok=True)
        file.tofile(d + "/file")
        os.utime(d + "/file", (1700000000 + v * 86400,) * 2)
