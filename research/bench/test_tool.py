#!/usr/bin/env python3
"""Tests of the benchmark's rows, page and charts, without measuring: `python3 research/bench/test_tool.py`."""

import contextlib
import io
import json
import random
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree as ElementTree
from pathlib import Path

sys.dont_write_bytecode = True
HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "peers"), str(HERE.parent / "scale")]
import benchmark  # noqa: E402
import book_charts  # noqa: E402
import charts  # noqa: E402
import lines  # noqa: E402
import page  # noqa: E402
import stages  # noqa: E402
from chain import Chain  # noqa: E402
from records import Records, RecordsError, merged  # noqa: E402

MACHINE = {"cpu": "a processor", "cores": 2, "memory_mib": 1024, "kernel": "6", "system": "a system"}
RUN = {
    "started": "2026-01-02 03:04",
    "commit": "abcdef",
    "program": "012345",
    "command": "research/bench/tool run",
    "size": "medium",
    "rounds": 2,
    "machine": MACHINE | {"repository_on": "tmpfs", "disk": "ext4"},
    "tools": {"cutpoint": "cutpoint 1", "cutpoint-exact": "cutpoint 1", "restic": "restic 2"},
    "missing": ["rustic"],
    "missing_sets": {"sizes": ["VM"]},
    "planned": {"sizes": ["CODE", "WEB", "PG"]},
}


def step(tool, step_, version, **figures):
    costs = {"wall": 1.0, "user": 1.0, "sys": 0.0, "cpu": 1.0, "rss": 1 << 20, "logical": 100_000_000, "files": 3}
    return {"tool": tool, "step": step_, "version": version, "load": 0.5, "repo_files": 1} | costs | figures


def versions(tool, first, last, later_cpu):
    """Returns the rows of a first and a later version."""
    return [
        step(tool, "first", "v01", repo_bytes=first * 1_000_000),
        step(tool, "later", "v02", repo_bytes=last * 1_000_000, cpu=later_cpu),
    ]


def measured(path):
    """Fills a file with the rows of two sets, and of the other groups; returns its records."""
    records = Records(path)
    records.start(RUN)
    for round_, faster in ((1, 1.0), (2, 3.0)):
        records.add(
            ("sizes", "CODE", round_),
            [
                *versions("cutpoint", 10, 20, faster * 3),
                *versions("cutpoint-exact", 20, 40, 4.0),
                *versions("restic", 25, 60, 8.0),
            ],
        )
    records.add(("sizes", "CODE", 0), versions("zstd-3-chain", 12, 25, 1.0))
    records.add(("sizes", "WEB", 1), [*versions("cutpoint", 10, 30, 1.0), *versions("cutpoint-exact", 10, 30, 1.0)])
    records.add(("sizes", "WEB", 0), versions("zstd-3-chain", 12, 20, 1.0))
    seconds = (("cutpoint", 5.0), ("restic", 18.0), ("32 readers", 3.0))
    records.add(("cold", "files200000", 1), [step(tool, "first", "", wall=wall) for tool, wall in seconds])
    records.add(("cold", "files2000", 1), [step("cutpoint", "unchanged", "", wall=100.0)])
    return records


class Rows(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = Path(folder.name, "rows.jsonl")

    def test_rows_of_unit_without_end_are_dropped(self):
        records = Records(self.path)
        records.start(RUN)
        records.add(("sizes", "CODE", 1), [{"tool": "cutpoint"}])

        def stopped():
            yield {"tool": "restic"}
            raise KeyboardInterrupt

        with self.assertRaises(KeyboardInterrupt):
            records.add(("sizes", "WEB", 1), stopped())
        again = Records(self.path)
        self.assertEqual(again.done, {("sizes", "CODE", 1)})
        self.assertEqual([row["tool"] for row in again.rows], ["cutpoint"])
        again.start(RUN)
        again.add(("sizes", "WEB", 1), [{"tool": "borg"}])
        self.assertEqual([row["tool"] for row in Records(self.path).rows], ["cutpoint", "borg"])

    def test_line_that_was_cut_off_is_removed(self):
        measured(self.path)
        count = len(Records(self.path).rows)
        with self.path.open("a") as file:
            file.write('{"kind": "row", "group": "si')
        again = Records(self.path)
        again.start(RUN)
        again.add(("far", "random1024", 1), [{"tool": "cutpoint"}])
        self.assertEqual(len(Records(self.path).rows), count + 1)

    def test_rows_of_another_program_are_refused(self):
        measured(self.path)
        with self.assertRaisesRegex(RecordsError, "another program"):
            Records(self.path).start(RUN | {"program": "other"})

    def test_merged_runs_have_rounds_of_both(self):
        measured(self.path)
        one = lines.Figures(Records(self.path).rows)
        both = lines.Figures(merged([self.path, self.path]).rows)
        self.assertEqual(len(both.rows), 2 * len(one.rows))
        size = ("sizes", "CODE", "cutpoint")
        self.assertEqual(one.size(*size), both.size(*size))

    def test_other_text_is_refused(self):
        self.path.write_text("text\nmore\n")
        with self.assertRaisesRegex(RecordsError, "rows.jsonl:1"):
            Records(self.path)


class ThePage(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.records = measured(self.folder / "rows.jsonl")
        self.lines = {line.name: line for line in lines.lines(lines.Figures(self.records.rows))}

    def test_size_beside_chain_has_mean_and_worst(self):
        line = self.lines["size beside a chain of zstd -3 --patch-from"]
        # 20 / 25 and 30 / 20.
        self.assertEqual(line.texts["cutpoint"], "1.10 (0.80 CODE to 1.50 WEB)")
        self.assertAlmostEqual(line.of_goal(), 1.5 / 1.25)
        self.assertEqual(line.texts["restic"], "2.40 (CODE)")

    def test_cpu_time_is_median_of_rounds(self):
        line = self.lines["CPU time of later versions, with delta chunks / without"]
        # (3 + 9) / 2 / 4 and 1.
        self.assertIn("1.50 CODE", line.texts["cutpoint"])

    def test_seconds_are_judged_at_full_size_only(self):
        first = self.lines["first backup of 200,000 small files, cold"]
        self.assertAlmostEqual(first.of_goal(), 5 / 6)
        self.assertIsNone(self.lines["unchanged backup of 200,000 small files, cold"].of_goal())
        self.assertEqual(self.lines["unchanged backup of 200,000 small files, cold"].texts["cutpoint"], "100.00 s")

    def test_round_with_missing_version_does_not_count(self):
        def later(round_, version, cpu):
            return step("borg", "later", version, cpu=cpu) | {"group": "sizes", "set": "JS", "round": round_}

        rows = [later(1, "v02", 2.0), later(1, "v03", 3.0), later(2, "v02", 1.0)]
        self.assertEqual(lines.Figures(rows).median("sizes", "JS", "borg", "later", "cpu"), 5.0)
        # Another tool has the later version, and this one failed.
        rows = [later(1, "v02", 2.0), *(later(1, version, 1.0) | {"tool": "restic"} for version in ("v02", "v03"))]
        figures = lines.Figures(rows)
        self.assertIsNone(figures.median("sizes", "JS", "borg", "later", "cpu"))
        self.assertIsNone(figures.size("sizes", "JS", "borg"))

    def test_first_of_tables_with_one_title_is_drawn(self):
        self.records.add(("adversarial", "CODE", 1), versions("cutpoint", 70, 77, 1.0))
        markdown = page.Page(self.records).text()
        self.assertEqual(markdown.count(page.SIZE_TABLE + "**"), 2)
        drawn = charts.draw(markdown)["sizes.svg"]
        self.assertIn("20.0 MB", drawn)
        self.assertNotIn("77.0 MB", drawn)

    def test_page_says_how_it_was_measured_and_what_is_missing(self):
        text = page.Page(self.records).text()
        for part in (
            "2026-01-02 03:04",
            "a processor",
            "abcdef",
            "`research/bench/tool run`",
            "rustic",
            "VM",
            "stopped, of `sizes`: PG",
            "Group `far`",
        ):
            self.assertIn(part, text)
        self.assertRegex(text, r"first backup of 200,000 .* \| 0.83 \| reached \|")
        self.assertRegex(text, r"size beside a chain .* \| 1.20 \| \*\*missed\*\* \|")

    def test_every_bound_is_of_a_line_and_on_the_page_if_it_is_missed(self):
        names = [line.name for line in lines.lines(lines.Figures([]))]
        bounds = page.read_bounds()
        self.assertEqual([name for name in bounds if name not in names], [])
        text = page.Page(self.records).text()
        self.assertIn("- *size beside a chain of zstd -3 --patch-from*: " + bounds[names[7]], text)
        self.assertNotIn("- *first backup of 200,000", text)

    def test_every_chart_is_on_page_and_well_formed(self):
        page.write(self.records, self.folder)
        markdown = (self.folder / page.NAME).read_text()
        drawn = charts.draw(markdown)
        on_page = {"benchmark-sizes.svg", "benchmark-goals.svg", "benchmark-cold.svg"}
        self.assertEqual(set(drawn), on_page | {"sizes.svg"})
        self.assertEqual(set(re.findall(r"\]\(([a-z-]*\.svg)\)", markdown)), on_page)
        for name, svg in drawn.items():
            root = ElementTree.fromstring(svg)
            self.assertIn("prefers-color-scheme: dark", svg)
            width = float(root.get("viewBox").split()[2])
            for element in root.iter():
                if element.tag.endswith("rect"):
                    self.assertLessEqual(float(element.get("x")) + float(element.get("width")), width, name)

    def test_charts_of_book_follow_the_committed_page(self):
        markdown = (page.RESULTS / page.NAME).read_text(encoding="utf-8")
        drawn = book_charts.draw(markdown)
        self.assertEqual(set(drawn), {"sizes.svg", "cpu.svg", "memory.svg", "small-files.svg", "far.svg"})
        for svg in drawn.values():
            self.assertIn('class="panel"', svg)
            ElementTree.fromstring(svg)
        size = book_charts.rows(charts.tables(markdown), book_charts.SIZES)["restic"]["SQLITE"]
        self.assertIn(f">{size:.1f} MB<", drawn["sizes.svg"])
        with self.assertRaises(book_charts.MissingTableError):
            book_charts.draw(markdown.replace(book_charts.MEMORY, "another title"))

    def test_chart_follows_table_of_page(self):
        markdown = page.Page(self.records).text()
        self.assertIn("20.0 MB", charts.draw(markdown)["sizes.svg"])
        changed = markdown.replace("| cutpoint | 20.0", "| cutpoint | 21.0")
        self.assertIn("21.0 MB", charts.draw(changed)["sizes.svg"])

    def test_readme_that_differs_is_found(self):
        readme = self.folder / "README.md"
        readme.write_text(f"before\n\n{page.BEGIN}\nold\n{page.END}\n\nafter\n")
        page.write(self.records, self.folder)
        self.assertEqual(self.check(readme), 1)
        readme.write_text(page.readme_with(readme.read_text(), (self.folder / page.NAME).read_text()))
        self.assertEqual(self.check(readme), 0)
        self.assertRegex(readme.read_text(), r"(?s)before.*\| 2 \| 200 \| 60.0 \| 20.0 \| 3.0 \|.*after")
        (self.folder / "sizes.svg").write_text("another")
        self.assertEqual(self.check(readme), 1)

    def check(self, readme):
        with contextlib.redirect_stdout(io.StringIO()):
            return page.check(self.folder, readme)


PERF = """
       perf-exec     0 PERF_RECORD_COMM: perf-exec:10/10
        cutpoint    10 PERF_RECORD_COMM exec: cutpoint:10/10
        cutpoint    10 cpu-clock:
        cutpoint    10 PERF_RECORD_FORK(10:11):(10:10)
         signals    11 PERF_RECORD_COMM: signals:10/11
         signals    11 cpu-clock:
        cutpoint    10 PERF_RECORD_FORK(10:12):(10:10)
        cutpoint    10 PERF_RECORD_FORK(10:13):(10:10)
        cutpoint    10 PERF_RECORD_FORK(10:14):(10:10)
        cutpoint    13 cpu-clock:
        cutpoint    14 cpu-clock:
        cutpoint    14 cpu-clock:
"""


class TheParts(unittest.TestCase):
    def test_samples_count_for_stage_by_order_of_threads(self):
        found = stages.samples_by_stage(PERF)
        # The thread of signals is none of the stages, and the first worker has no sample.
        self.assertEqual(found, {"source": 2, "workers": 1, "dedup": 2})

    @unittest.skipUnless(shutil.which("zstd"), "zstd is not there")
    def test_chain_stores_what_is_new(self):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            content = random.Random(1).randbytes(200_000)
            for version in range(1, 4):
                path = folder / f"v{version:02}" / "file"
                path.parent.mkdir()
                path.write_bytes(content[: version * 1000] + b"new" + content)
            rows = list(Chain(folder, 3).rows(sorted(folder.iterdir())))
            self.assertEqual([row["step"] for row in rows], ["first", "later", "later"])
            first, _, last = (row["repo_bytes"] for row in rows)
            self.assertGreater(first, 200_000)
            self.assertLess(last - first, 5_000)
            self.assertEqual(sorted(path.name for path in folder.iterdir()), ["v01", "v02", "v03"])


class TheCommand(unittest.TestCase):
    def test_help_of_every_command(self):
        tool = str(HERE / "tool")
        for words in ((), ("run",), ("page",), ("data",), ("list",), ("check",)):
            done = subprocess.run([sys.executable, tool, *words, "--help"], capture_output=True, text=True, check=False)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("research/bench/tool", done.stdout)

    def test_first_rounds_come_before_second_and_slow_group_is_last(self):
        class Units:
            def __init__(self, name, units):
                self.name, self.all = name, units

            def units(self):
                return self.all

        groups = {
            "max": Units("max", [("JS", 1), ("JS", 0)]),
            "sizes": Units("sizes", [("ONE", 0), ("JS", 1), ("JS", 2), ("JS", 0)]),
            "far": Units("far", [("random", 1), ("random", 2)]),
        }
        order = benchmark.in_order(groups)
        self.assertEqual(order[0], ("sizes", "ONE", 0))
        self.assertEqual(order[1:4], [("sizes", "JS", 1), ("far", "random", 1), ("sizes", "JS", 0)])
        self.assertEqual(order[-2:], [("max", "JS", 1), ("max", "JS", 0)])

    def test_rows_are_json_lines(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "rows.jsonl")
            measured(path)
            kinds = {json.loads(line)["kind"] for line in path.read_text().splitlines()}
            self.assertEqual(kinds, {"run", "row", "done"})


if __name__ == "__main__":
    unittest.main()
