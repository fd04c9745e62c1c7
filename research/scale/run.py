#!/usr/bin/env python3
"""Requests, bytes, CPU time, memory and wall time of commands in large repositories, judged by limits.

    ./run.py CASE...          one row for each measured command; README.md has the cases
    ./run.py --small          scaled-down forms of the cheap cases, without latency

Exits with 1 if a limit is broken, with 77 if all cases were skipped, and with 2 if a case could not be prepared.
"""

import argparse
import contextlib
import copy
import json
import os
import shutil
import signal
import sys
import tempfile
from pathlib import Path

from stage import ROOT, CommandError, S3Server, SkippedError, Stage

try:
    from cases import CASES, MB, SMALL, Case
except ImportError as missing:
    print(f"SKIPPED: {missing}", file=sys.stderr)
    sys.exit(77)

HEADER = "| case | verb | requests | received MB | sent MB | CPU s | peak RSS MB | wall s | limit | holds |"


def arguments():
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("case", nargs="*", help="of " + ", ".join(CASES))
    parser.add_argument("--cutpoint", type=Path, default=target / "release" / "cutpoint", help="the program")
    parser.add_argument("--proxy", type=Path, help="the program cutpoint-scale (default: it is built)")
    parser.add_argument("--test-build", type=Path, help="a build with MERGED_HINTS_MAX at 4 Ki, for the case cliff")
    parser.add_argument("--latency-ms", type=int, help="latency of a request (default: 30; with --small: 0)")
    parser.add_argument("--timeout-s", type=int, default=600, help="maximum duration of a measured command")
    parser.add_argument("--duration-s", type=int, default=3600, help="duration of the case hour")
    parser.add_argument("--small", action="store_true", help="scaled-down forms; without CASE, the cheap ones")
    parser.add_argument("--no-check", action="store_true", help="do not check synthetic repositories")
    parser.add_argument("--json", action="store_true", help="one JSON object per row")
    parser.add_argument("--work", type=Path, help="folder for repositories and clients (default: a temporary one)")
    parser.add_argument("--build-folder", type=Path, default=target / "tmp", help="folder of the S3 server's build")
    options = parser.parse_args()
    unknown = [each for each in options.case if each not in CASES]
    if unknown or not (options.case or options.small):
        parser.error(f"unknown case: {', '.join(unknown)}" if unknown else "a case is missing")
    if not options.cutpoint.exists():
        parser.error(f"{options.cutpoint} does not exist; build it, or name another with --cutpoint")
    options.cutpoint = options.cutpoint.resolve()
    options.test_build = options.test_build and options.test_build.resolve()
    options.build_folder = options.build_folder.resolve()
    if options.latency_ms is None:
        options.latency_ms = 0 if options.small else 30
    return options


def as_object(row, latency_ms):
    """Returns a row for `--json`."""
    cost = row.cost
    return {
        "case": row.case,
        "verb": row.verb,
        "latency_ms": latency_ms,
        "request_count": cost.request_count(),
        "requests": {f"{verb} {folder}".strip(): count for (verb, folder), count in sorted(cost.requests.items())},
        "bulk_deleted_count": cost.deleted_count,
        "received_bytes": cost.received_len,
        "sent_bytes": cost.sent_len,
        "cpu_s": round(cost.cpu_s, 3),
        "rss_bytes": cost.rss_bytes,
        "wall_s": round(cost.wall_s, 3),
        "quantities": row.quantities,
        "limits": row.limits,
        "broken": row.broken(),
        "failure": cost.failure,
    }


def as_line(row):
    """Returns a row of the table."""
    cost = row.cost
    most = sorted(cost.requests.items(), key=lambda each: -each[1])
    requests = ", ".join(f"{count:,} {verb} {folder}".strip() for (verb, folder), count in most[:6])
    limits = ", ".join(f"{name} {row.value(name):.4g} of {limit:.4g}" for name, limit in row.limits.items())
    holds = f"NO: {', '.join(row.broken())}" if row.broken() else "yes" if row.limits else "no limit"
    cells = [
        row.case,
        row.verb,
        f"{cost.request_count():,}" + (f" ({requests})" if requests else ""),
        f"{cost.received_len / MB:.2f}",
        f"{cost.sent_len / MB:.2f}",
        f"{cost.cpu_s:.2f}",
        f"{cost.rss_bytes / MB:.0f}",
        f"{cost.wall_s:.2f}",
        limits or "none",
        holds,
    ]
    return f"| {' | '.join(cells)} |"


class Servers:
    """The S3 server, started by the first case that needs it."""

    def __init__(self, options):
        self.options, self.server = options, None

    def get(self):
        self.server = self.server or S3Server(self.options.build_folder, self.options.proxy)
        return self.server

    def close(self):
        if self.server:
            self.server.close()


def run_case(name, options, servers, work):
    """Yields the rows of a case."""
    folder = work / name
    stages = []

    def stage(server=None):
        stages.append(Stage(copy.copy(options), folder, server))
        return stages[-1]

    case = Case(name, options, stage, lambda: stage(servers.get()))
    try:
        yield from CASES[name](case)
    finally:
        for each in stages:
            each.remove()


def main():
    options = arguments()
    # Folders are removed also when the script is stopped.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(130))
    names = options.case or SMALL
    work = options.work or Path(tempfile.mkdtemp(prefix="scale-"))
    work.mkdir(parents=True, exist_ok=True)
    servers = Servers(options)
    row_count = broken_count = failure_count = 0
    if not options.json:
        print(HEADER + "\n|---|---|---|---:|---:|---:|---:|---:|---|---|")
    with contextlib.ExitStack() as stack:
        stack.callback(servers.close)
        if not options.work:
            stack.callback(shutil.rmtree, work, ignore_errors=True)
        for name in names:
            try:
                for row in run_case(name, options, servers, work):
                    row_count += 1
                    broken_count += bool(row.broken())
                    text = json.dumps(as_object(row, options.latency_ms)) if options.json else as_line(row)
                    print(text, flush=True)
                    if row.cost.failure:
                        print(f"{name}, {row.verb}: {row.cost.failure}", file=sys.stderr)
            except SkippedError as reason:
                print(f"SKIPPED: {name}: {reason}", file=sys.stderr)
            except CommandError as error:
                failure_count += 1
                print(f"{name}: {error}", file=sys.stderr)
    if failure_count:
        return 2
    if broken_count:
        return 1
    return 0 if row_count else 77


if __name__ == "__main__":
    sys.exit(main())
