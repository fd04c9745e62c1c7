"""A run: every tool takes every step on every set, and each step makes a row."""

import csv
import json
import os
import shutil
import statistics
import sys
import time
from pathlib import Path

from command import PeerError, run
from files import compare, size, warm
from machine import fs_type, machine
from source import Source, can_bind
from tools import find

# The steps of a complete run. `optimize` is another, for tools that have it.
STEPS = ("init", "first", "later", "noop1", "noop", "reread", "restore", "check")
BACKUPS = ("first", "later", "noop1", "noop", "reread")


class Bench:
    """A run. `steps` are those that are taken behind the versions; `on_row` gets each row as it is measured."""

    def __init__(self, a, steps=STEPS, on_row=None):
        self.a, self.steps, self.on_row = a, steps, on_row
        self.work = Path(a.work).resolve() / "peers-run"
        self.rows = []
        self.base = {}
        self.started = time.strftime("%Y-%m-%d %H:%M:%S")
        self.work.mkdir(parents=True, exist_ok=True)
        self.stopped = False
        self.src = None
        self.log = self.work / "log"
        self.tools, self.missing = find(a.tools.split(","), self.work, a)
        self.versions = {tool.name: tool.version() for tool in self.tools}
        self.mode = a.source or ("bind" if can_bind(self.work) else "rename")
        if a.one_run and self.mode != "bind":
            sys.exit("--one-run needs --source bind")
        self.rss_floor = run(["true"], {}, "/", self.log, 60)["rss"]

    def cold(self):
        if self.a.cold:
            os.sync()
            Path("/proc/sys/vm/drop_caches").write_text("3\n")

    def step(self, t, set_, rnd, step, cmd, version="", cwd=None, after=None):
        row = {
            "tool": t.name,
            "set": set_,
            "round": rnd,
            "step": step,
            "version": version,
            "load": round(os.getloadavg()[0], 2),
        }
        try:
            self.cold()
            cmds = cmd if isinstance(cmd[0], list) else [cmd]
            rs = [run(c, t.env(), cwd or self.work, self.log, self.a.timeout) for c in cmds]
            row |= {k: sum(r[k] for r in rs) for k in ("wall", "user", "sys")} | {"rss": max(r["rss"] for r in rs)}
            row["cpu"] = row["user"] + row["sys"]
            if t.name in self.base and step in BACKUPS:
                row["cpu_net"] = row["cpu"] - self.base[t.name]["cpu"]
            row["repo_bytes"], row["repo_files"] = size(t.repo)
            row["cache_bytes"] = sum(size(t.root / d)[0] for d in ("cache", "state"))
            if after:
                row |= after()
        except PeerError as e:
            row["error"] = str(e)
        except OSError as e:
            row["error"] = f"{type(e).__name__}: {e}"
        self.rows.append(row)
        if self.on_row:
            self.on_row(row)
        print(
            f"{set_:8} {rnd} {step:8} {version:4} {t.name:14} "
            + (
                f"FAILED {row['error']}"
                if "error" in row
                else f"{row['wall']:7.2f} s wall {row['cpu']:7.2f} s CPU {row['rss'] / 1e6:6.0f} MB, "
                f"repository {row['repo_bytes'] / 1e6:.1f} MB"
            ),
            flush=True,
        )
        return "error" not in row

    def baseline(self):
        """The tool's own cost: an unchanged run on a set of one file of 1 KiB, median of five."""
        d = self.work / "one"
        shutil.rmtree(d, ignore_errors=True)
        d.mkdir()
        (d / "file").write_bytes(bytes(range(256)) * 4)
        for t in self.tools:
            t.clear()
            ok = self.step(t, "ONE", 1, "init", t.init()) and self.step(t, "ONE", 1, "first", t.backup(str(d)), "v01")
            got = []
            for k in range(6 if ok else 0):
                if self.step(t, "ONE", k + 1, "noop1" if k == 0 else "noop", t.backup(str(d)), "v01") and k:
                    got.append(self.rows[-1])
            if got:
                self.base[t.name] = {k: statistics.median(r[k] for r in got) for k in ("cpu", "wall", "rss")}
            shutil.rmtree(t.root, ignore_errors=True)
        shutil.rmtree(d)

    def one_set(self, set_, rnd):
        vs = sorted(p.name for p in (Path(self.a.data) / set_).glob("v[0-9]*") if p.is_dir())[: self.a.versions or None]
        if vs and self.a.one_run:
            vs = ["."]
        if not vs:
            print(f"{set_}: no versions found", file=sys.stderr)
            return
        self.src = Source(self.mode, Path(self.a.data).resolve(), set_, self.work)
        path = str(self.src.path)
        try:
            order = (
                self.tools[rnd % len(self.tools) :] + self.tools[: rnd % len(self.tools)]
            )  # another one begins in every round
            for t in order:
                t.clear()
            live = [t for t in order if self.step(t, set_, rnd, "init", t.init())]

            def all_(step, v, drop=True):
                nonlocal live
                self.src.show(v)
                bytes_, n = size(path)
                if not self.a.cold:
                    warm(path)
                ok = [
                    t
                    for t in live
                    if self.step(t, set_, rnd, step, t.backup(path), v, after=lambda: {"logical": bytes_, "files": n})
                ]
                if drop:
                    live = ok  # its repository no longer has what it should

            for k, v in enumerate(vs):
                all_("later" if k else "first", v)
            last = vs[-1]
            for step in ("noop1", "noop"):
                if step in self.steps:
                    all_(step, last, False)
            if "reread" in self.steps:
                self.src.touch()
                all_("reread", last, False)  # hide() gives the old times back
            for t in live if "optimize" in self.steps else ():
                if t.optimize() is not None:
                    self.step(t, set_, rnd, "optimize", t.optimize(), last)
            for t in live if "restore" in self.steps else ():
                t.out.mkdir()
                try:
                    t.find_latest()
                except PeerError as e:
                    self.rows.append(
                        {
                            "tool": t.name,
                            "set": set_,
                            "round": rnd,
                            "step": "restore",
                            "version": last,
                            "error": f"list: {e}",
                        }
                    )
                    continue
                self.step(
                    t,
                    set_,
                    rnd,
                    "restore",
                    t.restore(),
                    last,
                    cwd=t.out,
                    after=lambda t=t: dict(zip(("restored", "meta_differs"), compare(path, str(t.out)), strict=True)),
                )
                shutil.rmtree(t.out, ignore_errors=True)
            for t in live if "check" in self.steps else ():
                if t.check() is not None:
                    self.step(t, set_, rnd, "check", t.check())
        finally:
            self.src.close()
            self.src = None
            for t in self.tools:
                shutil.rmtree(t.root, ignore_errors=True)

    def result(self):
        a = self.a
        return {
            "format": 1,
            "started": self.started,
            "saved": time.strftime("%Y-%m-%d %H:%M:%S"),
            "machine": machine() | {"repository_on": fs_type(self.work)},
            "versions": self.versions,
            "missing": self.missing,
            "base": self.base,
            "rss_floor": self.rss_floor,
            "source": self.mode,
            "cold": a.cold,
            "rounds": a.rounds,
            "rows": self.rows,
        }

    def save(self):
        for o in self.a.out:
            r = self.result()
            tmp = o + ".new"
            if o.endswith(".csv"):
                with open(tmp, "w", newline="") as f:
                    for k in ("started", "machine", "versions", "base", "source", "cold"):
                        f.write(f"# {k}: {json.dumps(r[k])}\n")
                    keys = list(dict.fromkeys(k for row in self.rows for k in row))
                    w = csv.DictWriter(f, keys)
                    w.writeheader()
                    w.writerows(self.rows)
            else:
                with open(tmp, "w") as f:
                    json.dump(r, f, indent=0)
            os.replace(tmp, o)

    def go(self):
        try:
            self.baseline()
            for rnd in range(1, self.a.rounds + 1):
                for s in self.a.sets.split(","):
                    self.one_set(s, rnd)
                    self.save()
        except KeyboardInterrupt:
            self.stopped = True
            print("stopped; what was measured is kept", file=sys.stderr)
        finally:
            self.save()
            shutil.rmtree(self.work, ignore_errors=True)
        return self.result()
