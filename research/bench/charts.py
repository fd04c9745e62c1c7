"""The charts of the benchmark's page, drawn from its tables.

Each is a file of its own, 720 units wide with text of 18, so that it can be read from 400 to 1400 pixels. Colours
follow the reader's scheme, light or dark.
"""

from html import escape

WIDTH, MARGIN, BAR, GAP, FONT = 720, 12, 26, 30, 18
# Where bars begin, and how long the longest is; its label stands behind it.
BARS, LENGTH = 190, 360
OURS = "cutpoint"
STYLE = """
svg { color-scheme: light dark }
text { font: 18px system-ui, -apple-system, "Segoe UI", sans-serif; fill: #1f2328 }
.title { font-weight: 600 } .soft { fill: #59636e } .ours { fill: #0969da } .peer { fill: #8c959f }
.missed { fill: #bc4c00 } .line { stroke: #1f2328; stroke-width: 2 }
@media (prefers-color-scheme: dark) {
  text { fill: #f0f6fc } .soft { fill: #9198a1 } .ours { fill: #4493f8 } .peer { fill: #656c76 }
  .missed { fill: #f0883e } .line { stroke: #f0f6fc }
}
"""
NAMES = {"cutpoint": "Cutpoint", "cutpoint-exact": "without delta chunks", "zstd-3-chain": "zstd -3 chain"}


def tables(markdown):
    """Returns the tables of a page by the heading or bold title before them: lists of rows of cells.

    Of several titles that are the same, the first one counts.
    """
    found, title, rows = {}, "", None
    for line in markdown.splitlines():
        if line.startswith("|"):
            cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
            if rows is None:
                rows = found.setdefault(title, [])
            if not set(line) <= set("|-: "):
                rows.append(cells)
        else:
            rows = None
            if line.startswith(("#", "**")):
                title = line.strip("#* ")
                title = f"another {title}" if title in found else title
    return found


def number(text):
    """Returns the first number of a cell, or None."""
    try:
        return float(text.split()[0].replace(",", ""))
    except (ValueError, IndexError):
        return None


class Chart:
    def __init__(self, title, about):
        self.parts, self.y, self.about = [], 30, about
        for number_, line in enumerate(title.split("\n")):
            self.text(MARGIN, self.y, line, "title" if number_ == 0 else "soft")
            self.y += 26

    def text(self, x, y, words, kind="", anchor="start"):
        self.parts.append(f'<text class="{kind}" x="{x:g}" y="{y:g}" text-anchor="{anchor}">{escape(words)}</text>')

    def group(self, name):
        self.y += GAP
        self.text(MARGIN, self.y, name, "title")
        self.y += 10

    def bar(self, name, share, label, kind):
        length = max(1.0, round(LENGTH * share, 1))
        self.text(BARS - 8, self.y + 19, name, "soft", "end")
        self.parts.append(
            f'<rect class="{kind}" x="{BARS}" y="{self.y + 2:g}" width="{length:g}" height="{BAR - 4}" rx="2"/>'
        )
        self.text(BARS + length + 8, self.y + 19, label)
        self.y += BAR

    def svg(self):
        height = self.y + 16
        head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:g}" width="{WIDTH}" role="img"'
        head += f' aria-label="{escape(self.about, quote=True)}">'
        return "\n".join([head, f"<style>{STYLE}</style>", *self.parts, "</svg>"]) + "\n"


def bars(chart, names, values, unit):
    """Draws a group of bars; each is as long as its value in relation to the largest of the group."""
    largest = max(values.values())
    for name in names:
        if name in values:
            kind = "ours" if name == OURS else "peer"
            digits = 1 if values[name] < 100 else 0
            chart.bar(NAMES.get(name, name), values[name] / largest, f"{values[name]:.{digits}f} {unit}", kind)


def sizes(found, only=None, count=None):
    """Repository sizes by set; of the sets `only`, the first `count` that are there."""
    table = found.get("Repository after the last version, MB")
    if not table:
        return None
    rows = {row[0]: row[1:] for row in table[1:]}
    names = [name for name in rows if not name.startswith("*") and name != "cutpoint-exact"]
    names.sort(key=lambda name: (name == OURS, name.endswith("-chain")))
    chart = Chart(
        "Repository after the last version, MB\nShorter is better; each group has its own scale.",
        "Repository sizes of Cutpoint and other programs in MB",
    )
    columns = {set_: column for column, set_ in enumerate(table[0][1:])}
    for set_ in [set_ for set_ in only or columns if set_ in columns][:count]:
        column = columns[set_]
        values = {name: number(rows[name][column]) for name in names}
        values = {name: value for name, value in values.items() if value}
        if OURS in values and len(values) > 1:
            chart.group(set_)
            bars(chart, names, values, "MB")
    return chart.svg()


def times(found, title, about):
    """Wall times of one table whose columns are cases, in seconds."""
    table = found.get(title)
    if not table:
        return None
    chart = Chart(f"{title}\nShorter is better; each group has its own scale.", about)
    names = [row[0] for row in table[1:]]
    for column, case in enumerate(table[0][1:], 1):
        values = {row[0]: number(row[column]) for row in table[1:]}
        values = {name: value for name, value in values.items() if value}
        if values:
            chart.group(case)
            bars(chart, names, values, "s")
    return chart.svg()


def goals(found):
    """Each line of the main table in relation to its goal."""
    rows = [row for row in found.get("Goals", [])[1:] if number(row[-2]) is not None]
    if not rows:
        return None
    chart = Chart(
        "Measured / goal\nA bar that ends at or before its mark reaches the goal.",
        "Each measured figure of Cutpoint in relation to its goal",
    )
    # Above three times the goal, a bar is cut.
    length_max, cut = WIDTH - 2 * MARGIN - 60, 3
    goal = round(MARGIN + length_max / cut, 1)
    for row in rows:
        value = number(row[-2])
        chart.y += 30
        for words in wrapped(row[0], 62):
            chart.text(MARGIN, chart.y, words)
            chart.y += 22
        chart.y -= 14
        length = max(1.0, round(length_max * min(value, cut) / cut, 1))
        kind = "ours" if value <= 1 else "missed"
        chart.parts.append(
            f'<rect class="{kind}" x="{MARGIN}" y="{chart.y:g}" width="{length:g}" height="16" rx="2"/>'
            f'<line class="line" x1="{goal:g}" y1="{chart.y - 4:g}" x2="{goal:g}" y2="{chart.y + 20:g}"/>'
        )
        # Behind the mark of the goal, or the bar.
        label = MARGIN + length if abs(MARGIN + length - goal) > 60 or value > 1 else goal
        chart.text(label + 8, chart.y + 14, f"{value:.2f}")
        chart.y += 16
    return chart.svg()


def wrapped(text, width):
    line = ""
    for word in text.split():
        if line and len(line) + 1 + len(word) > width:
            yield line
            line = ""
        line = f"{line} {word}".strip()
    if line:
        yield line


# The sets of the picture of README.md, the most telling first.
README_SETS = ("CODE", "WEB", "RDS", "SQLITE", "CODETAR", "JS", "PG")
COLD = "Small files with cold caches, wall s"
FAR = "Random bytes over S3 with 30 ms, wall s"


def draw(markdown):
    """Returns the charts of a page by the names of their files."""
    found = tables(markdown)
    made = {
        "benchmark-goals.svg": goals(found),
        "sizes.svg": sizes(found, README_SETS, 4),
        "benchmark-sizes.svg": sizes(found),
        "benchmark-cold.svg": times(found, COLD, "Wall times of backups and restores of many small files"),
        "benchmark-far.svg": times(found, FAR, "Wall times of a backup and a restore over S3"),
    }
    return {name: svg for name, svg in made.items() if svg}
