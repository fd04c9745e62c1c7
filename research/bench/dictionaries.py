#!/usr/bin/env python3
"""Trial of zstd dictionaries on the regions of real repositories: what would they save, net of what they cost?

    research/bench/dictionaries.py --cutpoint BINARY --work DIR NAME=FOLDER...

Saves FOLDER/v01, v02, ... one after another at one path (or FOLDER, if it has no versions) without encryption, reads
the data regions of all containers in the order in which they were stored, and compresses each again by zstd, level 3:
alone, and with a dictionary, if that is smaller, which is trained on the regions of the first --train MiB. These are
stored without a dictionary, as they would be. Percentages are of the bytes that the regions take alone: what the first
version and what all later ones would save, and what all would save once the dictionary itself is counted, which is
stored twice and compressed. `cheat` is a bound: a dictionary trained on all of the first version, so on the regions
that it then serves, and not counted. Prints a Markdown table. Needs the package zstandard.
"""

import argparse
import os
import shutil
import struct
import subprocess
from pathlib import Path

import zstandard

TAG_LEN, TRAILER_LEN, ZSTD = 16, 32, 1
LEVEL = 3
# A sample of the trainer. Bundles are split, because a dictionary is built from pieces that several samples share.
SAMPLE_LEN = 8 << 10
SAMPLES_PER_DICTIONARY_BYTE = 100


def regions(container):
    """Yields codec and raw bytes of the regions of an unencrypted container."""
    data = container.read_bytes()
    toc_len, _, toc_at = struct.unpack_from("<IIQ", data, len(data) - TRAILER_LEN)
    toc = data[toc_at : toc_at + toc_len - TAG_LEN]
    (count,), at = struct.unpack_from("<I", toc, 4), 12
    for _ in range(count):
        offset, length, raw_len, codec, reference_count = struct.unpack_from("<IIIBH", toc, at)
        at += 15 + 32 * reference_count
        stored = data[offset : offset + length - TAG_LEN]
        yield codec, zstandard.ZstdDecompressor().decompress(stored, raw_len) if codec == ZSTD else stored


def save(name, folder, options):
    """Backs up all versions and yields the lists of regions that each of them added."""
    work = options.work / f"dictionaries-{name}"
    shutil.rmtree(work, ignore_errors=True)
    source = work / "source"
    source.parent.mkdir(parents=True)
    environment = os.environ | {"CUTPOINT_REPO": str(work / "repository"), "XDG_CACHE_HOME": str(work / "cache")}
    environment |= {"XDG_STATE_HOME": str(work / "state"), "XDG_CONFIG_HOME": str(work / "config")}

    def run(*words):
        subprocess.run([options.cutpoint, *words], env=environment, check=True, stdout=subprocess.DEVNULL)

    run("init", "--quiet", "--encryption", "none", "--mode", options.mode)
    known = set()
    for version in sorted(folder.glob("v[0-9]*")) or [folder]:
        # A link would be saved as a link, and a copy of a large folder would take time for nothing.
        shutil.rmtree(source, ignore_errors=True)
        if version == folder:
            run("backup", "-q", version)
        else:
            shutil.copytree(version, source, symlinks=True)
            run("backup", "-q", source)
        containers = (path for path in (work / "repository" / "data").rglob("*") if path.is_file())
        new = sorted((path for path in containers if path.name not in known), key=lambda path: path.name)
        known |= {path.name for path in new}
        yield [region for path in new for region in regions(path)]
    shutil.rmtree(work)


def samples(found, length_max):
    raw = b"".join(data for codec, data in found if codec == ZSTD)[:length_max]
    return [raw[at : at + SAMPLE_LEN] for at in range(0, len(raw), SAMPLE_LEN)]


def train(found, size):
    return zstandard.train_dictionary(size, samples(found, size * SAMPLES_PER_DICTIONARY_BYTE), level=LEVEL)


def packed_len(data, dictionary=None):
    """Returns the length of a region, which takes the dictionary only if that makes it smaller."""
    kinds = (None, dictionary) if dictionary else (None,)
    packed = (zstandard.ZstdCompressor(level=LEVEL, dict_data=each).compress(data) for each in kinds)
    return min([len(data), *map(len, packed)])


def total(found, dictionary=None):
    return sum(packed_len(data, dictionary) if codec == ZSTD else len(data) for codec, data in found)


def trial(name, folder, options):
    versions = list(save(name, folder, options))
    first, later = versions[0], [region for version in versions[1:] for region in version]
    # The regions that the dictionary is trained on come before all that it serves.
    head_count, length = 0, 0
    while head_count < len(first) and length < options.train << 20:
        length += len(first[head_count][1])
        head_count += 1
    head, served = first[:head_count], first[head_count:]
    alone = total(head), total(served), total(later)
    cells = [f"{name} ({len(versions)})", f"{(alone[0] + alone[1]) / 1e6:.2f}", f"{alone[2] / 1e6:.2f}"]
    for size in options.sizes:
        dictionary = train(head, size << 10)
        cost = 2 * packed_len(dictionary.as_bytes())
        served_len, later_len = total(served, dictionary), total(later, dictionary)
        gains = [
            (alone[1] - served_len, alone[0] + alone[1]),
            (alone[2] - later_len, alone[2]),
            (alone[1] + alone[2] - served_len - later_len - cost, sum(alone)),
        ]
        cells.append(" / ".join(f"{100 * gain / base:.1f}" if base else "-" for gain, base in gains))
    cheat = train(first, options.sizes[-1] << 10)
    bound = sum(alone) - total(first, cheat) - total(later, cheat)
    cells.append(f"{100 * bound / sum(alone):.1f}")
    print("| " + " | ".join(cells) + " |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sets", nargs="+", metavar="NAME=FOLDER")
    parser.add_argument("--cutpoint", type=os.path.abspath, default="target/release/cutpoint", help="the program")
    parser.add_argument("--work", type=Path, default=Path("/dev/shm"), help="folder for repositories")
    parser.add_argument("--train", type=int, default=8, help="MiB of the first version to train on (default: 8)")
    parser.add_argument("--mode", default="default", help="mode of the repositories: `random` has regions of 128 KiB")
    parser.add_argument("--sizes", default="32,64,112", help="KiB of dictionaries (default: %(default)s)")
    options = parser.parse_args()
    options.sizes = [int(size) for size in options.sizes.split(",")]
    heads = " | ".join(f"{size} KiB: first / later / all net, %" for size in options.sizes)
    print(f"| set (versions) | first, MB | later, MB | {heads} | cheat, % |")
    print("| --- | ---: | ---: |" + " ---: |" * (len(options.sizes) + 1))
    for each in options.sets:
        name, folder = each.split("=", 1)
        trial(name, Path(folder).resolve(), options)


if __name__ == "__main__":
    main()
