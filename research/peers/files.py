"""Folders of files: their size, reading them ahead, and comparing two of them byte for byte."""

import filecmp
import os

from command import PeerError


def files(root):
    for d, _, fs in os.walk(root):
        for f in fs:
            yield os.path.join(d, f)


def size(root):
    n = b = 0
    for p in files(root):
        try:
            s = os.lstat(p)
        except FileNotFoundError:
            continue
        n += 1
        b += s.st_size
    return b, n


def warm(root):
    buf = bytearray(1 << 20)
    for p in files(root):
        if os.path.isfile(p) and not os.path.islink(p):
            with open(p, "rb", buffering=0) as f:
                while f.readinto(buf):
                    pass


def compare(src, out):
    """What is restored, against the source: contents byte for byte. The place below `out` is found, tools differ in
    it."""
    want = set(os.listdir(src))
    place = None
    for c in (out, os.path.join(out, os.path.basename(src)), os.path.join(out, src.lstrip("/"))):
        if os.path.isdir(c) and want <= set(os.listdir(c)):
            place = c
            break
    if place is None:
        raise PeerError("restored files not found")
    n = bad = meta = 0
    filecmp.clear_cache()
    for d, ds, fs in os.walk(src):
        o = os.path.join(place, os.path.relpath(d, src))
        got = set(os.listdir(o)) if os.path.isdir(o) else set()
        bad += len(got ^ set(ds + fs))
        for f in set(fs) & got:
            a, b = os.path.join(d, f), os.path.join(o, f)
            n += 1
            if os.path.islink(a):
                bad += not (os.path.islink(b) and os.readlink(a) == os.readlink(b))
                continue
            if not os.path.isfile(a):
                continue
            bad += not (os.path.isfile(b) and filecmp.cmp(a, b, shallow=False))
            s, t = os.lstat(a), os.lstat(b)
            meta += (s.st_mode, s.st_mtime_ns) != (t.st_mode, t.st_mtime_ns)
    if bad:
        raise PeerError(f"{bad} of {n} files differ from the source")
    return n, meta
