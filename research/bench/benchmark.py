"""The benchmark of Cutpoint beside other backup programs: one command, one page.

  research/bench/tool data --data DATA --size medium     builds the data sets that are missing
  research/bench/tool run --data DATA                    measures all groups of rows and writes the page
  research/bench/tool run --data DATA --rows sizes,cold --sets CODETAR,WEB --rounds 3
  research/bench/tool page target/benchmark.jsonl        writes the page again without measuring
  research/bench/tool list                               lists the groups of rows and the sets of each
  research/bench/tool check                              compares the charts with the page (a step of cargo xtask check)
  research/bench/tool book-charts FOLDER                 draws the charts of the book from the page

`tool COMMAND --help` explains the options of a command.
"""

import argparse
import hashlib
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import book_charts
import page
from command import PeerError
from groups import GROUPS, MANY, MANY_COUNT, ONCE
from machine import fs_type, machine
from records import Records, RecordsError, merged
from stage import ROOT, CommandError, SkippedError

BUILD = ROOT / "research" / "datasets" / "build.py"
# Numbers of small files on a disk and behind a delay, and MiB of random bytes on S3, by --size.
PARTS = {
    "tiny": SimpleNamespace(cold_files=2_000, delayed_files=200, far_mib=16),
    "small": SimpleNamespace(cold_files=20_000, delayed_files=2_000, far_mib=128),
    "medium": SimpleNamespace(cold_files=200_000, delayed_files=20_000, far_mib=1024),
}
PARTS["full"] = PARTS["medium"]
PEERS = "restic,borg,rustic,bupstash"
FAILURES = (PeerError, SkippedError, CommandError, subprocess.CalledProcessError, OSError)

RUN_HELP = """Measures groups of rows and writes the page with its charts.

Each row of a group is measured in turns: all tools take one step, then all take the next, and another begins in every
round. A tool that is not there is named and left out. Every row is appended to the file --out at once. Run the same
command again to continue after an interruption: what is done is not measured again. Remove the file, or give another,
to begin anew.

The groups `cold` and `delayed` need root, `far` needs Go and its module proxy for its S3 server, and `one-run` needs
root for a bind mount; a group that cannot be measured is named on the page with the reason.

Sizes do not depend on the load of the machine, and CPU times by less than a third. Wall times mean little on a busy
machine. The page says how busy it was.
"""
RUN_EXAMPLES = """Examples:
  research/bench/tool data --data /data --size medium && research/bench/tool run --data /data
      The whole table with one round: some 40 minutes on two processors.
  research/bench/tool run --data /data --rows cold,far --size tiny --out /tmp/try.jsonl --page-folder /tmp/try
      A try of two groups, which changes no file of the source tree.
  research/bench/tool run --data /data --rows max --sets CODETAR
      One group on one set.
  research/bench/tool run --data /data --tools restic,borg --binary restic=/opt/restic/restic
      Other peers.
"""


def names(text):
    return [name for name in text.split(",") if name]


def parser_of():
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(prog="research/bench/tool", description=__doc__, formatter_class=raw)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    data_help = "folder of the data sets, SET/v01, SET/v02, ... (default: data)"

    run = commands.add_parser(
        "run", help="measure, and write the page", description=RUN_HELP, epilog=RUN_EXAMPLES, formatter_class=raw
    )
    run.add_argument("--data", type=Path, default=Path("data"), help=data_help)
    run.add_argument("--rows", type=names, default=list(GROUPS), metavar="GROUP,...", help="of " + ", ".join(GROUPS))
    run.add_argument("--sets", type=names, default=[], metavar="SET,...", help="only these sets, where a group has any")
    run.add_argument("--rounds", type=int, default=1, help="rounds (default: 1); the page has medians")
    run.add_argument(
        "--size",
        choices=list(PARTS),
        default="medium",
        help="number of small files and of random bytes; the sets have the size with which they were built",
    )
    run.add_argument("--versions", type=int, default=0, help="only the first N versions of each set")
    run.add_argument(
        "--work", type=Path, default=Path("/dev/shm/cutpoint-benchmark"), help="repositories and restored files"
    )
    run.add_argument(
        "--disk",
        type=Path,
        default=ROOT / "target",
        help="folder on a disk for cold caches; the small files in it stay for the next run (default: target)",
    )
    run.add_argument(
        "--cutpoint", default=str(ROOT / "target" / "release" / "cutpoint"), help="release build of cutpoint"
    )
    run.add_argument("--commit", help="commit of that program (default: the last one that changed crates/)")
    run.add_argument("--tools", type=names, default=names(PEERS), help=f"peers (default: {PEERS})")
    run.add_argument("--bin", help="folder with the peers' binaries under the tools' names (else PATH)")
    run.add_argument("--binary", action="append", default=[], metavar="TOOL=PATH", help="binary of one tool")
    run.add_argument("--helpers", type=Path, help="folder of a release build of cutpoint-scale (default: build it)")
    run.add_argument("--build-folder", type=Path, default=ROOT / "target" / "tmp", help=argparse.SUPPRESS)
    run.add_argument("--timeout", type=int, default=1800, help="seconds for one step of a tool")
    run.add_argument(
        "--out", type=Path, default=ROOT / "target" / "benchmark.jsonl", help="the rows (default: %(default)s)"
    )
    add_page_options(run)

    again = commands.add_parser("page", help="write the page of stored rows again", formatter_class=raw)
    again.add_argument("files", nargs="+", type=Path, metavar="FILE.jsonl", help="rows; several runs are merged")
    add_page_options(again)

    data = commands.add_parser("data", help="build the data sets that are missing", formatter_class=raw)
    data.add_argument("--data", type=Path, default=Path("data"), help=data_help)
    data.add_argument("--size", default="medium", help="as for research/datasets/build.py (default: medium)")
    data.add_argument("--sets", type=names, default=[], metavar="SET,...", help="only these sets")

    commands.add_parser("list", help="list the groups of rows")
    commands.add_parser("check", help="compare the charts and README.md with the page")
    book = commands.add_parser("book-charts", help="draw the charts of the book from the page")
    book.add_argument("folder", type=Path, metavar="FOLDER", help="folder for the charts")
    return parser


def add_page_options(parser):
    parser.add_argument(
        "--page-folder",
        type=Path,
        default=page.RESULTS,
        help="folder of benchmark.md and its charts; with the default, the table of README.md is written as well "
        "(default: research/results)",
    )


def commit():
    def git(*words):
        done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=False)
        return done.stdout.strip()

    # The last one that changed the program.
    program = ("crates", "Cargo.lock")
    changed = git("status", "--porcelain", "--untracked-files=no", *program)
    return (git("log", "-1", "--format=%h", "--", *program) or "unknown") + (" with changes" if changed else "")


def digest(path):
    with open(path, "rb") as file:
        return hashlib.blake2b(file.read(), digest_size=6).hexdigest()


def shown_command(options):
    """Returns the command without the paths of this machine."""
    words = ["research/bench/tool run --data DATA"]
    if options.rows != list(GROUPS):
        words.append(f"--rows {','.join(options.rows)}")
    if options.sets:
        words.append(f"--sets {','.join(options.sets)}")
    words += [f"--size {options.size}", f"--rounds {options.rounds}"]
    if options.versions:
        words.append(f"--versions {options.versions}")
    if options.tools != names(PEERS):
        words.append(f"--tools {','.join(options.tools)}")
    return " ".join(words)


def description(options):
    """Returns the facts of a run for the page."""
    return {
        "started": time.strftime("%Y-%m-%d %H:%M"),
        "commit": options.commit or commit(),
        "program": digest(options.cutpoint),
        "command": shown_command(options),
        "size": options.size,
        "rounds": options.rounds,
        "machine": machine() | {"repository_on": fs_type(options.work), "disk": fs_type(options.disk)},
        "tools": {},
        "missing": [],
        "missing_sets": {},
        # The sets of each group; those without rows were not reached.
        "planned": {},
    }


def in_order(groups):
    """Returns the units of all groups: the first round of all, what is measured once, the other rounds, the slow."""

    def place(unit):
        group, set_, round_ = unit
        if set_ == "ONE":
            return 0
        if group == "max":
            return 1_000_000
        return 1.5 if round_ == ONCE else round_

    units = [(group.name, *unit) for group in groups.values() for unit in group.units()]
    return sorted(units, key=place)


def run(options):
    unknown = [name for name in options.rows if name not in GROUPS]
    if unknown:
        sys.exit(f"{', '.join(unknown)}: no such group of rows: {', '.join(GROUPS)}")
    if not os.access(options.cutpoint, os.X_OK):
        sys.exit(f"{options.cutpoint}: no program; build it (cargo build --release), or give --cutpoint")
    if options.rounds < 1:
        sys.exit("--rounds: at least 1 was expected")
    options.parts = PARTS[options.size]
    for name in ("data", "work", "disk", "out", "page_folder", "build_folder"):
        setattr(options, name, getattr(options, name).resolve())
    options.helpers = options.helpers and options.helpers.resolve()
    for folder in (options.work, options.disk, options.out.parent):
        folder.mkdir(parents=True, exist_ok=True)
    groups = {name: GROUPS[name](options) for name in options.rows}
    records = Records(options.out)
    facts = description(options)
    for group in groups.values():
        facts["planned"][group.name] = group.sets()
        if group.missing():
            facts["missing_sets"][group.name] = group.missing()
            print(f"{group.name}: not in {options.data}: {', '.join(group.missing())} (tool data)", file=sys.stderr)
        try:
            found, missing = group.tools()
        except FAILURES as error:
            print(f"{group.name}: {error}", file=sys.stderr)
            continue
        facts["tools"] |= found
        facts["missing"] += [name for name in missing if name not in facts["missing"]]
    records.start(facts)
    signal.signal(signal.SIGTERM, lambda *_: (_ for _ in ()).throw(KeyboardInterrupt()))
    code = measure_all(groups, records, facts)
    page.write(records, options.page_folder)
    print(f"wrote {options.page_folder / page.NAME}; rows in {options.out}", file=sys.stderr)
    return code


def measure_all(groups, records, facts):
    units, began = in_order(groups), time.monotonic()
    try:
        for number, unit in enumerate(units, 1):
            name, set_, round_ = unit
            what = f"[{number}/{len(units)}] {name} {set_}" + (f", round {round_}" if round_ else "")
            if unit in records.done:
                print(f"{what}: done before", file=sys.stderr)
                continue
            print(f"{what} ({minutes(time.monotonic() - began)})", file=sys.stderr)
            load = os.getloadavg()[0]
            try:
                records.add(unit, (row | {"load": round(load, 1)} for row in groups[name].measure(set_, round_)))
            except (*FAILURES, SystemExit) as error:
                print(f"{what}: NOT MEASURED: {error}", file=sys.stderr)
                records.skip(unit, str(error) or type(error).__name__)
    except KeyboardInterrupt:
        print("stopped; the same command goes on with what is left", file=sys.stderr)
        return 130
    finally:
        for group in groups.values():
            group.close()
    print(f"measured in {minutes(time.monotonic() - began)}", file=sys.stderr)
    failed = any("error" in row for row in records.rows) or records.skipped
    return 2 if failed else 0


def minutes(seconds):
    return f"{int(seconds) // 60} min {int(seconds) % 60:02} s"


def build_data(options):
    """Builds the sets of all groups that are not there."""
    code = 0
    wanted = options.sets or sorted({name for group in GROUPS.values() for name in group.candidates})
    absent = [name for name in wanted if not (options.data / name).exists()]
    many = [name for name in MANY if name in wanted and not (options.data / "many" / name).exists()]
    for sets, words in ((absent, []), (many, ["--versions", str(MANY_COUNT)])):
        if sets:
            out = options.data / "many" if words else options.data
            command = [sys.executable, "-B", str(BUILD), *sets, *words, "--size", options.size, "--out", str(out)]
            print(shlex.join(command), file=sys.stderr)
            code = subprocess.run(command, check=False).returncode or code
    return code


def list_groups():
    width = shutil.get_terminal_size((100, 24)).columns
    for group in GROUPS.values():
        print(f"{group.name:12} {group.about}")
        if group.candidates:
            print(f"{'':12} sets: {', '.join(group.candidates)}"[:width])
    return 0


def main(words=None):
    options = parser_of().parse_args(words)
    try:
        if options.command == "run":
            return run(options)
        if options.command == "page":
            page.write(merged(options.files), options.page_folder.resolve())
            return 0
        if options.command == "data":
            return build_data(options)
        if options.command == "check":
            return page.check()
        if options.command == "book-charts":
            book_charts.write((page.RESULTS / page.NAME).read_text(encoding="utf-8"), options.folder)
            return 0
        return list_groups()
    except (RecordsError, page.PageError, book_charts.MissingTableError) as error:
        sys.exit(str(error))
