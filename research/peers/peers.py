#!/usr/bin/env python3
"""Cutpoint beside its peers: backup, unchanged backup, backup of touched data, restore, check.

    ./peers.py --data DATA --work DIR [--tools cutpoint,borg,...] [--sets CODE,RDS,...] [--rounds 3] --out FILE.json
    ./peers.py --report FILE.json [FILE2.json ...]          print the tables of stored results again (rows are merged)

DATA holds SET/vNN/ as the scripts of research/datasets write them. DIR takes repositories, caches and restored files (a
tmpfs, or with
--cold a real disk). README.md beside this script says what every figure means. Python's standard library only.
"""

import argparse
import json
import os
import signal
import sys
from pathlib import Path

from machine import fs_type
from steps import Bench
from tables import tables
from tools import KINDS


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--data", default="data", help="folder of the data sets")
    p.add_argument("--work", default="/dev/shm", help="repositories, caches, restored files (default: %(default)s)")
    p.add_argument("--tools", default="cutpoint,restic-debian,restic-new,bupstash,borg", help="of " + ", ".join(KINDS))
    p.add_argument("--sets", default="CODE,CODETAR,RDS,RAND")
    p.add_argument("--cutpoint", default="target/release/cutpoint", help="binary of cutpoint")
    p.add_argument("--bin", help="folder with the peers' binaries under the tools' names (else PATH)")
    p.add_argument("--binary", action="append", default=[], metavar="TOOL=PATH", help="binary of one tool")
    p.add_argument("--rounds", type=int, default=1)
    p.add_argument("--versions", type=int, default=0, help="only the first N versions")
    p.add_argument(
        "--one-run", action="store_true", help="save all versions of a set in one run, as one folder (--source bind)"
    )
    p.add_argument(
        "--source",
        choices=["bind", "rename", "sync"],
        help="how a version gets to the one source path (default: bind if allowed, else rename)",
    )
    p.add_argument(
        "--cold", action="store_true", help="drop the page cache before each step (root; give --work on a real disk)"
    )
    p.add_argument("--timeout", type=int, default=1800, help="seconds for one step")
    p.add_argument(
        "--out", action="append", default=[], metavar="FILE.json|FILE.csv", help="raw rows; may be given more than once"
    )
    p.add_argument("--report", nargs="+", metavar="FILE.json", help="only print the tables of stored results")
    a = p.parse_args()
    if a.report:
        rs = [json.loads(Path(f).read_text()) for f in a.report]
        r = rs[0]
        for k, x in enumerate(rs[1:], 1):
            r["rows"] += [row | {"file": k} for row in x["rows"]]
            r["versions"] |= x["versions"]
            r["base"] |= x["base"]
        print(tables(r))
        return
    if a.cold and not os.access("/proc/sys/vm/drop_caches", os.W_OK):
        sys.exit("--cold needs root")
    signal.signal(signal.SIGTERM, lambda *_: (_ for _ in ()).throw(KeyboardInterrupt()))
    b = Bench(a)
    if a.cold and fs_type(b.work) == "tmpfs":
        print("--cold with --work on a tmpfs: the repository is not cold", file=sys.stderr)
    r = b.go()
    print("\n" + tables(r))
    if b.stopped:
        sys.exit(130)
    if any("error" in x for x in r["rows"]):
        sys.exit(2)


if __name__ == "__main__":
    main()
