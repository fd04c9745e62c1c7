"""The page of the benchmark, its charts, and the table of README.md that follows from it."""

import statistics
from pathlib import Path

import charts
import lines
from groups import GROUPS, base_of
from records import is_once
from stage import ROOT
from tables import tables as step_tables
from tools import KINDS

RESULTS = ROOT / "research" / "results"
NAME = "benchmark.md"
BOUNDS = Path(__file__).with_name("bounds.md")
BEGIN, END = "<!-- benchmark: written by `research/bench/tool page` -->", "<!-- end of benchmark -->"
# The sets that README.md shows, and their descriptions.
README_SETS = {
    "CODE": "source code (CODE): Kubernetes 1.33 to 1.36",
    "CODETAR": "source code as tars (CODETAR): Kubernetes 1.33 to 1.36",
    "WEB": "web pages (WEB): javadoc of six projects",
    "JS": "a bundled JavaScript package (JS)",
    "RDS": "Redis dumps (RDS)",
    "SQLITE": "SQLite database (SQLITE)",
    "PG": "PostgreSQL data folder (PG)",
    "SQLDUMP": "PostgreSQL dump (SQLDUMP)",
    "RAND": "random bytes (RAND)",
}
SIZE_TABLE = "Repository after the last version, MB"
SIZE_TABLES = (
    SIZE_TABLE,
    "Logical bytes / repository bytes (higher is better)",
    "First backup, CPU s",
    "First backup, wall s",
    "All later versions, CPU s",
    "All later versions, wall s",
    "Unchanged backup, wall s",
    "Restore of the last version, CPU s",
    "Restore of the last version, wall s",
    "Check with all data, CPU s",
    "Peak memory of a backup, MB (largest process)",
)
SETS_TABLE = "Sets"
RUN_TABLE = "Run"
PROGRAMS_TABLE = "Programs"


README = """{begin}
![Bars: repository sizes of Cutpoint and other programs](research/results/sizes.svg)

Repository size in MB (10^6 bytes) after all versions were backed up, one after the other, with the defaults of all
programs, all encrypted. Source code and web pages are real releases; the databases and dumps come from scripted load.
[Data sets](research/datasets/README.md) explains the names in capitals.

{table}

{restic}, Cutpoint at commit {commit}, {date}, by [`research/bench/tool run`](research/bench/README.md).
[All figures](research/results/benchmark.md) of this run: other programs, CPU time, memory, restores, small files and
S3, beside goals.
{end}"""


class PageError(Exception):
    pass


def table(head, rows, numbers=True):
    side = "---:" if numbers else "---"
    text = [f"| {' | '.join(head)} |", "| --- |" + f" {side} |" * (len(head) - 1)]
    return "\n".join(text + [f"| {' | '.join(row)} |" for row in rows])


def in_order(names):
    """Sorts tools: ours, its other forms, the peers, all others."""
    return sorted(names, key=lambda name: list(KINDS).index(name) if name in KINDS else len(KINDS))


def sentence(text):
    return f"{text[0].upper()}{text[1:]}."


def amount(set_):
    """Returns the name of a set of files or random bytes as a reader's text."""
    for prefix, unit in (("files", "files"), ("random", "MiB")):
        if set_.startswith(prefix) and set_.removeprefix(prefix).isdigit():
            return f"{int(set_.removeprefix(prefix)):,} {unit}"
    return set_


def shown(value, digits=2):
    return "" if value is None else f"{value:.{digits}f}"


def merged_run(runs):
    """Returns the facts of several runs as those of one: programs and commands of all, the rest of the last."""
    commands = list(dict.fromkeys(f"`{run['command']}`" for run in runs))
    starts = [run["started"] for run in runs]
    dates = sorted({min(starts), max(starts)})
    tools = {name: version for run in runs for name, version in run["tools"].items()}
    missing = [name for name in runs[-1]["missing"] if name not in tools]
    return runs[-1] | {
        "started": " to ".join(dates),
        "commit": ", ".join(dict.fromkeys(f"{run['commit']} (program {run['program']})" for run in runs)),
        "command": "<br>".join(commands),
        "tools": tools,
        "missing": missing,
        "missing_sets": {group: sets for run in runs for group, sets in run["missing_sets"].items()},
        "planned": {group: sets for run in runs for group, sets in run["planned"].items()},
    }


def read_bounds():
    """Returns the text of each section of bounds.md by its heading, which is the name of a line."""
    sections = BOUNDS.read_text(encoding="utf-8").split("\n## ")[1:]
    parts = [section.partition("\n") for section in sections]
    return {name.strip(): " ".join(text.split()) for name, _, text in parts}


class Page:
    def __init__(self, records):
        self.records, self.run = records, merged_run(records.runs)
        self.figures = lines.Figures(records.rows)
        self.parts = []

    def add(self, *parts):
        self.parts += parts

    def text(self):
        self.head()
        self.goals()
        for group, section in (
            ("sizes", self.sizes),
            ("max", self.smallest),
            ("adversarial", self.adversarial),
            ("one-run", self.one_run),
            ("newest", self.newest),
            ("cold", self.cold),
            ("delayed", self.delayed),
            ("far", self.far),
        ):
            if self.figures.of(group):
                self.add(f"## {GROUPS[group].title}", sentence(GROUPS[group].about))
                section()
        self.left_out()
        return "\n\n".join(self.parts) + "\n"

    def loads(self):
        """Returns the load average in the median of each group of rows."""
        loads = {}
        for row in self.records.rows:
            if "load" in row:
                loads.setdefault(row["group"], []).append(row["load"])
        return {name: statistics.median(loads[name]) for name in GROUPS if name in loads}

    def head(self):
        run = self.run
        machine = run["machine"]
        loads = self.loads()
        rounds = {(row["group"], row["round"]) for row in self.records.rows if not is_once(row["round"])}
        counts = {name: len({round_ for group, round_ in rounds if group == name}) for name in GROUPS}
        self.add(
            "# Benchmark",
            "Cutpoint beside other backup programs, and beside its goals. Written by `research/bench/tool`; "
            "[bench](../bench/README.md) says how each row is measured, [datasets](../datasets/README.md) explains the "
            "names in capitals.",
            "## " + RUN_TABLE,
        )
        facts = {
            "date": run["started"],
            "machine": f"{machine['cpu']}, {machine['cores']} cores, {machine['memory_mib']} MiB, kernel "
            f"{machine['kernel']}, {machine['system']}",
            "load average": f"on {machine['cores']} cores, with the programs that are measured, in the median: "
            + (", ".join(f"{name} {load:.1f}" for name, load in loads.items()) or "not recorded"),
            "commit": run["commit"],
            "command": run["command"],
            "rounds": ", ".join(f"{name} {count}" for name, count in counts.items() if count),
            "conditions": f"repositories on {machine['repository_on']}, cold caches on {machine['disk']}; sources in "
            "the page cache through one path; medians of the rounds",
        }
        self.add(table(["", ""], [[name, value] for name, value in facts.items()], numbers=False))
        if busy := [f"`{name}`" for name, load in loads.items() if load > machine["cores"]]:
            self.add(
                f"**The machine was busy with other work** during {', '.join(busy)}. Sizes do not depend on that, CPU "
                "times by up to a third; wall times and goals in seconds mean little. Ratios are of tools that took "
                "turns."
            )
        programs = [[name, text] for name, text in run["tools"].items() if name in ("cutpoint", *self.peers())]
        self.add(f"**{PROGRAMS_TABLE}**", table(["tool", "version"], programs, numbers=False))

    def peers(self):
        return [name for name in in_order(self.run["tools"]) if not name.startswith("cutpoint")]

    def goals(self):
        found = lines.lines(self.figures)
        peers = [name for name in self.peers() if any(name in line.texts for line in found)]
        rows = []
        for line in found:
            value = line.of_goal()
            verdict = "" if value is None else "reached" if value <= 1 else "**missed**"
            ours = line.texts.get(lines.OURS, "not measured")
            cells = [line.name, ours, *(line.texts.get(name, "") for name in peers), line.goal, shown(value), verdict]
            rows.append(cells)
        self.add("## Goals", "![Each figure in relation to its goal](benchmark-goals.svg)")
        self.add(table(["", "Cutpoint", *peers, "goal", "measured / goal", ""], rows, numbers=False))
        self.add(
            "Of ratios by set, the geometric mean is given, with the smallest and the largest. Goals of wall "
            "times are of 200,000 files (20,000 with a delay) and 1 GiB on a quiet machine, and are judged at those "
            "sizes only."
        )

        bounds = read_bounds()
        missed = [line.name for line in found if (line.of_goal() or 0) > 1 and line.name in bounds]
        if missed:
            self.add(
                "**Bounds.** The cause of each missed goal:",
                "\n".join(f"- *{name}*: {bounds[name]}" for name in missed),
            )

    def step_rows(self, group):
        """Returns the rows of a group with the CPU time above the start of the tool."""
        base = base_of(self.records.rows)
        rows = [dict(row) for row in self.records.rows if row["group"] == group]
        for row in rows:
            if row["tool"] in base and "cpu" in row:
                row["cpu_net"] = row["cpu"] - base[row["tool"]]
        return rows

    def steps(self, group, titles):
        rows = self.step_rows(group)
        text = step_tables({"rows": rows}, titles).strip()
        self.add(text)
        failed = [row for row in rows if "error" in row]
        if failed:
            self.add(
                "Failed:", "\n".join(f"- {row['tool']} {row['set']} {row['step']}: {row['error']}" for row in failed)
            )

    def sizes(self):
        rows = []
        for set_ in self.figures.sets("sizes"):
            of_set = [
                row for row in self.figures.of("sizes") if row["set"] == set_ and row["step"] in ("first", "later")
            ]
            logical = {row["version"]: row["logical"] for row in of_set if "logical" in row}
            files = max((row["files"] for row in of_set if "files" in row), default=0)
            rows.append([set_, str(len(logical)), f"{files:,}", f"{sum(logical.values()) / 1e6:.0f}"])
        self.add(
            "![Repository sizes](benchmark-sizes.svg)",
            f"**{SETS_TABLE}**",
            table(["set", "versions", "files in the last", "MB"], rows),
        )
        self.add(
            "`cutpoint-exact` is `init --delta off`. `zstd-3-chain` compresses the tar of each version against that of "
            "the one before (`zstd -3 --long=31 --patch-from`, one thread a patch); each was decoded and compared."
        )
        self.steps("sizes", SIZE_TABLES)

    def smallest(self):
        rows = []
        for set_ in self.figures.sets("max"):
            chain = self.figures.size("max", set_, "zstd-19-chain")
            ours = self.figures.size("max", set_, "cutpoint-max")
            best = self.figures.median("max", set_, "cutpoint-max", "optimize", "repo_bytes")
            cpu = [
                sum(self.figures.median("max", set_, tool, step, "cpu") or 0 for step in ("first", "later", "optimize"))
                for tool in ("zstd-19-chain", "cutpoint-max")
            ]
            sizes = [shown(value and value / 1e6) for value in (chain, ours, best)]
            ratio = shown(best / chain if best and chain else None)
            count = len({row["version"] for row in self.figures.of("max") if row["set"] == set_})
            rows.append([set_, str(count), *sizes, ratio, f"{cpu[0]:.1f}", f"{cpu[1]:.1f}"])
        head = [
            "set",
            "versions",
            "chain of zstd -19, MB",
            "`--mode max`, MB",
            "then `optimize`, MB",
            "optimized / chain",
        ]
        self.add(table([*head, "chain, CPU s", "Cutpoint with optimize, CPU s"], rows))

    def adversarial(self):
        self.steps("adversarial", (SIZE_TABLE, "First backup, CPU s", "All later versions, CPU s"))

    def one_run(self):
        in_order_ = [self.figures.size("sizes", set_, lines.OURS) for set_ in self.figures.sets("one-run")]
        if any(in_order_):
            sets = zip(self.figures.sets("one-run"), in_order_, strict=True)
            texts = [f"{set_} {value / 1e6:.1f} MB" for set_, value in sets if value]
            self.add(f"The same versions one after another, by Cutpoint: {', '.join(texts)}.")
        titles = (SIZE_TABLE, "First backup, CPU s", "Restore of the last version, CPU s")
        self.steps("one-run", (*titles, "Peak memory of a backup, MB (largest process)"))

    def newest(self):
        rows = []
        for set_ in self.figures.sets("newest"):
            of_set = [row for row in self.figures.of("newest") if row["set"] == set_]
            for count in sorted({row["versions"] for row in of_set}):
                some = [row for row in of_set if row["versions"] == count]
                keys = ("newest_bytes", "repo_bytes", "newest_cpu", "first_cpu")
                length, stored, newest, first = (statistics.median(row[key] for row in some) for key in keys)
                rate = f"{1e9 * newest / length:.2f}"
                rows.append(
                    [set_, str(count), f"{length / 1e6:.1f}", f"{stored / 1e6:.1f}", shown(newest), rate, shown(first)]
                )
        head = ["set", "versions", "MB of the newest", "repository, MB", "restore of the newest, CPU s"]
        self.add(table([*head, "the same, ns a byte", "restore of the first, CPU s"], rows))

    def cases(self, group, cases, title, keys):
        """Adds a table of wall times, which may be drawn, and one of each other figure."""
        tools = in_order(self.figures.tools(group))
        for set_ in self.figures.sets(group):
            for key, name, scale, digits in keys:
                rows = []
                for tool in tools:
                    values = [self.figures.median(group, set_, tool, case, key, max) for case in cases]
                    if any(value is not None for value in values):
                        rows.append([tool, *(shown(value and value / scale, digits) for value in values)])
                self.add(f"**{title}, {name}**", table(["", *(f"{case}, {amount(set_)}" for case in cases)], rows))

    COSTS = (("wall", "wall s", 1, 2), ("cpu", "CPU s", 1, 2), ("rss", "MiB", 1 << 20, 0))

    def cold(self):
        self.add("![Wall times of small files](benchmark-cold.svg)")
        self.cases("cold", ("first", "unchanged", "restore"), charts.COLD.removesuffix(", wall s"), self.COSTS)

    def delayed(self):
        self.cases("delayed", ("first", "unchanged"), "Small files with 1 ms an operation", self.COSTS)

    def far(self):
        self.add("![Wall times over S3](benchmark-far.svg)")
        keys = (*self.COSTS, ("requests", "requests", 1, 0))
        self.cases("far", ("first", "restore"), charts.FAR.removesuffix(", wall s"), keys)

    def left_out(self):
        missing = []
        if self.run["missing"]:
            missing.append(f"- Programs that were not found: {', '.join(self.run['missing'])}")
        for group, sets in self.run["missing_sets"].items():
            absent = [name for name in sets if name not in self.figures.sets(group)]
            missing += [f"- Sets of `{group}`: {', '.join(absent)}"] if absent else []
        skipped = {
            (record["group"], record["set"], record["reason"])
            for record in self.records.skipped
            if record["set"] not in self.figures.sets(record["group"])
        }
        missing += [f"- {group} {set_}: {reason}" for group, set_, reason in sorted(skipped)]
        known = {(group, set_) for group, set_, _ in skipped}
        for group, sets in self.run["planned"].items():
            absent = [name for name in sets if (group, name) not in known and name not in self.figures.sets(group)]
            missing += (
                [f"- Not reached before the run was stopped, of `{group}`: {', '.join(absent)}"] if absent else []
            )
        missing += [f"- Group `{name}`" for name in GROUPS if not self.figures.of(name)]
        if missing:
            self.add("## Not measured", "\n".join(missing))


def readme_table(markdown):
    """Returns what README.md shows of a page: the picture and a table of sizes."""
    found = charts.tables(markdown)
    sizes, sets = found.get(SIZE_TABLE), found.get(SETS_TABLE)
    if not sizes or not sets:
        return None
    facts = {row[0]: row[1:] for row in sets[1:]}
    stored = {row[0]: dict(zip(sizes[0][1:], row[1:], strict=True)) for row in sizes[1:]}
    peer = next((name for name in stored if name.startswith("restic")), None)
    run = {row[0]: row[1] for row in found[RUN_TABLE]}
    programs = {row[0]: row[1] for row in found[PROGRAMS_TABLE]}
    rows = []
    for set_, about in README_SETS.items():
        if set_ in facts and stored["cutpoint"].get(set_) and peer and stored[peer].get(set_):
            theirs, ours = (float(stored[name][set_]) for name in (peer, "cutpoint"))
            rows.append([about, facts[set_][0], facts[set_][2], f"{theirs:.1f}", f"{ours:.1f}", f"{theirs / ours:.1f}"])
    if not rows:
        return None
    head = ["data", "versions", "input", "restic", "Cutpoint", "restic / Cutpoint"]
    commit = " and ".join(each.split(" (")[0] for each in run["commit"].split(", "))
    restic = " ".join(programs.get(peer, peer).split()[:2])
    return README.format(begin=BEGIN, end=END, table=table(head, rows), restic=restic, commit=commit, date=run["date"])


def readme_with(readme, markdown):
    """Returns the text of README.md with the table of a page between its marks."""
    before, begin, rest = readme.partition(BEGIN)
    _, end, after = rest.partition(END)
    written = readme_table(markdown)
    if not begin or not end or not written:
        return readme
    return before + written + after


def write(records, folder):
    if not records.runs:
        raise PageError("no rows of a benchmark")
    markdown = Page(records).text()
    folder.mkdir(parents=True, exist_ok=True)
    (folder / NAME).write_text(markdown, encoding="utf-8")
    for name, svg in charts.draw(markdown).items():
        (folder / name).write_text(svg, encoding="utf-8")
    if folder == RESULTS:
        readme = ROOT / "README.md"
        readme.write_text(readme_with(readme.read_text(encoding="utf-8"), markdown), encoding="utf-8")


def check(folder=RESULTS, readme=ROOT / "README.md"):
    """Returns 1 if a chart, or the table of README.md, is not the page's."""
    path = Path(folder) / NAME
    markdown = path.read_text(encoding="utf-8")
    differ = [
        name
        for name, svg in charts.draw(markdown).items()
        if not (folder / name).is_file() or (folder / name).read_text(encoding="utf-8") != svg
    ]
    text = readme.read_text(encoding="utf-8")
    if readme_with(text, markdown) != text:
        differ.append(readme.name)
    for name in differ:
        print(f"{name} is not what `research/bench/tool page` writes of {path}")
    return 1 if differ else 0
