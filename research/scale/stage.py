"""Repositories on a stage, a folder or an S3 server, and commands whose cost is measured."""

import json
import os
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "peers"))
from command import PeerError, spawn  # noqa: E402

ROOT = Path(__file__).resolve().parent.parent.parent
NO_SERVER = 77


class SkippedError(Exception):
    """The condition of a case is not there; the text is the reason."""


class CommandError(Exception):
    """A command of the preparation failed."""


@dataclass
class Cost:
    """The cost of one command, or of several at once."""

    # Pairs of verb and folder, and their numbers of requests.
    requests: dict = field(default_factory=dict)
    # The number of names in bulk deletes.
    deleted_count: int = 0
    sent_len: int = 0
    received_len: int = 0
    # The bytes of answers by pairs of verb and folder.
    received_lens: dict = field(default_factory=dict)
    cpu_s: float = 0.0
    rss_bytes: int = 0
    wall_s: float = 0.0
    failure_count: int = 0
    # The end of the output of a command that failed.
    failure: str = ""

    def request_count(self, *verbs):
        """Returns the number of requests with one of `verbs`, or of all requests."""
        return sum(count for (verb, _), count in self.requests.items() if not verbs or verb in verbs)

    def delete_count(self):
        """Returns the number of requests that delete, without those of probes in `tmp/`."""
        deletes = ((target, count) for target, count in self.requests.items() if target[0] in ("DELETE", "DELETES"))
        return sum(count for (_, folder), count in deletes if folder != "tmp")

    def figures(self):
        """Returns wall time, CPU time and memory as text."""
        return f"{self.wall_s:.2f} s, {self.cpu_s:.2f} CPU s, {self.rss_bytes >> 20} MiB"

    def add_requests(self, rows):
        for row in rows:
            target = (row["verb"], row["folder"])
            self.requests[target] = self.requests.get(target, 0) + row["request_count"]
            self.received_lens[target] = self.received_lens.get(target, 0) + row["received_len"]
            self.deleted_count += row["key_count"]
            self.sent_len += row["sent_len"]
            self.received_len += row["received_len"]

    def plus(self, other):
        """Returns the cost of two commands, one after the other."""
        total = Cost(
            deleted_count=self.deleted_count + other.deleted_count,
            sent_len=self.sent_len + other.sent_len,
            received_len=self.received_len + other.received_len,
            cpu_s=self.cpu_s + other.cpu_s,
            rss_bytes=max(self.rss_bytes, other.rss_bytes),
            wall_s=self.wall_s + other.wall_s,
            failure_count=self.failure_count + other.failure_count,
            failure=self.failure or other.failure,
        )
        for name in ("requests", "received_lens"):
            for counts in (getattr(self, name), getattr(other, name)):
                for target, count in counts.items():
                    getattr(total, name)[target] = getattr(total, name).get(target, 0) + count
        return total


def timed(command, environment, folder, timeout_s, codes=(0,)):
    """Runs a command in `folder` and returns its cost without requests. Its output is in `folder / "log"`.

    It fails if its exit code is not in `codes`.
    """
    log = folder / "log"
    try:
        ended = spawn(command, environment, folder, log, timeout_s)
    except PeerError as error:
        return Cost(wall_s=float(timeout_s), failure_count=1, failure=str(error))
    cost = Cost(cpu_s=ended.cpu_s, rss_bytes=ended.rss_bytes, wall_s=ended.wall_s)
    if ended.code not in codes:
        cost.failure_count = 1
        cost.failure = f"exit code {ended.code}: {log.read_text(errors='replace').strip()[-300:]}"
    return cost


def measured(command, environment, folder, timeout_s=3600, codes=(0,)):
    """Runs a command as [`timed`] does, and ends this program if it fails."""
    cost = timed(command, environment, folder, timeout_s, codes)
    if cost.failure:
        sys.exit(f"{' '.join(map(str, command))}: {cost.failure}")
    return cost


class S3Server:
    """The S3 server of the tests behind the proxy that counts and delays, which is built unless it is given."""

    def __init__(self, build_folder, program=None):
        program = program or proxy_program()
        self.process = subprocess.Popen(
            [program, str(build_folder)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        line = self.process.stdout.readline()
        if not line:
            code = self.process.wait()
            reason = "no S3 server (Go or its modules are not available)" if code == NO_SERVER else f"exit code {code}"
            raise SkippedError(reason)
        start = json.loads(line)
        self.variables, self.bucket, self.folder = start["variables"], start["bucket"], Path(start["folder"])

    def ask(self, command):
        self.process.stdin.write(command + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def proxy_program():
    """Builds the proxy and returns its path."""
    command = ["cargo", "build", "--quiet", "--release", "-p", "cutpoint-scale"]
    try:
        subprocess.run(command, cwd=ROOT, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise SkippedError(f"the proxy was not built: {error}") from error
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    return target / "release" / "cutpoint-scale"


@dataclass
class Client:
    """A machine: its cache and state are in `folder`."""

    folder: Path
    variables: dict = field(default_factory=dict)

    def environment(self):
        names = {"HOME": "home", "XDG_CACHE_HOME": "cache", "XDG_STATE_HOME": "state", "XDG_CONFIG_HOME": "config"}
        for name in names.values():
            (self.folder / name).mkdir(parents=True, exist_ok=True)
        return os.environ | {name: str(self.folder / value) for name, value in names.items()} | self.variables


class Stage:
    """A place for the repository of a case, and the clients that use it."""

    def __init__(self, options, work, server=None):
        self.options, self.work, self.server = options, Path(work), server
        self.source = self.work / "source"
        self.source.mkdir(parents=True, exist_ok=True)
        (self.source / "file").write_text("a small file\n")
        self.client_count = 0
        self.folder = self.location = None

    def client(self):
        """Returns a new machine, without a cache."""
        self.client_count += 1
        return Client(self.work / f"client{self.client_count}")

    def create(self, name):
        """Makes an empty repository, which following commands use."""
        if self.server:
            self.folder = self.server.folder / name
            self.location = f"s3://{self.server.bucket}/{name}"
        else:
            self.folder = self.work / name
            self.location = str(self.folder)
        self.prepare(self.client(), "init", "--encryption", "none")

    def command(self, *words):
        return [str(self.options.cutpoint), *words, "--repo", self.location]

    def environment(self, client):
        return client.environment() | (self.server.variables if self.server else {})

    def prepare(self, client, *words, json_lines=False):
        """Runs a command that is not measured, without latency. Returns the objects of its output."""
        self.set_latency(0)
        extra = ["--json"] if json_lines else ["--quiet"]
        done = subprocess.run(
            self.command(*words, *extra),
            env=self.environment(client),
            cwd=self.work,
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
        )
        if done.returncode != 0:
            raise CommandError(f"{' '.join(words)} ended with {done.returncode}: {done.stderr.strip()[-500:]}")
        return [json.loads(line) for line in done.stdout.splitlines()] if json_lines else None

    def set_latency(self, latency_ms):
        if self.server:
            self.server.ask(f"latency {latency_ms}")

    def measure(self, client, *words):
        """Runs a command and returns its cost."""
        return self.measure_all([(client, words)])

    def measure_all(self, commands):
        """Runs commands at once and returns their cost together: the sum of CPU times, the largest memory."""
        if self.server:
            self.set_latency(self.options.latency_ms)
            self.server.ask("take")
        began = time.perf_counter()
        with ThreadPoolExecutor(max_workers=len(commands)) as pool:
            parts = list(pool.map(self.run, commands))
        cost = parts[0]
        for part in parts[1:]:
            cost = cost.plus(part)
        if len(parts) > 1:
            cost.wall_s = time.perf_counter() - began
        if self.server:
            cost.add_requests(self.server.ask("take")["requests"])
        return cost

    def run(self, command):
        """Runs a pair of a client and the words of a command."""
        client, words = command
        client.folder.mkdir(parents=True, exist_ok=True)
        return timed(self.command(*words), self.environment(client), client.folder, self.options.timeout_s)

    def check(self, *words):
        """Fails unless `check` finds nothing."""
        if not self.options.no_check:
            self.prepare(self.client(), "check", *words)

    def count(self, folder):
        """Returns the number of objects in a folder of the repository."""
        return sum(1 for path in (self.folder / folder).rglob("*") if path.is_file())

    def object_bytes(self, folder):
        return sum(path.stat().st_size for path in (self.folder / folder).rglob("*") if path.is_file())

    def remove(self):
        """Removes the repository and the clients."""
        for folder in (self.folder, self.work):
            if folder:
                shutil.rmtree(folder, ignore_errors=True)
