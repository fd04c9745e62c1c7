#!/usr/bin/env python3
"""Tests the runners of the suite: right cut-points are equal, and each wrong one is found."""

import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent
VECTORS = HERE.parent


def fixed(spec, data):
    """The algorithm `fixed`."""
    name, _, text = spec.partition(":")
    if name != "fixed":
        return None
    size = int(text.removeprefix("size="))
    return [min(at + size, len(data)) for at in range(0, len(data), size)]


def without_last(spec, data):
    """The same without the last chunk, if there are several."""
    ends = fixed(spec, data)
    return ends[:-1] if ends and len(ends) > 1 else ends


def run(*words, **options):
    return subprocess.run(words, capture_output=True, text=True, check=False, **options)


def by_function(function, *files):
    return run(sys.executable, "-B", HERE / "check.py", *files, "--call", f"test_suite:{function}", cwd=HERE)


class Suite(unittest.TestCase):
    def test_right_function_is_equal_and_others_are_left_out(self):
        done = by_function("fixed", VECTORS / "fixed.json", VECTORS / "gear_gearhash.json")
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertRegex(done.stdout, r"^3\d cases are equal, 0 differ, [12]\d are not implemented\n$")

    def test_page_has_the_number_of_cases(self):
        files = list(VECTORS.glob("*.json"))
        cases = [case for file in files for case in json.loads(file.read_text())["cases"] if "key_seed" not in case]
        text = (HERE / "README.md").read_text()
        self.assertIn(f"{len(cases):,} cases of {len(files)} dialects", text)
        self.assertIn(f"{len(cases):,} of {len(cases):,}", text)

    def test_missing_chunk_is_found(self):
        done = by_function("without_last", VECTORS / "fixed.json")
        self.assertEqual(done.returncode, 1)
        self.assertIn("ends at None, expected", done.stdout)

    def test_nothing_that_is_implemented_is_no_success(self):
        self.assertEqual(by_function("fixed", VECTORS / "gear_gearhash.json").returncode, 1)

    def test_program_gets_spec_and_input(self):
        program = "import sys, test_suite as t; ends = t.fixed(sys.argv[1], sys.stdin.buffer.read())"
        program += "; sys.exit(3) if ends is None else print(*ends, sep='\\n')"
        words = [VECTORS / "fixed.json", "--only", "fixed:size=777", "--", sys.executable, "-B", "-c", program]
        done = run(sys.executable, "-B", HERE / "check.py", *words, cwd=HERE)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    @unittest.skipUnless(run("cc", "--version").returncode == 0, "no C compiler")
    def test_example_in_c_is_equal_and_a_wrong_one_is_not(self):
        text = (HERE / "example.c").read_text()
        wrong = text.replace("++run == length", "++run > length")
        self.assertNotEqual(text, wrong)
        for source, code, words in ((text, 0, " cases are equal, 0 differ"), (wrong, 1, ": chunk ")):
            with tempfile.TemporaryDirectory() as folder:
                mine, program = Path(folder) / "mine.c", Path(folder) / "check"
                mine.write_text(source)
                compiled = run("cc", "-O2", "-Wall", "-Wextra", "-Werror", "-o", program, HERE / "check.c", mine)
                self.assertEqual(compiled.returncode, 0, compiled.stderr)
                done = run(program, VECTORS / "seqcdc.json")
                self.assertEqual(done.returncode, code)
                self.assertIn(words, done.stdout)


if __name__ == "__main__":
    os.environ.pop("PYTHONPATH", None)
    unittest.main()
