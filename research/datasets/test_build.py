#!/usr/bin/env python3
"""Tests of build.py and of the builders that need no network and no server: `python3 research/datasets/test_build.py`,
some seconds."""

import contextlib
import io
import itertools
import json
import os
import shutil
import sys
import tempfile
import unittest
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent))
import build  # noqa: E402
import common  # noqa: E402

SYNTHETIC = build.GROUPS["synthetic"] + ["RAND"] * bool(shutil.which("openssl"))  # RAND needs that one program
SIZE = 512 << 10


def call(*words):
    """What build.py says, and its exit code."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code = build.main([str(word) for word in words])
        except SystemExit as ended:
            code = ended.code
    return code, out.getvalue(), err.getvalue()


class Synthetic(unittest.TestCase):
    """The sets are built once; tests that spoil some spoil a copy."""

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.out = Path(cls.folder.name, "first")
        code, _, err = call(*SYNTHETIC, "--size", SIZE, "--out", cls.out)
        if code:
            raise AssertionError(err)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def manifest(self, name, out=None):
        return ((out or self.out) / f"{name}.manifest").read_bytes()

    def copy_of(self, name):
        to = Path(tempfile.mkdtemp(dir=self.folder.name))
        shutil.copytree(self.out / name, to / name)
        shutil.copy(self.out / f"{name}.manifest", to)
        return to

    def test_all_are_as_their_manifests_say(self):
        code, out, err = call(*SYNTHETIC, "--verify", "--out", self.out)
        self.assertEqual((code, err), (0, ""))
        self.assertEqual(len(out.splitlines()), len(SYNTHETIC))

    def test_sizes_are_about_those_that_were_asked_for(self):
        for name in SYNTHETIC:
            with self.subTest(name):
                manifest = json.loads(self.manifest(name))
                versions = [path.name for path in sorted((self.out / name).iterdir())]
                self.assertEqual(versions, [f"v{version:02d}" for version in range(1, len(versions) + 1)])
                self.assertEqual(
                    manifest["bytes"],
                    sum(path.stat().st_size for path in (self.out / name).rglob("*") if path.is_file()),
                )
                # SQLite's tables and SMALL's hundred files have a least size.
                self.assertGreater(manifest["bytes"], SIZE / 2)
                self.assertLess(manifest["bytes"], SIZE * (5 if name in ("SMALL", "SQLITE") else 2))

    def test_the_same_seed_gives_the_same_bytes_and_mtimes(self):
        again = Path(self.folder.name, "again")
        self.assertEqual(call(*SYNTHETIC, "--size", SIZE, "--out", again)[0], 0)
        for name in SYNTHETIC:
            with self.subTest(name):
                self.assertEqual(self.manifest(name), self.manifest(name, again))
                mtimes = [
                    {
                        str(path.relative_to(out / name)): path.stat().st_mtime_ns
                        for path in (out / name).rglob("*")
                        if path.is_file()
                    }
                    for out in (self.out, again)
                ]
                self.assertEqual(*mtimes)

    def test_another_seed_gives_other_bytes(self):
        other = Path(self.folder.name, "other")
        seeded = ["BA", "BENCH", "LOGS", "WEB-ARCHIVE"]
        self.assertEqual(call(*seeded, "--size", SIZE, "--versions", 2, "--seed", 7, "--out", other)[0], 0)
        for name in seeded:
            manifest = json.loads(self.manifest(name, other))
            self.assertEqual((manifest["versions"], manifest["made with"]["seed"]), (["v01", "v02"], 7))
            self.assertTrue(
                {digest for *_, digest in manifest["files"]}.isdisjoint(
                    digest for *_, digest in json.loads(self.manifest(name))["files"]
                )
            )

    def test_a_flipped_bit_is_noticed(self):
        out = self.copy_of("BENCH")
        path = sorted(path for path in (out / "BENCH").rglob("*") if path.is_file())[3]
        content = bytearray(path.read_bytes())
        content[len(content) // 2] ^= 1
        path.write_bytes(content)
        code, _, err = call("BENCH", "--verify", "--out", out)
        self.assertEqual(code, 1)
        self.assertIn(str(path.relative_to(out / "BENCH")), err)
        self.assertEqual(len(err.splitlines()), 2, err)

    def test_missing_and_strange_files_are_noticed(self):
        out = self.copy_of("LOGS")
        (out / "LOGS/v03/syslog.2").unlink()
        (out / "LOGS/v03/strange").write_text("x")
        code, _, err = call("LOGS", "--verify", "--out", out)
        self.assertEqual(code, 1)
        self.assertIn("v03/syslog.2: is missing", err)
        self.assertIn("v03/strange: is not in the manifest", err)

    def test_a_manifest_is_not_trusted(self):
        for before, after, said in (
            (b'"v01/file.txt", ', b'"v01/file.txt", 1', "SHA-256"),
            (b'"files"', b'"none"', "list"),
            (b"{", b"", "no manifest"),
        ):
            out = self.copy_of("BA")
            path = out / "BA.manifest"
            path.write_bytes(path.read_bytes().replace(before, after, 1))
            code, _, err = call("BA", "--verify", "--out", out)
            self.assertEqual(code, 1)
            self.assertIn(said, err)
        code, _, err = call("BA", "--verify", "--out", Path(self.folder.name, "nowhere"))
        self.assertEqual(code, 1)
        self.assertIn("there is no manifest", err)

    def test_what_has_no_manifest_is_not_replaced(self):
        out = Path(tempfile.mkdtemp(dir=self.folder.name))
        (out / "BA").mkdir()
        (out / "BA/mine").write_text("x")
        code, _, err = call("BA", "--size", SIZE, "--out", out)
        self.assertEqual(code, 1)
        self.assertIn("has no manifest", err)
        self.assertTrue((out / "BA/mine").exists())

    def test_a_missing_client_is_named_and_nothing_is_left(self):
        out = Path(tempfile.mkdtemp(dir=self.folder.name))
        before = os.environ["PATH"]
        # A path without programs; the interpreter is called by its own.
        os.environ["PATH"] = str(out)
        try:
            code, _, err = call("JS", "RAND", "--size", SIZE, "--out", out)
        finally:
            os.environ["PATH"] = before
        self.assertEqual(code, 1)
        self.assertIn("npm is missing: apt-get install npm", err)
        self.assertIn("openssl is missing: apt-get install openssl", err)
        self.assertEqual(list(out.iterdir()), [])

    def test_wrong_words_are_said_to_be_wrong(self):
        for words in (
            ["BA"],
            ["--out", "x"],
            ["NONE", "--out", "x"],
            ["BA", "--out", "x", "--size", "many"],
            ["BA", "--out", "x", "--size", "0"],
            ["BA", "--out", "x", "--versions", "0"],
        ):
            self.assertEqual(call(*words)[0], 2, words)
        code, out, _ = call("--list", "--out", self.out)
        self.assertEqual(code, 0)
        for name in build.SETS:
            self.assertIn(name, out)

    def test_backup_artificial_is_as_the_paper_says(self):
        versions = [path.read_bytes() for path in sorted((self.out / "BA").rglob("file.txt"))]
        blocks = len(versions[0]) // 4096
        self.assertEqual(len(versions), 17)
        self.assertTrue(set(versions[0]) <= set(range(32, 127)))
        for before, after in itertools.pairwise(versions):
            changed = [
                [at for at in range(4096) if before[block * 4096 + at] != after[block * 4096 + at]]
                for block in range(blocks)
            ]
            self.assertEqual(sum(map(bool, changed)), blocks // 4)
            for places in filter(None, changed):
                self.assertLess(places[-1] - places[0], 1024)
                self.assertGreater(len(places), 950)  # a few stay the same by chance

    def test_logs_rotate(self):
        for stream in ("access.log", "app.json", "syslog"):

            def read(version, age, stream=stream):
                return (self.out / f"LOGS/{version}/{stream}{age and f'.{age}'}").read_bytes()

            for age in range(1, 7):
                self.assertEqual(read("v01", age), read("v02", age + 1))
            self.assertTrue(read("v02", 1).startswith(read("v01", "")))
            self.assertGreater(len(read("v02", 1)), len(read("v01", "")))

    def test_bench_creates_deletes_and_modifies(self):
        contents = [
            {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
            for folder in sorted((self.out / "BENCH").iterdir())
        ]
        for before, after in itertools.pairwise(contents):
            self.assertTrue(before.keys() - after.keys())
            self.assertTrue(after.keys() - before.keys())
            changed = [path for path in before.keys() & after.keys() if before[path] != after[path]]
            self.assertTrue(changed)

    def test_pages_of_the_archive_share_head_and_foot(self):
        pages = [path.read_bytes() for path in sorted((self.out / "WEB-ARCHIVE/v01").rglob("*.html"))]
        self.assertGreater(len(pages), 10)
        again = [path.read_bytes() for path in sorted((self.out / "WEB-ARCHIVE/v02").rglob("*.html"))]
        self.assertTrue(set(pages).isdisjoint(again))
        self.assertEqual(
            len({page[-120:] for page in pages} & {page[-120:] for page in again}), len({page[-120:] for page in pages})
        )


class Thinning(unittest.TestCase):
    SIZES = {f"folder{place % 7}/file{place}": 100 + place % 900 for place in range(3000)}

    def test_a_part_is_about_as_large_as_was_asked_for(self):
        for budget in (20_000, 300_000):
            is_chosen = common.thin(self.SIZES, budget)
            total = sum(size for path, size in self.SIZES.items() if is_chosen(path, size))
            self.assertLessEqual(total, budget)
            self.assertGreater(total, budget * 0.9)

    def test_a_file_is_chosen_by_its_path_alone(self):
        is_chosen = common.thin(self.SIZES, 300_000)
        fewer = common.thin(dict(list(self.SIZES.items())[::-1]), 300_000)
        self.assertEqual(
            [is_chosen(*file) for file in self.SIZES.items()], [fewer(*file) for file in self.SIZES.items()]
        )

    def test_large_files_are_left_out_when_they_are_new(self):
        budget = 300_000
        is_chosen = common.thin(self.SIZES, budget)
        new = [f"new/{place}" for place in range(100)]
        chosen = [path for path in self.SIZES if is_chosen(path, 1)]
        self.assertTrue(all(is_chosen(path, budget) for path in chosen))  # they were small
        self.assertFalse(any(is_chosen(path, budget // 8 + 1) for path in new))
        self.assertFalse(any(is_chosen(path, 1) for path in new))
        self.assertTrue(any(is_chosen(f"small/{place}", 1) for place in range(100)))

    def test_all_are_chosen_without_a_budget(self):
        for budget in (None, 10**9):
            self.assertTrue(all(map(common.thin(self.SIZES, budget), self.SIZES, self.SIZES.values())))


if __name__ == "__main__":
    unittest.main()
