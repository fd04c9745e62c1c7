#!/usr/bin/env python3
# BA: Backup-Artificial of the BURST paper (section V-F): 17 versions of a file of 128 MiB of random ASCII characters; each new version
# replaces 1 KiB at an arbitrary offset inside of a quarter of the blocks of 4 KiB of the version before.
# VERSIONS=100 SIZE_MIB=16 makes many small ones.
import os, numpy as np
data = os.environ.get("DATA", "data"); R = np.random.default_rng(20260101)
size = int(os.environ.get("SIZE_MIB", "128")) << 20; versions = int(os.environ.get("VERSIONS", "17")); block, piece = 4096, 1024
def text(n): return R.integers(32, 127, n, dtype=np.uint8)   # 95 printable characters, 6.57 bits each
file = text(size)
for v in range(1, versions + 1):
    if v > 1:
        blocks = R.choice(size // block, size // block // 4, replace=False)
        for number, offset in zip(blocks, R.integers(0, block - piece + 1, len(blocks))): at = int(number) * block + int(offset); file[at:at + piece] = text(piece)
    d = f"{data}/BA/v{v:02d}"; os.makedirs(d, exist_ok=True); file.tofile(d + "/file.txt"); os.utime(d + "/file.txt", (1700000000 + v * 86400,) * 2)
