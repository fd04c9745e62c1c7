"""The cases: what is made, which commands are measured, and their limits."""

import subprocess
import sys
from dataclasses import dataclass, field

import synth
from stage import ROOT, CommandError, Cost, SkippedError

MB = 10**6
# The share by which a figure that must not get worse may exceed the measured one.
NOISE = 1.1
# The maximum growth of CPU time from a size to four times the size: linear is 4, quadratic is 16.
GROWTH_MAX = 7.0
# CPU time of any command, which does not grow.
START_CPU_S = 0.02


@dataclass
class Row:
    """A measured command and its limits."""

    case: str
    verb: str
    cost: Cost
    # Names of quantities and their limits.
    limits: dict
    # Quantities that are no costs.
    quantities: dict = field(default_factory=dict)

    def value(self, quantity):
        """Returns the value of a quantity of a limit."""
        values = {
            "requests": self.cost.request_count(),
            "deletes": self.cost.delete_count(),
            "cpu_s": self.cost.cpu_s,
            "rss_mb": self.cost.rss_bytes / MB,
            "wall_s": self.cost.wall_s,
            "failures": self.cost.failure_count,
        }
        return (values | self.quantities)[quantity]

    def broken(self):
        """Returns the quantities above their limits. A command that failed breaks any limit."""
        wrong = [name for name, limit in self.limits.items() if self.value(name) > limit]
        return wrong or (["failures"] if self.cost.failure_count else [])


class Case:
    """What a case has: its name, the options, and a stage for each kind of storage."""

    def __init__(self, name, options, local, s3):
        self.name, self.options, self.local, self.s3 = name, options, local, s3

    def size(self, full, small):
        return small if self.options.small else full

    def row(self, verb, cost, **limits):
        """Returns a row. Wall time is a limit only with the latency for which it was set."""
        if self.options.small or self.options.latency_ms != 30:
            limits.pop("wall_s", None)
        return Row(self.name, verb, cost, limits)


def warmed(stage):
    """Returns a client that has read the repository."""
    client = stage.client()
    stage.prepare(client, "ls", "latest")
    return client


def repository_with_commits(stage, name, count):
    """Makes a repository with one real snapshot and `count` synthetic ones, and returns a warm client."""
    stage.create(name)
    stage.prepare(stage.client(), "backup", str(stage.source))
    if count:
        synth.add_commits(stage.folder, count)
        stage.check()
    client = warmed(stage)
    # The parent of the measured backup is a snapshot whose files have settled or are read again; both are few.
    stage.prepare(client, "backup", str(stage.source))
    return client


def view_1k(case):
    """1,000 commits on S3: every verb, warm."""
    stage = case.s3()
    file = f"latest:{stage.source / 'file'}"
    reads = {
        "snapshots": ["snapshots"],
        "ls": ["ls", "latest"],
        "stats": ["stats"],
        "restore": ["restore", file, "--to"],
    }

    def read(client, verb, target):
        words = reads[verb] + ([str(stage.work / target)] if verb == "restore" else [])
        return stage.measure(client, *words)

    client = repository_with_commits(stage, "own", 0)
    own = {verb: read(client, verb, "own-restored").request_count() for verb in reads}
    client = repository_with_commits(stage, "view", case.size(1_000, 300))
    for verb in reads:
        yield case.row(verb, read(client, verb, "restored"), requests=own[verb] + 25, wall_s=2)
    yield case.row("backup", stage.measure(client, "backup", str(stage.source)), requests=40, wall_s=3)
    yield case.row("tag", stage.measure(client, "tag", "latest", "--add", "a"), requests=40, wall_s=3)
    yield case.row("prune", stage.measure(client, "prune"), requests=320, wall_s=12)
    oldest = stage.prepare(client, "snapshots", json_lines=True)[0]["id"]
    yield case.row("forget", stage.measure(client, "forget", oldest), requests=40, wall_s=3)


def view_10k(case):
    """10,000 commits on S3: `snapshots`, cold and warm."""
    stage = case.s3()
    repository_with_commits(stage, "view", case.size(10_000, 600))
    client = stage.client()
    yield case.row("snapshots, cold", stage.measure(client, "snapshots"), wall_s=15)
    yield case.row("snapshots, warm", stage.measure(client, "snapshots"), wall_s=3)


def view_100k(case):
    """100,000 commits in a folder: `snapshots`. Small: the growth from 2,000 to 8,000."""
    stage = case.local()
    if not case.options.small:
        client = repository_with_commits(stage, "view", 100_000)
        yield case.row("snapshots", stage.measure(client, "snapshots"), cpu_s=4, rss_mb=200)
        return
    costs = []
    for count in (2_000, 8_000):
        client = repository_with_commits(stage, f"view{count}", count)
        runs = [stage.measure(client, "snapshots") for _ in range(3)]
        costs.append(min(runs, key=lambda cost: cost.cpu_s))
    yield growth_row(case, "snapshots", *costs)


def growth_row(case, verb, before, after):
    """Returns the row for a command at a size and at four times the size."""
    row = case.row(verb, after, growth=GROWTH_MAX)
    row.quantities["growth"] = after.cpu_s / max(before.cpu_s, START_CPU_S)
    return row


def segments_16k(case):
    """16,000 segments in a folder: `ls`, cold. Small: the growth from 500 to 2,000."""
    stage = case.local()

    def cold_ls(count, run_count=1):
        stage.create(f"segments{count}")
        synth.add_snapshots(stage.folder, count, client_count=10)
        stage.check()
        costs = [stage.measure(stage.client(), "ls", "latest") for _ in range(run_count)]
        return min(costs, key=lambda cost: cost.cpu_s)

    if case.options.small:
        yield growth_row(case, "ls, cold", cold_ls(500, 3), cold_ls(2_000, 3))
    else:
        yield case.row("ls, cold", cold_ls(16_000), cpu_s=3)


def sweep_3k(case):
    """3,000 small snapshots on S3: all but 24 are forgotten and deleted."""
    stage = case.s3()
    stage.create("sweep")
    count = case.size(3_000, 200)
    synth.add_snapshots(stage.folder, count, synth.Shape(has_tickets=True))
    stage.check()
    client = warmed(stage)
    cost = stage.measure(client, "forget", "--keep-last", "24")
    cost = cost.plus(stage.measure(client, "prune", "--settle", "0s", "--wait"))
    stage.check()
    row = case.row("forget, prune", cost, requests=case.size(800, 600), deletes=20, left=100)
    row.quantities["left"] = stage.count("data") + stage.count("meta")
    yield row


def merge(case):
    """600 segments on S3, merged by a prune: the next `ls` of a second machine."""
    stage = case.s3()
    stage.create("merge")
    synth.add_snapshots(stage.folder, 600, synth.Shape(chunk_count=case.size(1_000, 30), chunk_len=16))
    stage.check()
    second = warmed(stage)
    index_len = stage.object_bytes("index")
    segment_count = len(list((stage.folder / "index").iterdir()))
    # With a delay, so that the sweep does not remove the merged segments at once.
    stage.prepare(stage.client(), "prune", "--rewrite-max", "0", "--settle", "24h")
    merged_count = len(list((stage.folder / "index").iterdir())) - segment_count
    if merged_count < 1:
        raise CommandError("the prune merged no segments")
    cost = stage.measure(second, "ls", "latest")
    row = case.row("ls, second machine", cost, index_percent=5)
    row.quantities["index_percent"] = 100 * cost.received_lens.get(("GET", "index"), 0) / index_len
    yield row


def cliff(case):
    """600 full segments: the second prune records nothing. Needs a build with MERGED_HINTS_MAX at 4 Ki."""
    if not case.options.test_build:
        raise SkippedError("--test-build names no build with MERGED_HINTS_MAX at 4 Ki")
    stage = case.local()
    stage.options.cutpoint = case.options.test_build
    stage.create("cliff")
    synth.add_snapshots(stage.folder, 600, synth.Shape(chunk_count=4096, chunk_len=16))
    client = stage.client()
    stage.prepare(client, "prune", "--rewrite-max", "0")
    record_count = stage.count("prunes")
    cost = stage.measure(client, "prune", "--rewrite-max", "0")
    row = case.row("prune, second", cost, records=0)
    row.quantities["records"] = stage.count("prunes") - record_count
    yield row


def void(case):
    """Backups that are skipped because nothing has changed leave no commits after 31 days."""
    stage = case.local()
    stage.create("void")
    client = stage.client()
    library, clock = stage.work / "shift.so", stage.work / "clock"
    source = ROOT / "testing" / "torture" / "src" / "shift.c"
    compiled = subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", library, source], check=False)
    if compiled.returncode != 0:
        raise SkippedError("no C compiler: no clock was shifted")
    for _ in range(case.size(200, 80)):
        stage.prepare(client, "backup", str(stage.source), "--skip-if-unchanged")
    stage.prepare(client, "prune", "--settle", "0s")
    clock.write_text(f"{31 * 24 * 3600:>12} {31 * 24 * 3600:>12}")
    client.variables = {"LD_PRELOAD": str(library), "SHIFT_FILE": str(clock)}
    row = case.row("prune after 31 days", stage.measure(client, "prune", "--settle", "0s"), commits=10)
    row.quantities["commits"] = stage.count("commits")
    yield row


def index_160m(case):
    """160 million chunks in 600,000 containers, which do not exist: 10 TB in chunks of 64 KiB."""
    stage = case.local()
    stage.create("index")
    stage.prepare(stage.client(), "backup", str(stage.source))
    hint_count = case.size(267 * 15_000, 267 * 100)
    full = synth.Full(case.size(40, 3), hint_count, hint_count // 267, has_containers=case.options.small)
    synth.add_full_segments(stage.folder, full)
    if case.options.small:
        stage.check()
    # The newest snapshot is the synthetic one, whose tree is that of the real one.
    client = stage.client()
    yield case.row("ls, cold", stage.measure(client, "ls", "latest"), cpu_s=21 * NOISE, rss_mb=453 * NOISE)
    yield case.row("ls, warm", stage.measure(client, "ls", "latest"), cpu_s=0.27 * NOISE, rss_mb=277 * NOISE)
    yield case.row("ls, no cache", stage.measure(client, "ls", "latest", "--no-cache"), rss_mb=500)


def prune_8m(case):
    """8 million chunks: a prune with nothing to do, and one after half of them were forgotten."""
    stage = case.local()
    stage.create("prune")
    shape = synth.Shape(file_count=20, chunk_count=case.size(4_000, 100), chunk_len=128, snapshot_count=2)
    synth.add_snapshots(stage.folder, case.size(100, 20), shape)
    stage.check()
    client = warmed(stage)
    # Small containers of trees are merged before.
    stage.prepare(client, "prune", "--settle", "0s")
    cost = stage.measure(client, "prune")
    yield case.row("prune, nothing", cost, cpu_s=6.4 * NOISE, rss_mb=115 * NOISE)
    snapshots = stage.prepare(client, "snapshots", "--tag", "odd", json_lines=True)
    stage.prepare(client, "forget", *[each["id"] for each in snapshots])
    cost = stage.measure(client, "prune")
    yield case.row("prune, half", cost, cpu_s=21 * NOISE, rss_mb=300)


def containers_300k(case):
    """The memory of `prune --dry-run` for each container, from 100,000 to 300,000 of them."""
    stage = case.local()
    stage.create("containers")
    stage.prepare(stage.client(), "backup", str(stage.source))
    costs, counts = [], [case.size(100_000, 3_000), case.size(300_000, 9_000)]
    added = 0
    for seed, count in enumerate(counts, 1):
        full = synth.Full(2, (count - added) // 2 * 10, (count - added) // 2)
        synth.add_full_segments(stage.folder, full, seed)
        added = count
        stage.check()
        costs.append(stage.measure(warmed(stage), "prune", "--dry-run"))
    row = case.row("prune --dry-run", costs[1], container_bytes=200)
    row.quantities["container_bytes"] = (costs[1].rss_bytes - costs[0].rss_bytes) / (counts[1] - counts[0])
    yield row


def together(case):
    """60 clients on S3 start at once, each with a small backup."""
    stage = case.s3()
    stage.create("together")
    commands = []
    for number in range(case.size(60, 12)):
        source = stage.work / f"source{number}"
        source.mkdir()
        (source / "file").write_text(f"file {number}\n" * 1000)
        commands.append((stage.client(), ["backup", str(source), "--host", f"host{number}"]))
    cost = stage.measure_all(commands)
    stage.check()
    yield case.row("backup", cost, failures=0, requests=case.size(6_000, 600))


def hour(case):
    """Processes on one S3 repository that are killed, suspended and have wrong clocks; see testing/torture."""
    words = ["cargo", "run", "--quiet", "--release", "-p", "cutpoint-torture", "--", "--s3"]
    duration_s = str(case.options.duration_s)
    words += ["--program", str(case.options.cutpoint), "--seconds", duration_s, "--storm-seconds", duration_s]
    done = subprocess.run(
        [*words, "--build-folder", str(case.options.build_folder)], cwd=ROOT, stdout=sys.stderr, check=False
    )
    if done.returncode == 77:
        raise SkippedError("no S3 server (Go or its modules are not available)")
    failure = "" if done.returncode == 0 else f"the torture test ended with {done.returncode}"
    yield case.row("torture", Cost(failure_count=int(done.returncode != 0), failure=failure), failures=0)


def checkpoint(case):
    """100,000 commits on S3 and a checkpoint, which a prune makes: `backup` of a client without a cache."""
    stage = case.s3()
    client = repository_with_commits(stage, "checkpoint", case.size(100_000, 300))
    stage.prepare(client, "prune")
    limits = {"requests": 300, "wall_s": 15, "rss_mb": 250}
    yield case.row("backup, no cache", stage.measure(stage.client(), "backup", str(stage.source)), **limits)


CASES = {
    "view-1k": view_1k,
    "view-10k": view_10k,
    "view-100k": view_100k,
    "segments-16k": segments_16k,
    "sweep-3k": sweep_3k,
    "merge": merge,
    "cliff": cliff,
    "void": void,
    "index-160M": index_160m,
    "prune-8M": prune_8m,
    "containers-300k": containers_300k,
    "together": together,
    "hour": hour,
    "B": checkpoint,
}

# The cases whose small form takes seconds.
SMALL = ("view-1k", "view-100k", "sweep-3k", "merge", "void", "index-160M", "prune-8M", "together")
