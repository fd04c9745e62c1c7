"""The charts of the book, drawn from the tables of the benchmark's page when the book is built.

Each has a panel behind it, because the theme of the book need not be that of the reader's system.
"""

import statistics

import charts

# Sets of different kinds, among them one on which nothing can be gained.
SETS = ("CODE", "WEB", "SQLITE", "SQLDUMP", "PG", "VM", "RAND")
TOOLS = ("restic", "rustic", "bupstash", "borg", "cutpoint")
PANEL = ".panel { fill: #f6f8fa } @media (prefers-color-scheme: dark) { .panel { fill: #161b22 } }"
SIZES = "Repository after the last version, MB"
FIRST = "First backup, CPU s"
LATER = "All later versions, CPU s"
MEMORY = "Peak memory of a backup, MB (largest process)"


class MissingTableError(Exception):
    """The benchmark's page lacks a table."""


def rows(found, title):
    """Returns a table as a dictionary of tools, each with its numbers by the name of the column."""
    table = found.get(title)
    if not table:
        raise MissingTableError(f"benchmark.md has no table {title!r}")
    return {row[0]: dict(zip(table[0][1:], map(charts.number, row[1:]), strict=True)) for row in table[1:]}


def with_panel(svg):
    """Returns a chart with a panel behind it."""
    return svg.replace("</style>", PANEL + '</style>\n<rect class="panel" width="100%" height="100%" rx="8"/>', 1)


def grouped(found, title, heading, about, unit, sets=SETS):
    """Draws a group of bars for each set."""
    numbers = rows(found, title)
    chart = charts.Chart(f"{heading}\nShorter is better; each group has its own scale.", about)
    for set_ in sets:
        values = {tool: numbers[tool].get(set_) for tool in TOOLS if tool in numbers}
        values = {tool: value for tool, value in values.items() if value}
        if values:
            chart.group(set_)
            charts.bars(chart, TOOLS, values, unit)
    return with_panel(chart.svg())


def cpu(found):
    """Draws the CPU time of first backups and of all later ones, each added up over all versioned sets."""
    chart = charts.Chart(
        "CPU time of backups, s\nAdded up over all versioned sets. Shorter is better.",
        "CPU time of first and later backups of Cutpoint and other programs",
    )
    for title, name in ((FIRST, "first versions"), (LATER, "all later versions")):
        numbers = rows(found, title)
        sums = {tool: sum(filter(None, numbers[tool].values())) for tool in TOOLS if tool in numbers}
        chart.group(name)
        charts.bars(chart, TOOLS, sums, "s")
    return with_panel(chart.svg())


def memory(found):
    """Draws the peak memory of backups, the median of all sets."""
    numbers = rows(found, MEMORY)
    medians = {tool: statistics.median(filter(None, numbers[tool].values())) for tool in TOOLS if tool in numbers}
    chart = charts.Chart(
        "Peak memory of a backup, MB\nThe median of all versioned sets. Shorter is better.",
        "Peak memory of backups by Cutpoint and other programs",
    )
    chart.y += charts.GAP // 2
    charts.bars(chart, TOOLS, medians, "MB")
    return with_panel(chart.svg())


def times(found, title, heading, about):
    """Draws the wall times of a table whose columns are cases."""
    numbers = rows(found, title)
    chart = charts.Chart(f"{heading}\nShorter is better; each group has its own scale.", about)
    for case in next(iter(numbers.values())):
        chart.group(case)
        charts.bars(chart, TOOLS, {tool: numbers[tool][case] for tool in TOOLS if tool in numbers}, "s")
    return with_panel(chart.svg())


def draw(markdown):
    """Returns the charts of the book by the names of their files."""
    found = charts.tables(markdown)
    return {
        "sizes.svg": grouped(found, SIZES, SIZES, "Repository sizes of Cutpoint and other programs", "MB"),
        "cpu.svg": cpu(found),
        "memory.svg": memory(found),
        "small-files.svg": times(
            found,
            charts.COLD,
            "Many small files on a disk, cold caches, wall s",
            "Wall times of backups and restores of many small files",
        ),
        "far.svg": times(
            found, charts.FAR, "Random bytes over S3 with 30 ms, wall s", "Wall times of a backup and a restore over S3"
        ),
    }


def write(markdown, folder):
    """Writes the charts into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, svg in draw(markdown).items():
        (folder / name).write_text(svg, encoding="utf-8")
