#!/usr/bin/env python3
# SMALL: 200,000 small files (0..16 KiB, text, records and incompressible) in a nested tree, 3 versions.
# Each next version changes 2 % of the files (a line edited, lines added, some rewritten), adds 1 % and deletes 0.5 %.
# Everything follows from the seed; mtimes change only with a file's bytes or a folder's entries.
# FILES or BYTES make a smaller set.
import math
import os
import random
import shutil

from common import DATA, number, seed, versions

VERSIONS = versions(3)
SEED = seed(20260201)
N = number("FILES", max(100, number("BYTES", 200_000 * 3900 * VERSIONS) // (3900 * VERSIONS)))
T0 = 1700000000
TOP = 16 << 10
W = random.Random(SEED)
syl = [
    "ba",
    "co",
    "di",
    "fe",
    "gu",
    "ha",
    "ki",
    "lo",
    "mu",
    "ne",
    "or",
    "pa",
    "re",
    "si",
    "ta",
    "un",
    "ve",
    "wi",
    "ex",
    "yo",
]
vocab = sorted({"".join(W.choices(syl, k=W.randrange(1, 5))) for _ in range(6000)})
W.shuffle(vocab)
cum = []
s = 0.0
for i in range(len(vocab)):
    s += 1 / (i + 2)
    cum.append(s)  # words as frequent as in a language (Zipf)
KINDS = [
    ("py", 22, "code"),
    ("js", 14, "code"),
    ("json", 12, "json"),
    ("md", 12, "text"),
    ("xml", 8, "json"),
    ("log", 7, "log"),
    ("eml", 8, "text"),
    ("rec", 7, "rec"),
    ("png", 6, "rand"),
    ("gz", 4, "rand"),
]


def line(rng, kind):
    picked = rng.choices(vocab, cum_weights=cum, k=rng.randrange(3, 12))
    if kind == "code":
        return (
            "    " * rng.randrange(4)
            + f"{picked[0]}_{picked[1]} = {picked[2]}({', '.join(picked[3:])})  # {rng.randrange(1000)}\n"
        )
    if kind == "json":
        return (
            f'  "{picked[0]}": {{"{picked[1]}": {rng.randrange(10**6)}, "id": "{rng.getrandbits(64):016x}", '
            f'"{picked[2]}": "{" ".join(picked[3:])}"}},\n'
        )
    if kind == "log":
        day = f"2026-{rng.randrange(1, 13):02d}-{rng.randrange(1, 29):02d}"
        clock = f"{rng.randrange(24):02d}:{rng.randrange(60):02d}:00Z"
        return f"{day}T{clock} {picked[0]}[{rng.randrange(9999)}]: {' '.join(picked[1:])}\n"
    return " ".join(picked).capitalize() + ".\n"


def size(rng):  # log-normal, median 2.2 KiB; 2 % empty
    return 0 if rng.random() < 0.02 else min(TOP, int(math.exp(rng.gauss(7.7, 1.2))))


def piece(rng, kind, n):
    if kind == "rand":
        return rng.randbytes(n)
    if kind == "rec":
        return b"".join(
            (k * 1000 + rng.randrange(900)).to_bytes(4, "little") + rng.randrange(2000).to_bytes(8, "little") + bytes(4)
            for k in range(n // 16 + 1)
        )[:n]
    out = []
    k = 0
    while k < n:
        out.append(line(rng, kind))
        k += len(out[-1])
    return "".join(out).encode()[:n]


def fresh(i, rev=0):
    rng = random.Random(SEED * 1_000_003 + i * 64 + rev)
    if i % 50 == 49:
        return fresh(i - 7)  # 2 % are a copy of another file
    return piece(rng, kind_of[i], size(rng))


def edit(b, i, rev):  # what one version does to a file
    rng = random.Random(SEED * 2_000_003 + i * 64 + rev)
    kind = kind_of[i]
    if kind == "rand" or not b or rng.random() < 0.2:
        return piece(rng, kind, size(rng) or 64)
    if kind == "rec":
        p = rng.randrange(len(b))
        return b[:p] + rng.randbytes(4) + b[p + 4 :]
    if kind == "log":
        return (b + piece(rng, kind, rng.randrange(60, 600)))[-TOP:]  # appended to
    ls = b.splitlines(keepends=True)
    new = [piece(rng, kind, 4096).split(b"\n")[k] + b"\n" for k in range(rng.randrange(1, 4))]
    p = rng.randrange(len(ls))
    ls[p : p + rng.randrange(0, 3)] = new  # a few lines replaced by others
    return b"".join(ls)[:TOP]


kind_of = {}
path_of = {}


def name(i):
    rng = random.Random(SEED * 3_000_017 + i)
    ext, _, kind = rng.choices(KINDS, weights=[k[1] for k in KINDS])[0]
    kind_of[i] = kind
    picked = rng.choices(vocab, k=2)
    g = i % max(1, N // 18) if i < N else rng.randrange(max(1, N // 18))
    folder_rng = random.Random(g)  # about 18 files a folder, 2 to 5 deep
    d = [f"{vocab[g % 40]}", *(vocab[folder_rng.randrange(300)] for _ in range(folder_rng.randrange(1, 5)))]
    path_of[i] = "/".join(d) + f"/{picked[0]}-{picked[1]}-{i}.{ext}"


version_rng = random.Random(SEED + 1)
live = list(range(N))
top = N
rev = {}
changed_at = {}
for i in live:
    name(i)
    changed_at[i] = T0 - random.Random(i).randrange(300 * 86400)
dir_at = {}
for v in range(1, VERSIONS + 1):
    root = f"{DATA}/SMALL/v{v:02d}"
    prev = f"{DATA}/SMALL/v{v - 1:02d}"
    shutil.rmtree(root, ignore_errors=True)
    now = T0 + v * 86400
    edits, gone, new = set(), set(), []
    if v > 1:
        pick = version_rng.sample(live, len(live) * 25 // 1000)
        edits = set(pick[: len(live) * 2 // 100])
        gone = set(pick[len(edits) :])
        new = list(range(top, top + len(live) // 100))
        top += len(new)
        live = [i for i in live if i not in gone] + new
        for i in new:
            name(i)
            changed_at[i] = now
        for i in [*gone, *new]:
            d = os.path.dirname(path_of[i])
            dir_at[d] = now
    total = 0
    made = set()
    for i in live:
        p = f"{root}/{path_of[i]}"
        d = os.path.dirname(p)
        if d not in made:
            os.makedirs(d, exist_ok=True)
            made.add(d)
        if v == 1 or i >= top - len(new):
            b = fresh(i)
        else:
            with open(f"{prev}/{path_of[i]}", "rb") as f:
                b = f.read()
            if i in edits:
                rev[i] = rev.get(i, 0) + 1
                b = edit(b, i, rev[i])
                changed_at[i] = now
        with open(p, "wb") as f:
            f.write(b)
        os.utime(p, (changed_at[i],) * 2)
        total += len(b)
    for d, _, _ in os.walk(root, topdown=False):
        os.utime(d, (dir_at.get(os.path.relpath(d, root), T0),) * 2)
    print(
        f"v{v:02d}",
        len(live),
        "files",
        len(made),
        "folders with files",
        total >> 20,
        "MiB;",
        len(edits),
        "changed",
        len(new),
        "new",
        len(gone),
        "deleted",
        flush=True,
    )
