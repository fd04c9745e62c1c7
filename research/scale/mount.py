#!/usr/bin/env python3
"""Measures `grep -r` over a mounted snapshot against a restore of the snapshot.

    research/scale/mount.py PROGRAM FOLDER SOURCE... [--runs 5]

PROGRAM is a release build of cutpoint, FOLDER an empty folder for the repository and the restored
files, best in memory. Needs /dev/fuse. Prints the wall seconds of both in each run, the CPU seconds
of the mounting process and the peak of its memory, and the median of the ratios.
"""

import argparse
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from stage import measured  # noqa: E402

# A text that no file has.
ABSENT = "zzzqqq"


def elapsed(command, environment, folder):
    # 1 is the end of a grep that has found nothing.
    return measured(command, environment, folder, codes=(0, 1)).wall_s


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("sources", nargs="+")
    parser.add_argument("--runs", type=int, default=5)
    args = parser.parse_args()
    folder, sources = args.folder.resolve(), [os.path.abspath(source) for source in args.sources]
    names = {"XDG_CACHE_HOME": "cache", "XDG_STATE_HOME": "state", "XDG_CONFIG_HOME": "config"}
    environment = dict(os.environ, CUTPOINT_PASSPHRASE="secret")
    environment |= {name: str(folder / place) for name, place in names.items()}
    program = [os.path.realpath(args.program), "--repo", str(folder / "repository")]
    elapsed([*program, "init", "--recovery-kit", str(folder / "kit")], environment, folder)
    elapsed([*program, "backup", "-q", *sources], environment, folder)

    mounted, restored = folder / "mounted", folder / "restored"
    mounted.mkdir()
    ratios = []
    for _ in range(args.runs):
        restore = elapsed([*program, "restore", "-q", "latest", "--to", str(restored)], environment, folder)
        shutil.rmtree(restored)
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        mount = subprocess.Popen([*program, "mount", str(mounted)], env=environment, **quiet)
        while not (mounted / "latest").exists():
            if mount.poll() is not None:
                sys.exit("mount has ended")
            time.sleep(0.05)
        grep = elapsed(["grep", "-r", ABSENT, f"{mounted}/latest/"], environment, folder)
        subprocess.run(["umount", str(mounted)], check=True)
        _, _, usage = os.wait4(mount.pid, 0)
        mount.returncode = 0
        cpu, peak = usage.ru_utime + usage.ru_stime, usage.ru_maxrss // 1024
        print(f"restore {restore:.2f} s, grep {grep:.2f} s, {cpu:.1f} CPU s, {peak} MiB", flush=True)
        ratios.append(restore / grep)
    print(f"rate of grep against the restore: {statistics.median(ratios):.2f} (median)")


if __name__ == "__main__":
    main()
