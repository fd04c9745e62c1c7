"""Free memory of a virtual machine that stays with it.

A host may take back the memory that a guest has freed, in blocks of 2 MiB, and give it again when it is touched. The
first touch of a page then takes longer than writing it: on one machine 8 GB took 40 s, and 3 GB that had just been
freed took 5 s. A program that writes to new pages, as a log does, pays for that, and one that overwrites pages does
not. Here one page of each block is in use, so that no block is free, while all others can be had without the host.
"""

import mmap

PAGE = mmap.PAGESIZE
BLOCK = 2 << 20


def hold(size: int) -> mmap.mmap:
    """Touches `size` bytes of memory and frees all but a page of each block. The rest is freed with the result."""
    held = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    held.madvise(mmap.MADV_NOHUGEPAGE)
    for at in range(0, size, PAGE):
        held[at] = 1
    for at in range(0, size, BLOCK):
        held.madvise(mmap.MADV_DONTNEED, at + PAGE, BLOCK - PAGE)
    return held
