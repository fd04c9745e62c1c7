"""The lines of the benchmark's table: what Cutpoint and its peers measured, the goal, and whether it is reached."""

import collections
import math
import statistics
from dataclasses import dataclass, field
from functools import partial

OURS = "cutpoint"
EXACT = "cutpoint-exact"
# Goals of wall times hold for these amounts of data only.
FAR_SET, COLD_SET, DELAYED_SET = "random1024", "files200000", "files20000"
CHAIN = "zstd-3-chain"
READERS = "32 readers"


class Figures:
    """Medians of the rounds, of rows of one run or several."""

    def __init__(self, rows):
        self.rows = [row for row in rows if "error" not in row]

    def of(self, group):
        return [row for row in self.rows if row["group"] == group and row["set"] != "ONE"]

    def sets(self, group):
        return list(dict.fromkeys(row["set"] for row in self.of(group)))

    def tools(self, group):
        return list(dict.fromkeys(row["tool"] for row in self.of(group)))

    def median(self, group, set_, tool, step, key, how=sum):
        """Returns the median of what `how` makes of each round's rows, or None if there are none."""
        rounds, counts = {}, collections.Counter()
        for row in self.of(group):
            if (row["set"], row["step"]) == (set_, step):
                counts[row["tool"], row["round"]] += 1
                if row["tool"] == tool and key in row:
                    rounds.setdefault(row["round"], []).append(row[key])
        # A tool that failed has fewer versions than others.
        count = max(counts.values(), default=0)
        values = [how(values) for values in rounds.values() if len(values) == count]
        return statistics.median(values) if values else None

    def size(self, group, set_, tool):
        """Returns the bytes of a repository after the last version."""
        step = "later" if self.is_versioned(group, set_) else "first"
        return self.median(group, set_, tool, step, "repo_bytes", max)

    def is_versioned(self, group, set_):
        return any(row["set"] == set_ and row["step"] == "later" for row in self.of(group))


@dataclass
class Line:
    name: str
    goal: str
    # Texts by tool.
    texts: dict = field(default_factory=dict)
    # Pairs of a value of ours and its limit.
    parts: list = field(default_factory=list)

    def of_goal(self):
        """Returns the largest value in relation to its limit: above 1, the goal is missed."""
        return max((value / limit for value, limit in self.parts), default=None)


def mean(values):
    return math.exp(sum(map(math.log, values)) / len(values))


def ratios(sets, value, base):
    """Returns the ratios of `value(set)` to `base(set)` by set, where both are there."""
    found = {}
    for set_ in sets:
        above, below = value(set_), base(set_)
        if above and below:
            found[set_] = above / below
    return found


def spread(found):
    """Returns a text: the geometric mean, and the sets with the smallest and the largest ratio."""
    if len(found) == 1:
        return f"{next(iter(found.values())):.2f} ({next(iter(found))})"
    low, high = min(found, key=found.get), max(found, key=found.get)
    return f"{mean(found.values()):.2f} ({found[low]:.2f} {low} to {found[high]:.2f} {high})"


def each(found):
    return ", ".join(f"{set_} {ratio:.2f}" for set_, ratio in found.items())


def factor(found):
    return f"{next(iter(found.values())):.2f}"


def comparison(figures, line, group, value, base, text, limits):
    """Fills a line with the ratios of all tools of a group. `limits` makes pairs of the ratios of ours."""
    sets = figures.sets(group)
    for tool in figures.tools(group):
        found = ratios(sets, partial(value, tool=tool), base)
        if found:
            line.texts[tool] = text(found)
            if tool == OURS:
                line.parts = limits(found)
    return line


def seconds(figures, group, step, name, limit, scale):
    """Returns a line of wall times. `limit` holds only for the set `scale`."""
    line = Line(name, f"at most {limit:g} s")
    for set_ in figures.sets(group):
        for tool in figures.tools(group):
            value = figures.median(group, set_, tool, step, "wall")
            if value is not None:
                line.texts[tool] = f"{value:.2f} s"
                if tool == OURS and set_ == scale:
                    line.parts.append((value, limit))
    return line


def far_lines(figures):
    restore = seconds(figures, "far", "restore", "restore of 1 GiB of random bytes, S3 with 30 ms", 4, FAR_SET)
    restore.goal += "; 0.8 of the rate of 16 plain requests"
    for set_ in figures.sets("far"):
        plain = figures.median("far", set_, "plain requests", "restore", "wall")
        ours = figures.median("far", set_, OURS, "restore", "wall")
        if plain and ours:
            restore.texts[OURS] += f" (plain requests {plain:.2f} s)"
        if plain and ours and set_ == FAR_SET:
            restore.parts.append((ours, plain / 0.8))
    return [
        restore,
        seconds(figures, "far", "first", "first backup of 1 GiB of random bytes, S3 with 30 ms", 6, FAR_SET),
    ]


def cold_lines(figures):
    names = {
        "first": "first backup of 200,000 small files, cold",
        "unchanged": "unchanged backup of 200,000 small files, cold",
    }
    limits = {"first": 6, "unchanged": 1.2, "restore": 3.5}
    names["restore"] = "restore of 200,000 small files, cold"
    return [seconds(figures, "cold", step, names[step], limit, COLD_SET) for step, limit in limits.items()]


def worst(limit):
    """Returns a function that judges the largest of the ratios."""
    return lambda found: [(max(found.values()), limit)]


def worst_at_scale(limit):
    return lambda found: [(found[DELAYED_SET], limit)] if DELAYED_SET in found else []


def mean_and_worst(mean_limit, limit):
    return lambda found: [(mean(found.values()), mean_limit), *worst(limit)(found)]


def delayed_lines(figures):
    made = []
    for step, name in (("first", "first backup"), ("unchanged", "unchanged backup")):
        goal = "at most 1.5 times 32 plain readers"
        line = Line(f"{name}, file system with 1 ms an operation, beside 32 readers", goal)
        wall = partial(figures.median, "delayed", step=step, key="wall")
        made.append(
            comparison(figures, line, "delayed", wall, partial(wall, tool=READERS), factor, worst_at_scale(1.5))
        )
    return made


def sizes_lines(figures):
    def size(set_, tool):
        return figures.size("sizes", set_, tool) if figures.is_versioned("sizes", set_) else None

    judged, goal = mean_and_worst(1, 1.25), "mean at most 1.0, none above 1.25"
    chain = Line("size beside a chain of zstd -3 --patch-from", goal)
    chain = comparison(figures, chain, "sizes", size, partial(size, tool=CHAIN), spread, judged)
    cpu = Line("CPU time of later versions, with delta chunks / without", goal)
    later_cpu = partial(figures.median, "sizes", step="later", key="cpu")
    cpu = comparison(figures, cpu, "sizes", later_cpu, partial(later_cpu, tool=EXACT), spread, judged)
    for line in (chain, cpu):
        line.texts.pop(CHAIN, None)
    return [chain, cpu]


def max_lines(figures):
    line = Line("--mode max, optimized, beside a chain of zstd -19 --patch-from", "at most 0.95 on eight sets")
    best = partial(figures.median, "max", tool="cutpoint-max", step="optimize", key="repo_bytes")
    found = ratios(figures.sets("max"), best, partial(figures.size, "max", tool="zstd-19-chain"))
    if found:
        line.texts[OURS] = spread(found)
        line.parts = [(sorted(found.values())[:8][-1], 0.95)]
    return [line]


def adversarial_lines(figures):
    line = Line("CPU time of later versions of adversarial inputs, with delta chunks / without", "at most 2")
    later_cpu = partial(figures.median, "adversarial", step="later", key="cpu")
    return [comparison(figures, line, "adversarial", later_cpu, partial(later_cpu, tool=EXACT), each, worst(2))]


def one_run_lines(figures):
    line = Line("all versions of a set in one run, size beside ours of successive versions", "at most 1.15")
    size, in_order = partial(figures.size, "one-run"), partial(figures.size, "sizes", tool=OURS)
    return [comparison(figures, line, "one-run", size, in_order, each, worst(1.15))]


def newest_lines(figures):
    line = Line("restore of the newest of 50 versions, CPU time a byte beside the second", "at most 1.5")
    found = {}
    for set_ in figures.sets("newest"):
        rates = {}
        for row in figures.of("newest"):
            if row["set"] == set_:
                rates.setdefault(row["versions"], []).append(row["newest_cpu"] / row["newest_bytes"])
        if len(rates) > 1:
            found[set_] = statistics.median(rates[max(rates)]) / statistics.median(rates[min(rates)])
    if found:
        line.texts[OURS] = each(found)
        line.parts = [(max(found.values()), 1.5)]
    return [line]


def lines(figures):
    """Returns all lines, in the order of the page."""
    makers = (far_lines, cold_lines, delayed_lines, sizes_lines, adversarial_lines, one_run_lines)
    return [line for maker in (*makers, max_lines, newest_lines) for line in maker(figures)]
