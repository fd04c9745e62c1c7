"""The rows of the benchmark of volumes, `volume.py`, and the page of their figures."""

import statistics
from pathlib import Path

from records import Records, RecordsError

# Contenders: name, kind, size of blocks, mode of a volume.
CONTENDERS = {
    "plain file": ("plain", 4096, ""),
    "plain file, hashes of 4k": ("hashed", 4096, ""),
    "plain file, hashes of 64k": ("hashed", 65536, ""),
    "plain file, hashes and features of 4k": ("hashed", 4096, "features"),
    "plain file, hashes and features of 64k": ("hashed", 65536, "features"),
    "plain file, nbdkit": ("nbdkit", 4096, ""),
    "off 4k": ("volume", 4096, "off"),
    "exact 4k": ("volume", 4096, "exact"),
    "exact 64k": ("volume", 65536, "exact"),
    "burst 4k": ("volume", 4096, "burst"),
    "delta 4k": ("volume", 4096, "delta"),
    "delta 64k": ("volume", 65536, "delta"),
    "zfs-fuse dedup 4k": ("zfs", 4096, ""),
    "zfs-fuse dedup 64k": ("zfs", 65536, ""),
    "XFS, duperemove 64k": ("xfs", 65536, ""),
}
JOBS = [
    (pattern, block, depth)
    for pattern in ("read", "write", "randread", "randwrite")
    for block in ("4k", "64k")
    for depth in (1, 16)
]
# The pattern, size and depth of the requests that fill a disk.
FILL = ("write", "64k", 16)
WORDS = {"read": "read in order", "write": "write in order", "randread": "random read", "randwrite": "random write"}
# Commands of each kind of which the median is taken.
COMMANDS = 9
# Goals: the share of the plain file's throughput in order, by the beginning of the name.
GOALS = {"exact": 0.7, "delta": 0.5}
RECOVERY_GOAL_S = 2.0
# After trimming, the files have at most this much of the live bytes and one segment.
TRIM_GOAL = 1.2
SEGMENT = 64 << 20
# Systems, figures, names and addresses of the documents that print them.
REDHAT = "https://docs.redhat.com/en/documentation/red_hat_enterprise_linux/9/html"
LVM_VDO = "deduplicating_and_compressing_logical_volumes_on_rhel"
PUBLISHED = [
    (
        "dm-vdo",
        "memory: 38 MB; 268 MB a TB of physical storage; 1.6 MB a TB of logical space; 1.15 times the cache of the "
        "block map, which has at least 150 MB; an index of at least 250 MB, 1 GB a TB of deduplication window (dense) "
        "or 10 TB (sparse)",
        "Red Hat Enterprise Linux 9, LVM-VDO requirements",
        f"{REDHAT}/{LVM_VDO}/lvm-vdo-requirements_deduplicating-and-compressing-logical-volumes-on-rhel",
    ),
    (
        "btrfs",
        "no deduplication of what is being written: “BTRFS implements only out-of-band type”",
        "btrfs documentation, Deduplication",
        "https://btrfs.readthedocs.io/en/latest/Deduplication.html",
    ),
    (
        "bees, on btrfs",
        "memory: “can use as little as 1 GB hash table per 10 TB unique data”",
        "README of bees",
        "https://github.com/Zygo/bees",
    ),
]


def median(rows: list[dict], key: str) -> float | None:
    values = [row[key] for row in rows if key in row]
    return statistics.median(values) if values else None


def number(value: float | None, digits: int = 0) -> str:
    return "" if value is None else f"{value:,.{digits}f}"


class Figures:
    def __init__(self, records: Records) -> None:
        self.rows = records.rows

    def of(self, name: str, **wanted) -> list[dict]:
        wanted = {"set": name} | wanted
        return [row for row in self.rows if all(row.get(key) == value for key, value in wanted.items())]

    def speed(self, name: str, phase: str, job: tuple, key: str = "bytes_per_s") -> float | None:
        pattern, block, depth = job
        return median(self.of(name, phase=phase, pattern=pattern, block=block, depth=depth), key)


def table(head: list[str], rows: list[list[str]]) -> str:
    """Returns a table of Markdown whose numbers stand at the right."""
    lines = ["| " + " | ".join(head) + " |", "| --- |" + " ---: |" * (len(head) - 1)]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows)]) + "\n"


def shares(figures: Figures, name: str, plain: str, jobs: list[tuple], phase: str = "before") -> dict[tuple, float]:
    """Returns the speeds of jobs as shares of those of a plain file."""
    found = {job: (figures.speed(name, phase, job), figures.speed(plain, phase, job)) for job in jobs}
    return {job: ours / theirs for job, (ours, theirs) in found.items() if ours and theirs}


def bound_of(figures: Figures, name: str, job: tuple, phase: str) -> float | None:
    """Returns the share of a plain file that does the unavoidable work of a volume, as far as that was measured."""
    mode, block = name.split()
    works = ["hashes and features", "hashes"] if mode == "delta" and "write" in job[0] else ["hashes"]
    bounds = (shares(figures, f"plain file, {work} of {block}", "plain file", [job], phase).get(job) for work in works)
    return next((bound for bound in bounds if bound), None)


def goals(figures: Figures, names: list[str]) -> str:
    """Returns the table of goals, with what was reached."""
    rows = []
    jobs = [job for job in JOBS if job[0] in ("read", "write")]
    for name in names:
        goal = next((share for word, share in GOALS.items() if name.startswith(word)), None)
        tests = [
            (WORDS[pattern], "before", [job for job in jobs if job[0] == pattern]) for pattern in ("read", "write")
        ]
        for words, phase, tried in [*tests, ("filling", "fill", [FILL])]:
            of = shares(figures, name, "plain file", tried, phase)
            if not goal or not of:
                continue
            worst = min(of, key=of.get)
            of_several = f", the worst of {len(of)}" if len(of) > 1 else ""
            title = f"{name}: {words}, share of the plain file{of_several} ({worst[1]}, depth {worst[2]})"
            by_nbdkit = shares(figures, name, "plain file, nbdkit", list(of), phase).values()
            cpu = [figures.speed(which, phase, worst, "cpu_s_per_gb") for which in ("plain file", name)]
            by_cpu = cpu[0] / cpu[1] if all(cpu) else None
            cells = [goal, of[worst], by_cpu, bound_of(figures, name, worst, phase), min(by_nbdkit, default=None)]
            reached = "yes" if of[worst] >= goal else "no"
            rows.append([title, *(number(cell, 2) for cell in cells), reached])
    for name in names:
        for row in figures.of(name, phase="recovery"):
            if "start_s" not in row:
                continue
            gb = row["physical_bytes"] / 1e9
            reached = "yes" if row["start_s"] < RECOVERY_GOAL_S else "no"
            title = f"{name}: start after a kill at {gb:.1f} GB physical, s"
            rows.append([title, f"< {RECOVERY_GOAL_S:.0f}", number(row["start_s"], 2), "", "", "", reached])
    for name in names:
        for row in figures.of(name, phase="trim"):
            factor = (row["rest_bytes"] - SEGMENT) / row["live_bytes"]
            title = f"{name}: files less a segment after nine tenths were trimmed, times the live bytes"
            reached = "yes" if factor <= TRIM_GOAL else "no"
            rows.append([title, f"<= {TRIM_GOAL}", number(factor, 2), "", "", "", reached])
    head = [
        "goal",
        "at least or at most",
        "measured",
        "the same test by CPU time of the servers",
        "plain file with the unavoidable work",
        "beside nbdkit's plain file",
        "reached",
    ]
    return table(head, rows)


def amplification(figures: Figures, names: list[str]) -> list[list[str]]:
    """Returns rows of the bytes that servers of volumes have written for each byte of the client."""

    def of(name: str, *phases: str) -> float | None:
        rows = [row for phase in phases for row in figures.of(name, phase=phase) if "client_bytes" in row]
        client = sum(row["client_bytes"] for row in rows)
        return sum(row["written_bytes"] for row in rows) / client if client else None

    lines = []
    for name in names:
        if rests := figures.of(name, phase="rest"):
            factors = [of(name, "fill"), of(name, "overwrite"), of(name, "overwrite", "after", "rest")]
            sizes = [median(rests, "busy_bytes") / 1e6, median(rests, "rest_bytes") / 1e6]
            lines.append([name, *(number(factor, 2) for factor in factors), *(number(size) for size in sizes)])
    return lines


def write_page(records: Records, path: Path) -> None:
    """Writes the page of all rows."""
    figures = Figures(records)
    names = [name for name in CONTENDERS if figures.of(name)]
    if not names:
        raise RecordsError("no rows of a benchmark")
    run = records.runs[-1]
    host = run["machine"]
    rounds = 1 + max((row.get("round", 0) for row in figures.rows), default=0)
    on_disk = run.get("on_disk", False)
    options = ("--on-disk " if on_disk else "") + (f"--warm {run['warm']} " if run.get("warm") else "")
    command = f"research/bench/volume.py run {options}--size {run['size']} --seconds {run['seconds']} --rounds {rounds}"
    others = any(CONTENDERS[name][0] in ("xfs", "zfs") for name in names)
    behind = "; ZFS and XFS were measured behind them, in one round" if others else ""
    storage = (
        "The files are on a disk. The kernel's caches are dropped before each test, and each test of writes ends with "
        "a sync, whose time counts."
        if on_disk
        else "The files are on a tmpfs, and all servers read through the kernel's page cache."
    )
    warm = "Memory was kept from the host of the virtual machine. " if run.get("warm") else ""
    parts = [
        "# Volumes on a disk beside a plain file\n" if on_disk else "# Volumes beside a plain file and other systems\n",
        table(
            ["", ""],
            [
                ["date", run["date"]],
                ["machine", f"{host['cpu']}, {host['cores']} processors, {host['memory_mib']:,} MiB, {host['system']}"],
                ["commit", run["commit"]],
                ["command", f"`{command}`"],
                ["client", f"{run['fio']}, engine nbd, one connection"],
            ],
        ),
        f"The disks have {run['size'] / 1e9:.2f} GB. "
        f"Plain files and volumes take turns, row by row, while the others stand still{behind}. "
        "Written bytes are random, and half of the requests are copies of others. "
        "Figures are medians of the rounds. Volumes are served by `cutpoint volume serve`, the plain file by the "
        "same server, as it is, and with the work that no volume avoids: a hash of each block that is written, a "
        "checksum of each one that is read, and features of every other block that is written, as of one that "
        "equals no stored block. All others are served by nbdkit's plugins for files. The client is the same "
        "everywhere. CPU time is that of the server, with zfs-fuse where it is behind it; XFS and the kernel are "
        "not counted. "
        f"{storage} {warm}`research/bench/volume.py` has the method.\n",
    ]
    if lines := goals(figures, names):
        parts += ["## Goals\n", lines]
    rows = []
    for name in names:
        fill = figures.of(name, phase="fill")
        after = figures.of(name, phase="after")
        written = median([row for row in fill if "pattern" in row], "bytes_per_s")
        rows.append(
            [
                name,
                number(written and written / 1e6),
                number(median([row for row in fill if "pattern" in row], "cpu_s_per_gb"), 2),
                number(median(fill, "ratio"), 2),
                number((median(fill, "physical_bytes") or 0) / 1e6),
                number(median(after, "ratio"), 2),
                number((median(after, "physical_bytes") or 0) / 1e6),
                number((median(after, "peak_memory_bytes") or 0) / 1e6),
            ]
        )
    head = ["", "fill, MB/s", "CPU s a GB", "ratio", "MB on disk", "ratio at the end", "MB on disk", "peak memory, MB"]
    parts += ["## Space and memory\n", table(head, rows)]
    rows = amplification(figures, names)
    if rows:
        head = ["", "filling", "overwriting", "all writes after the filling", "MB on disk then", "MB after a rest"]
        parts += [
            "## Write amplification\n",
            "Bytes that the server writes to files for each byte that the client writes. The fourth column has the "
            "writes of all rows below, and the cleaning until the server writes nothing.\n",
            table(head, rows),
        ]
    settled = [
        f"{name}: {number(median(figures.of(name, phase='fill'), 'dedupe_wall_s'), 1)} s of wall time, "
        f"{number(median(figures.of(name, phase='fill'), 'dedupe_cpu_s'), 1)} s of CPU time"
        for name in names
        if median(figures.of(name, phase="fill"), "dedupe_cpu_s") is not None
    ]
    if settled:
        parts.append(f"Deduplication afterwards, by duperemove after the filling. {'; '.join(settled)}.\n")
    for phase, title in (("before", "Before overwriting"), ("after", "After overwriting three times")):
        parts.append(f"## {title}\n")
        for metric, words, scale, digits in (
            ("bytes_per_s", "Throughput, MB/s", 1e6, 0),
            ("p50_us", "Latency, p50, µs", 1, 0),
            ("p99_us", "Latency, p99, µs", 1, 0),
            ("cpu_s_per_gb", "CPU seconds of the server a GB", 1, 2),
        ):
            # The work of a volume alone has no latency of interest.
            columns = [name for name in names if CONTENDERS[name][0] != "hashed" or "_us" not in metric]
            rows = []
            for job in JOBS:
                cells = [figures.speed(name, phase, job, metric) for name in columns]
                label = f"{WORDS[job[0]]}, {job[1]}, depth {job[2]}"
                rows.append([label, *(number(cell and cell / scale, digits) for cell in cells)])
            parts += [f"{words}:\n", table(["", *columns], rows)]
    rows = []
    for name in names:
        for group in dict.fromkeys(row["group"] for row in figures.of(name, phase="recovery")):
            of = figures.of(name, phase="recovery", group=group)
            cells = [(median(of, "physical_bytes") or 0) / 1e9, median(of, "start_s"), median(of, "start_cpu_s")]
            memory = median(of, "memory_bytes")
            cells += [median(of, "clean_start_s"), memory and memory / 1e6]
            cells += [value and value * 1e3 for value in (median(of, "snapshot_s"), median(of, "clone_s"))]
            digits = (1, 2, 2, 2, 0, 0, 0)
            rows.append([name, *(number(cell, places) for cell, places in zip(cells, digits, strict=True))])
    if rows:
        head = ["", "GB on disk", "start after a kill, s", "its CPU, s", "start after a stop, s", "memory, MB"]
        head += ["a snapshot, ms", "a clone, ms"]
        parts += [
            "## Recovery, snapshots and clones\n",
            "The kernel's caches are dropped before the start after a kill. A snapshot or clone is a command while "
            f"the volume is served, from its start to its end, the median of {COMMANDS}.\n",
            table(head, rows),
        ]
    rows = []
    for name in names:
        for row in figures.of(name, phase="trim"):
            keys = ("size_bytes", "busy_bytes", "used_bytes", "live_bytes", "rest_bytes")
            rows.append([name, *(number(row[key] / 1e6) for key in keys), number(row["rest_s"])])
    if rows:
        head = [
            "",
            "MB written",
            "MB on disk right after trimming",
            "MB not trimmed",
            "MB live",
            "MB at rest",
            "s to rest",
        ]
        parts += [
            "## Space after trimming\n",
            "Disks are filled with different blocks, of which 576 of each 640 KiB are then trimmed. Live bytes are "
            "those with headers.\n",
            table(head, rows),
        ]
    parts += ["## Published figures of others\n", "Not measured here.\n"]
    lines = [f"| {system} | {figure} | [{name}]({url}) |" for system, figure, name, url in PUBLISHED]
    parts.append("\n".join(["| system | figure | source |", "| --- | --- | --- |", *lines]) + "\n")
    skipped = {name: "not measured" for name in CONTENDERS if name not in names}
    skipped |= {record["set"]: record["reason"] for record in records.skipped if record["set"] not in names}
    if skipped:
        parts.append("Left out: " + "; ".join(f"{name} ({reason})" for name, reason in skipped.items()) + ".\n")
    path.write_text("\n".join(parts), encoding="utf-8")
    print(f"wrote {path}")
