#!/usr/bin/env python3
"""Compares the cut-points of an implementation with the vectors.

    check.py [--only PREFIX] FILE.json... -- PROGRAM [ARGUMENT...]
    check.py [--only PREFIX] FILE.json... --call MODULE:FUNCTION

PROGRAM is run once for each case, with the canonical spec as its last argument and the input as its standard input. It
prints the exclusive end of each chunk, one on a line, and ends with 0; or it ends with 3 if it does not implement the
spec. FUNCTION gets the spec and the input, and returns the ends, or None. Prints each case that differs, with the first
chunk that does, and ends with 1 if there is any. README.md beside this script has the format. Python's standard library
only.
"""

import argparse
import importlib
import json
import subprocess
import sys

NOT_IMPLEMENTED = 3
MASK = (1 << 64) - 1


def split_mix_64(seed, size):
    """Returns `size` bytes of SplitMix64, 8 little-endian bytes a number."""
    out = bytearray()
    while len(out) < size:
        seed = (seed + 0x9E3779B97F4A7C15) & MASK
        z = seed
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
        out += (z ^ (z >> 31)).to_bytes(8, "little")
    return bytes(out[:size])


def made(recipe):
    """Returns the bytes of an input."""
    size = recipe["size"]
    match recipe["kind"]:
        case "random":
            return split_mix_64(recipe["seed"], size)
        case "constant":
            return bytes([recipe["byte"]]) * size
        case "rising":
            return (bytes(range(256)) * (size // 256 + 1))[:size]
        case "falling":
            return (bytes(range(255, -1, -1)) * (size // 256 + 1))[:size]
        case kind:
            sys.exit(f"unknown kind of input: {kind}")


def by_program(command):
    def ends(spec, data):
        done = subprocess.run([*command, spec], input=data, capture_output=True, check=False)
        if done.returncode == NOT_IMPLEMENTED:
            return None
        if done.returncode != 0:
            sys.exit(
                f"{command[0]} {spec}: ends with {done.returncode}: {done.stderr.decode(errors='replace').strip()}"
            )
        return [int(line) for line in done.stdout.split()]

    return ends


def by_function(name):
    module, _, function = name.partition(":")
    sys.path.insert(0, ".")
    return getattr(importlib.import_module(module), function)


def difference(found, expected):
    """Returns a text about the first chunk that differs."""
    pairs = zip([*found, None], [*expected, None], strict=False)
    at, (ours, theirs) = next((at, pair) for at, pair in enumerate(pairs) if pair[0] != pair[1])
    return f"chunk {at} ends at {ours}, expected {theirs} ({len(found)} of {len(expected)} chunks)"


def main():
    words = sys.argv[1:]
    at = words.index("--") if "--" in words else len(words)
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", metavar="FILE.json")
    parser.add_argument("--only", default="", metavar="PREFIX", help="only canonical specs that begin with this")
    parser.add_argument("--call", metavar="MODULE:FUNCTION")
    options = parser.parse_args(words[:at])
    command = words[at + 1 :]
    if bool(command) == bool(options.call):
        parser.error("give a PROGRAM or --call")
    ends_of = by_function(options.call) if options.call else by_program(command)
    equal, different, left_out = 0, 0, 0
    for path in options.files:
        with open(path, encoding="utf-8") as file:
            cases = json.load(file)["cases"]
        for case in cases:
            spec = case.get("canonical", case["spec"])
            # Keys are a matter of this project alone.
            if "key_seed" in case or not spec.startswith(options.only):
                continue
            found = ends_of(spec, made(case["input"]))
            if found is None:
                left_out += 1
            elif list(found) == case["ends"]:
                equal += 1
            else:
                different += 1
                print(f"{spec} on {json.dumps(case['input'])}: {difference(list(found), case['ends'])}")
    print(f"{equal} cases are equal, {different} differ, {left_out} are not implemented")
    sys.exit(1 if different or not equal else 0)


if __name__ == "__main__":
    main()
