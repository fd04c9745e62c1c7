#!/usr/bin/env python3
"""Cutpoint beside its peers: requests and times of commands on S3 after a number of small backups.

    ./peers.py --counts 200,1000 --binary restic=/usr/bin/restic --binary kopia=PATH --binary borg=PATH

Prints a Markdown table. A tool without a binary is skipped and named. Each tool makes the snapshots itself, without
latency; the measured commands follow, warm. Borg is version 2 with its package for S3 (`pip install
borgbackup[s3]==2.0.0b25`). At the end, all but the newest ten snapshots are forgotten and the space is freed, by as
many commands as the tool needs; the row has their sum.
"""

import argparse
import functools
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from stage import ROOT, Client, Cost, S3Server, SkippedError, timed

SECRET = "measured-not-secret"
# Number of snapshots that are kept at the end.
KEPT = 10
HEADER = "| tool | snapshots | command | requests | received MB | CPU s | peak RSS MB | wall s |"


class Tool:
    """One program: the commands of each step, and its environment."""

    def __init__(self, binary, server):
        self.binary, self.server = binary, server

    def variables(self):
        return {}

    def init(self):
        raise NotImplementedError

    def backup(self, source):
        raise NotImplementedError

    def reads(self):
        """Returns the names and the words of commands that only read."""
        raise NotImplementedError

    def frees(self):
        """Returns the words of the commands that forget all but the newest snapshots, and free the space."""
        raise NotImplementedError


class Cutpoint(Tool):
    def variables(self):
        return {"CUTPOINT_REPO": f"s3://{self.server.bucket}/cutpoint"}

    def init(self):
        return ["init", "--encryption", "none"]

    def backup(self, source):
        return ["backup", source]

    def reads(self):
        return {"list snapshots": ["snapshots"], "list files": ["ls", "latest"]}

    def frees(self):
        return [["forget", f"--keep-last={KEPT}"], ["prune", "--settle=0s", "--wait"]]


class Restic(Tool):
    def variables(self):
        endpoint = self.server.variables["AWS_ENDPOINT_URL"]
        return {"RESTIC_REPOSITORY": f"s3:{endpoint}/{self.server.bucket}/restic", "RESTIC_PASSWORD": SECRET}

    def init(self):
        return ["init"]

    def backup(self, source):
        return ["backup", source]

    def reads(self):
        return {"list snapshots": ["snapshots"], "list files": ["ls", "latest"]}

    def frees(self):
        return [["forget", f"--keep-last={KEPT}", "--prune"]]


class Kopia(Tool):
    def variables(self):
        return {"KOPIA_PASSWORD": SECRET, "KOPIA_CHECK_FOR_UPDATES": "false"}

    def init(self):
        address = self.server.variables["AWS_ENDPOINT_URL"].removeprefix("http://")
        words = ["repository", "create", "s3", f"--bucket={self.server.bucket}", f"--endpoint={address}"]
        keys = [self.server.variables[name] for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")]
        words += [f"--access-key={keys[0]}", f"--secret-access-key={keys[1]}"]
        return [*words, "--disable-tls", "--prefix=kopia/"]

    def backup(self, source):
        return ["snapshot", "create", source]

    def reads(self):
        return {"list snapshots": ["snapshot", "list", "--all"]}

    def frees(self):
        policy = ["policy", "set", "--global", f"--keep-latest={KEPT}"]
        policy += [f"--keep-{each}=0" for each in ("hourly", "daily", "weekly", "monthly", "annual")]
        maintenance = ["maintenance", "run", "--full", "--safety=none"]
        return [policy, ["snapshot", "expire", "--all", "--delete"], maintenance]


class Borg(Tool):
    # The number of archives. Each has its own name, because only that names one of them.
    made_count = 0

    def variables(self):
        address = self.server.variables["AWS_ENDPOINT_URL"]
        keys = [self.server.variables[name] for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")]
        place = f"s3:{keys[0]}:{keys[1]}@{address}/{self.server.bucket}/borg"
        return {"BORG_REPO": place, "BORG_PASSPHRASE": SECRET}

    def init(self):
        return ["repo-create", "--encryption=aes256-ocb"]

    def backup(self, source):
        self.made_count += 1
        return ["create", f"archive-{self.made_count}", source]

    def reads(self):
        return {"list snapshots": ["repo-list"], "list files": ["list", f"archive-{self.made_count}"]}

    def frees(self):
        return [["prune", f"--keep={KEPT}"], ["compact"]]


TOOLS = {"cutpoint": Cutpoint, "restic": Restic, "kopia": Kopia, "borg": Borg}


class Bench:
    """The measurements of one tool."""

    def __init__(self, tool, work, options):
        self.tool, self.options = tool, options
        self.client = Client(work / "client")
        self.source = work / "source"
        self.source.mkdir(parents=True)
        self.environment = self.client.environment() | tool.server.variables | tool.variables()

    def prepare(self, words):
        subprocess.run(
            [self.tool.binary, *words],
            env=self.environment,
            cwd=self.client.folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            check=True,
        )

    def measure(self, words):
        server = self.tool.server
        server.ask(f"latency {self.options.latency_ms}")
        server.ask("take")
        cost = timed([self.tool.binary, *words], self.environment, self.client.folder, self.options.timeout_s)
        cost.add_requests(server.ask("take")["requests"])
        server.ask("latency 0")
        return cost

    def rows(self):
        """Yields the number of snapshots, the name of a command and its cost."""
        self.prepare(self.tool.init())
        made_count = 0
        for count in self.options.counts:
            for number in range(made_count, count - 1):
                (self.source / "file").write_text(f"version {number}\n")
                self.prepare(self.tool.backup(str(self.source)))
            made_count = count
            for name, words in self.tool.reads().items():
                yield count - 1, name, self.measure(words)
            yield count, "backup, unchanged", self.measure(self.tool.backup(str(self.source)))
        yield made_count, f"keep {KEPT}, free space", functools.reduce(Cost.plus, map(self.measure, self.tool.frees()))


def numbers(text):
    return sorted(int(each) for each in text.split(","))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    parser.add_argument("--counts", type=numbers, default=[200, 1000], help="numbers of snapshots (default: 200,1000)")
    parser.add_argument("--tools", default=",".join(TOOLS))
    parser.add_argument("--cutpoint", default=str(target / "release" / "cutpoint"), help="the program")
    parser.add_argument("--binary", action="append", default=[], metavar="TOOL=PATH", help="binary of one tool")
    parser.add_argument("--latency-ms", type=int, default=30, help="latency of a request (default: 30)")
    parser.add_argument("--timeout-s", type=int, default=600, help="maximum duration of a measured command")
    parser.add_argument("--build-folder", type=Path, default=target / "tmp", help="folder of the S3 server's build")
    options = parser.parse_args()
    binaries = {"cutpoint": options.cutpoint} | dict(each.split("=", 1) for each in options.binary)
    try:
        server = S3Server(options.build_folder.resolve())
    except SkippedError as reason:
        print(f"SKIPPED: {reason}", file=sys.stderr)
        return 77
    print(HEADER + "\n|---|---:|---|---:|---:|---:|---:|---:|")
    work = Path(tempfile.mkdtemp(prefix="peers-"))
    try:
        for name in options.tools.split(","):
            binary = shutil.which(binaries.get(name, name))
            if not binary:
                print(f"SKIPPED: {name}: no binary was found", file=sys.stderr)
                continue
            tool = TOOLS[name](str(Path(binary).resolve()), server)
            for count, command, cost in Bench(tool, work / name, options).rows():
                cells = [name, f"{count:,}", command, f"{cost.request_count():,}", f"{cost.received_len / 1e6:.2f}"]
                cells += [f"{cost.cpu_s:.2f}", f"{cost.rss_bytes / 1e6:.0f}", f"{cost.wall_s:.2f}"]
                print(f"| {' | '.join(cells)} |", flush=True)
                if cost.failure:
                    print(f"{name}, {command}: {cost.failure}", file=sys.stderr)
    finally:
        server.close()
        shutil.rmtree(work, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
