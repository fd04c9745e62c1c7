#!/usr/bin/env python3
"""Cutpoint beside its peers: backup, unchanged backup, backup of touched data, restore, check.

    ./peers.py --data DATA --work DIR [--tools cutpoint,borg,...] [--sets CODE,RDS,...] [--rounds 3] --out FILE.json
    ./peers.py --report FILE.json [FILE2.json ...]          print the tables of stored results again (rows are merged)

DATA holds SET/vNN/ as the scripts of research/datasets write them. DIR takes repositories, caches and restored files (a
tmpfs, or with
--cold a real disk). README.md beside this script says what every figure means. Python's standard library only.
"""

import argparse
import csv
import filecmp
import json
import os
import platform
import re
import shutil
import signal
import statistics
import subprocess
import sys
import time
from pathlib import Path

PASS = "measured-not-secret"
STEPS = ("init", "first", "later", "noop1", "noop", "reread", "restore", "check")
BACKUPS = ("first", "later", "noop1", "noop", "reread")

# A command is started by a small process of its own, so that the largest memory that wait4 reports is the tool's:
# between fork and exec a child counts the memory of its parent, and this script grows. What is left of that, about 8
# MB, is measured as `rss_floor`.
SPAWN = """
import os, sys, time
log, cwd, *command = sys.argv[1:]
began = time.perf_counter()
pid = os.fork()
if pid == 0:
    try:
        os.chdir(cwd)
        output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        os.dup2(os.open("/dev/null", os.O_RDONLY), 0)
        os.dup2(output, 1)
        os.dup2(output, 2)
        os.execvpe(command[0], command, os.environ)
    except OSError as error:
        os.write(2, str(error).encode())
        os._exit(127)
_, status, usage = os.wait4(pid, 0)
elapsed = time.perf_counter() - began
print(elapsed, usage.ru_utime, usage.ru_stime, usage.ru_maxrss, os.waitstatus_to_exitcode(status))
"""


class PeerError(Exception):
    pass


class Tool:
    """One program: the commands of each step. `root` is the folder it may write to."""

    name = ""
    version_args = ["--version"]

    def __init__(self, binary, root):
        self.bin, self.root = binary, Path(root)
        self.repo = self.root / "repo"
        self.key = self.root / "key"
        self.out = self.root / "out"

    def env(self):
        r = self.root
        return {
            "HOME": f"{r}/home",
            "XDG_CACHE_HOME": f"{r}/cache",
            "XDG_STATE_HOME": f"{r}/state",
            "XDG_CONFIG_HOME": f"{r}/config",
            "TMPDIR": f"{r}/tmp",
        }

    def clear(self):
        shutil.rmtree(self.root, ignore_errors=True)
        for d in ("home", "cache", "state", "config", "tmp"):
            (self.root / d).mkdir(parents=True)

    def init(self):
        raise NotImplementedError  # a list of commands; the other steps are one command

    def backup(self, src):
        raise NotImplementedError

    def restore(self):
        raise NotImplementedError  # into self.out

    def check(self):
        return None  # None: the tool has no such command


class Cutpoint(Tool):
    name = "cutpoint"

    def opt(self):
        return ["--repo", str(self.repo), "--key-file", str(self.key)]

    def init(self):
        return [[self.bin, "init", *self.opt()]]

    def backup(self, src):
        return [self.bin, "backup", src, *self.opt(), "--quiet"]

    def restore(self):
        return [self.bin, "restore", "latest", "--to", str(self.out), *self.opt()]

    def check(self):
        return [self.bin, "check", "--read-data", *self.opt()]


class CutpointExact(Cutpoint):
    name = "cutpoint-exact"

    def init(self):
        return [[*super().init()[0], "--delta", "off"]]


class Restic(Tool):
    name = "restic"
    version_args = ["version"]

    def env(self):
        return super().env() | {
            "RESTIC_REPOSITORY": str(self.repo),
            "RESTIC_PASSWORD": PASS,
            "RESTIC_CACHE_DIR": f"{self.root}/cache",
        }

    def init(self):
        return [[self.bin, "init", "--repository-version", "2"]]

    def backup(self, src):
        return [self.bin, "backup", "--quiet", "--compression", "auto", src]

    def restore(self):
        return [self.bin, "restore", "latest", "--quiet", "--target", str(self.out)]

    def check(self):
        return [self.bin, "check", "--quiet", "--read-data"]


class Rustic(Tool):
    name = "rustic"

    def env(self):
        return super().env() | {
            "RUSTIC_REPOSITORY": str(self.repo),
            "RUSTIC_PASSWORD": PASS,
            "RUSTIC_CACHE_DIR": f"{self.root}/cache",
            "RUSTIC_NO_PROGRESS": "true",
            "RUSTIC_LOG_LEVEL": "warn",
        }

    def init(self):
        return [[self.bin, "init"]]

    def backup(self, src):
        return [self.bin, "backup", src]

    def restore(self):
        return [self.bin, "restore", "latest", str(self.out)]

    def check(self):
        return [self.bin, "check", "--read-data"]


class Bupstash(Tool):
    name = "bupstash"

    def env(self):
        return super().env() | {
            "BUPSTASH_REPOSITORY": str(self.repo),
            "BUPSTASH_KEY": str(self.key),
            "BUPSTASH_SEND_LOG": f"{self.root}/state/send-log",
            "BUPSTASH_QUERY_CACHE": f"{self.root}/cache/query",
        }

    def init(self):
        return [[self.bin, "init", "--quiet"], [self.bin, "new-key", "-o", str(self.key)]]

    def backup(self, src):
        return [self.bin, "put", "--quiet", "set=bench", src]

    def latest(self, run):  # outside the measured time: there is no name for the newest
        ids = re.findall(r'id="([0-9a-f]+)"', run([self.bin, "list", "--quiet", "set=bench"]))
        if not ids:
            raise PeerError("no item listed")
        self.id = ids[-1]

    def restore(self):
        return [self.bin, "restore", "--quiet", "--into", str(self.out), f"id={self.id}"]


class Borg(Tool):
    name = "borg"
    n = 0

    def env(self):
        return super().env() | {
            "BORG_REPO": str(self.repo),
            "BORG_PASSPHRASE": PASS,
            "BORG_BASE_DIR": f"{self.root}/state",
            "BORG_CACHE_DIR": f"{self.root}/cache",
            "BORG_RELOCATED_REPO_ACCESS_IS_OK": "yes",
        }

    def init(self):
        self.n = 0
        return [[self.bin, "init", "--encryption", "repokey-blake2"]]

    def backup(self, src):
        self.n += 1
        return [self.bin, "create", "--compression", "zstd,3", f"::a{self.n}", src]

    def restore(self):
        return [self.bin, "extract", f"::a{self.n}"]  # in the folder self.out

    def check(self):
        return [self.bin, "check", "--verify-data"]


KINDS = {
    "cutpoint": Cutpoint,
    "cutpoint-exact": CutpointExact,
    "restic-debian": Restic,
    "restic-new": Restic,
    "restic": Restic,
    "rustic": Rustic,
    "bupstash": Bupstash,
    "borg": Borg,
}


def run(cmd, env, cwd, log, limit):
    """One measured command: wall, CPU of it and the children it waited for, largest memory of one process, exit code,
    end of the output."""
    p = subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", SPAWN, str(log), str(cwd), *cmd],
        env={"PATH": os.environ["PATH"], "LANG": "C.UTF-8", **env},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
        text=True,
    )
    try:
        out, err = p.communicate(timeout=limit)
    except BaseException as e:
        os.killpg(p.pid, signal.SIGKILL)
        p.wait()
        if isinstance(e, subprocess.TimeoutExpired):
            raise PeerError(f"not done after {limit} s") from None
        raise
    f = out.split()
    if len(f) != 5:
        raise PeerError(f"not started: {err.strip()[-300:]}")
    r = {"wall": float(f[0]), "user": float(f[1]), "sys": float(f[2]), "rss": int(f[3]) * 1024}
    if int(f[4]):
        text = Path(log).read_text(errors="replace").strip() if os.path.exists(log) else err
        raise PeerError(f"exit {f[4]}: {' | '.join(text.splitlines()[-4:])[-500:]}")
    return r


def files(root):
    for d, _, fs in os.walk(root):
        for f in fs:
            yield os.path.join(d, f)


def size(root):
    n = b = 0
    for p in files(root):
        try:
            s = os.lstat(p)
        except FileNotFoundError:
            continue
        n += 1
        b += s.st_size
    return b, n


def warm(root):
    buf = bytearray(1 << 20)
    for p in files(root):
        if os.path.isfile(p) and not os.path.islink(p):
            with open(p, "rb", buffering=0) as f:
                while f.readinto(buf):
                    pass


def compare(src, out):
    """What is restored, against the source: contents byte for byte. The place below `out` is found, tools differ in
    it."""
    want = set(os.listdir(src))
    place = None
    for c in (out, os.path.join(out, os.path.basename(src)), os.path.join(out, src.lstrip("/"))):
        if os.path.isdir(c) and want <= set(os.listdir(c)):
            place = c
            break
    if place is None:
        raise PeerError("restored files not found")
    n = bad = meta = 0
    filecmp.clear_cache()
    for d, ds, fs in os.walk(src):
        o = os.path.join(place, os.path.relpath(d, src))
        got = set(os.listdir(o)) if os.path.isdir(o) else set()
        bad += len(got ^ set(ds + fs))
        for f in set(fs) & got:
            a, b = os.path.join(d, f), os.path.join(o, f)
            n += 1
            if os.path.islink(a):
                bad += not (os.path.islink(b) and os.readlink(a) == os.readlink(b))
                continue
            if not os.path.isfile(a):
                continue
            bad += not (os.path.isfile(b) and filecmp.cmp(a, b, shallow=False))
            s, t = os.lstat(a), os.lstat(b)
            meta += (s.st_mode, s.st_mtime_ns) != (t.st_mode, t.st_mtime_ns)
    if bad:
        raise PeerError(f"{bad} of {n} files differ from the source")
    return n, meta


class Source:
    """Makes one version after the other visible at one and the same path. bind: mounted there (as root; the set itself
    is not moved). rename: the version's folder is renamed and back (needs the set for itself). sync: a copy on the
    set's disk in which only what differs is replaced, so an unchanged file keeps inode and ctime, as in real life."""

    def __init__(self, mode, data, set_, work):
        self.mode, self.dir, self.now, self.saved = mode, Path(data) / set_, None, {}
        self.path = {"bind": Path(work) / "src", "rename": self.dir / "current", "sync": Path(data) / ".bench-src"}[
            mode
        ]
        self.mark = self.dir / ".renamed"
        if mode == "rename" and self.mark.exists():
            os.rename(self.path, self.dir / self.mark.read_text())
            self.mark.unlink()  # a run that was killed

    def show(self, version):
        if self.now == version:
            return
        self.hide()
        v = self.dir / version
        if self.mode == "bind":
            self.path.mkdir(parents=True, exist_ok=True)
            subprocess.run(["mount", "--bind", str(v), str(self.path)], check=True)
        elif self.mode == "rename":
            self.mark.write_text(version)
            os.rename(v, self.path)
        else:
            self.sync(v)
        self.now = version

    def sync(self, v):
        self.path.mkdir(exist_ok=True)
        for d, _, fs in os.walk(self.path, topdown=False):
            o = v / os.path.relpath(d, self.path)
            for f in fs:
                if not os.path.lexists(o / f):
                    os.unlink(os.path.join(d, f))
            if not o.is_dir():
                os.rmdir(d)
        dirs = []
        for d, _, fs in os.walk(v):
            t = self.path / os.path.relpath(d, v)
            t.mkdir(exist_ok=True)
            dirs.append((d, t))
            for f in fs:
                a, b = os.path.join(d, f), str(t / f)
                try:
                    s, u = os.lstat(a), os.lstat(b)
                    same = (s.st_size, s.st_mtime_ns, s.st_mode) == (u.st_size, u.st_mtime_ns, u.st_mode)
                except FileNotFoundError:
                    same = False
                if not same:
                    shutil.copy2(a, b + ".new~", follow_symlinks=False)
                    os.replace(b + ".new~", b)
        for d, t in reversed(dirs):
            shutil.copystat(d, t)

    def touch(self):
        """New mtimes, kept apart from `restore_times`, so that every tool must read every file again."""
        now = time.time_ns()
        for p in files(self.path):
            s = os.lstat(p)
            self.saved[p] = (s.st_atime_ns, s.st_mtime_ns)
            os.utime(p, ns=(now, now), follow_symlinks=False)

    def untouch(self):
        for p, ns in self.saved.items():
            os.utime(p, ns=ns, follow_symlinks=False)
        self.saved = {}

    def hide(self):
        self.untouch()
        if self.now is None:
            return
        if self.mode == "bind":
            for k in range(20):
                if (
                    subprocess.run(
                        ["umount", str(self.path)] if k < 19 else ["umount", "-l", str(self.path)],
                        stderr=subprocess.DEVNULL,
                    ).returncode
                    == 0
                ):
                    break
                time.sleep(0.2)
        elif self.mode == "rename":
            os.rename(self.path, self.dir / self.now)
            self.mark.unlink()
        self.now = None

    def close(self):
        self.hide()
        if self.mode == "sync":
            shutil.rmtree(self.path, ignore_errors=True)


def can_bind(work):
    if os.geteuid():
        return False
    a, b = Path(work) / "bind-a", Path(work) / "bind-b"
    a.mkdir(parents=True, exist_ok=True)
    b.mkdir(exist_ok=True)
    ok = subprocess.run(["mount", "--bind", str(a), str(b)], stderr=subprocess.DEVNULL).returncode == 0
    if ok:
        subprocess.run(["umount", str(b)], check=True)
    a.rmdir()
    b.rmdir()
    return ok


def fs_type(path):
    best = ("", "?")
    for line in Path("/proc/mounts").read_text().splitlines():
        f = line.split()
        m = f[1]
        if (os.path.realpath(path) + "/").startswith(m.rstrip("/") + "/") and len(m) >= len(best[0]):
            best = (m, f[2])
    return best[1]


def machine():
    t = subprocess.run(["lscpu"], capture_output=True, text=True, env={**os.environ, "LC_ALL": "C"}).stdout

    def g(k):
        lines = (line for line in t.splitlines() if line.strip().startswith(k + ":"))
        return next((line.split(":", 1)[1].strip() for line in lines), "?")

    memory = Path("/proc/meminfo").read_text().splitlines()
    mem = next(int(line.split()[1]) for line in memory if line.startswith("MemTotal"))
    release = Path("/etc/os-release").read_text().splitlines()
    return {
        "cpu": g("Model name"),
        "cores": os.cpu_count(),
        "caches": {k: g(k) for k in ("L1d cache", "L2 cache", "L3 cache")},
        "memory_mib": mem >> 10,
        "kernel": platform.release(),
        "system": next(
            (line.split("=")[1].strip().strip('"') for line in release if line.startswith("PRETTY_NAME")), "?"
        ),
        "python": platform.python_version(),
    }


class Bench:
    def __init__(self, a):
        self.a = a
        self.work = Path(a.work).resolve() / "peers-run"
        self.rows = []
        self.base = {}
        self.tools = []
        self.started = time.strftime("%Y-%m-%d %H:%M:%S")
        self.work.mkdir(parents=True, exist_ok=True)
        self.versions = {}
        self.missing = []
        self.stopped = False
        self.src = None
        self.log = self.work / "log"
        found = {"cutpoint": a.cutpoint, "cutpoint-exact": a.cutpoint} | dict(b.split("=", 1) for b in a.binary)
        for name in a.tools.split(","):
            if name not in KINDS:
                sys.exit(f"unknown tool {name}: {', '.join(KINDS)}")
            b = found.get(name) or (shutil.which(name, path=a.bin) if a.bin else None) or shutil.which(name)
            if b is None or shutil.which(b) is None:
                print(f"{name}: not found, left out", file=sys.stderr)
                self.missing.append(name)
                continue
            t = KINDS[name](os.path.abspath(shutil.which(b)), self.work / name)
            t.name = name
            t.clear()
            p = subprocess.run([t.bin, *t.version_args], capture_output=True, text=True, env={**os.environ, **t.env()})
            self.versions[name] = (p.stdout + p.stderr).strip().split("\n")[0]
            self.tools.append(t)
        self.mode = a.source or ("bind" if can_bind(self.work) else "rename")
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

    def list_latest(self, t):
        if not hasattr(t, "latest"):
            return

        def out(cmd):
            run(cmd, t.env(), self.work, self.log, self.a.timeout)
            return self.log.read_text(errors="replace")

        t.latest(out)

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
            all_("noop1", last, False)
            all_("noop", last, False)
            self.src.touch()
            all_("reread", last, False)  # hide() gives the old times back
            for t in live:
                t.out.mkdir()
                try:
                    self.list_latest(t)
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
            for t in live:
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


def tables(r):
    """Markdown: one table a figure, tools x sets, medians of the rounds; ratios cutpoint / peer below it."""
    rows = [x for x in r["rows"] if "error" not in x and x["set"] != "ONE"]
    sets = list(dict.fromkeys(x["set"] for x in rows))
    tools = list(dict.fromkeys(x["tool"] for x in rows))
    out = []
    tools = [t for t in KINDS if t in tools] + [t for t in tools if t not in KINDS]
    full = {
        s: max(
            (
                len(
                    {x["version"] for x in rows if x["set"] == s and x["tool"] == t and x["step"] in ("first", "later")}
                )
                for t in tools
            ),
            default=0,
        )
        for s in sets
    }

    def per_round(t, s, steps, key, how=sum):  # a value a round; none where a version is missing
        g = {}
        for x in rows:
            if x["tool"] == t and x["set"] == s and x["step"] in steps and key in x:
                g.setdefault((x.get("file", 0), x["round"]), []).append(x[key])
        want = (full[s] - 1) if steps == ("later",) else 1
        g = [how(v) for v in g.values() if len(v) >= want]
        return statistics.median(g) if g else None

    logical = {
        s: sum({x["version"]: x["logical"] for x in rows if x["set"] == s and x["step"] in ("first", "later")}.values())
        for s in sets
    }

    def sec(steps, key):
        return lambda t, s: per_round(t, s, steps, key)

    def at_end(key):
        return lambda t, s: per_round(t, s, ("later",) if full[s] > 1 else ("first",), key, lambda v: v[-1])

    def mb(f):
        return lambda t, s: None if f(t, s) is None else f(t, s) / 1e6

    def factor(t, s):
        b = at_end("repo_bytes")(t, s)
        return b and logical[s] / b

    def rate(t, s):
        c = per_round(t, s, ("first",), "cpu_net")
        later = per_round(t, s, ("later",), "cpu_net")
        if full[s] > 1 and later is None:
            return None
        c = None if c is None else c + (later or 0)
        return logical[s] / 1e6 / c if c and c > 0 else None

    figures = [
        ("Repository after the last version, MB", mb(at_end("repo_bytes")), 1),
        ("Logical bytes / repository bytes (higher is better)", factor, 2),
        ("Files in the repository", at_end("repo_files"), 0),
        ("Cache and state of the client, MB", mb(at_end("cache_bytes")), 1),
        ("First backup, CPU s", sec(("first",), "cpu"), 2),
        ("First backup, CPU s net of the start cost", sec(("first",), "cpu_net"), 2),
        ("First backup, wall s", sec(("first",), "wall"), 2),
        ("All later versions, CPU s", sec(("later",), "cpu"), 2),
        ("All later versions, CPU s net of the start cost", sec(("later",), "cpu_net"), 2),
        ("All later versions, wall s", sec(("later",), "wall"), 2),
        ("All versions, logical MB per net CPU s (higher is better)", rate, 0),
        ("Unchanged backup, CPU s", sec(("noop",), "cpu"), 3),
        ("Unchanged backup, wall s", sec(("noop",), "wall"), 3),
        ("Touched, nothing changed (all is read again), CPU s", sec(("reread",), "cpu"), 2),
        ("The same, CPU s net of the start cost", sec(("reread",), "cpu_net"), 2),
        ("The same, wall s", sec(("reread",), "wall"), 2),
        ("Restore of the last version, CPU s", sec(("restore",), "cpu"), 2),
        ("Restore of the last version, wall s", sec(("restore",), "wall"), 2),
        ("Check with all data, CPU s", sec(("check",), "cpu"), 2),
        ("Check with all data, wall s", sec(("check",), "wall"), 2),
        (
            "Peak memory of a backup, MB (largest process)",
            lambda t, s: (lambda v: v and v / 1e6)(per_round(t, s, BACKUPS, "rss", max)),
            0,
        ),
        (
            "Peak memory in any step, MB (largest process)",
            lambda t, s: (lambda v: v and v / 1e6)(per_round(t, s, STEPS, "rss", max)),
            0,
        ),
    ]
    m = r["machine"]
    out.append(
        f"{m['cpu']}, {m['cores']} cores, {m['memory_mib']} MiB, kernel {m['kernel']}, {m['system']}; "
        f"repository on {m['repository_on']}; source by {r['source']}, "
        f"{'cold' if r['cold'] else 'in the page cache'}; {r['rounds']} round(s), medians; {r['started']}\n"
    )
    out.append("| tool | version | CPU s of an unchanged run on one file | wall s |\n|---|---|---:|---:|")
    for t in tools:
        b = r["base"].get(t)
        out.append(f"| {t} | {r['versions'].get(t, '?')} | " + (f"{b['cpu']:.3f} | {b['wall']:.3f} |" if b else " | |"))
    out.append("\n| set | versions | files in the last | logical MB |\n|---|---:|---:|---:|")
    for s in sets:
        out.append(
            f"| {s} | {full[s]} | {max((x['files'] for x in rows if x['set'] == s and 'files' in x), default=0)} | "
            f"{logical[s] / 1e6:.0f} |"
        )
    for title, f, digits in figures:
        val = {(t, s): f(t, s) for t in tools for s in sets}
        if all(v is None for v in val.values()):
            continue
        out.append(f"\n**{title}**\n\n| tool | {' | '.join(sets)} |\n|---|{'---:|' * len(sets)}")
        for t in tools:
            out.append(
                f"| {t} | " + " | ".join("" if val[t, s] is None else f"{val[t, s]:.{digits}f}" for s in sets) + " |"
            )
        if "cutpoint" in tools:
            for t in tools:
                if t != "cutpoint":
                    out.append(
                        f"| *cutpoint / {t}* | "
                        + " | ".join(
                            ""
                            if val["cutpoint", s] is None or not val[t, s]
                            else f"{val['cutpoint', s] / val[t, s]:.2f}"
                            for s in sets
                        )
                        + " |"
                    )
    if r.get("missing"):
        out.append(f"\nNot measured, no binary found: {', '.join(r['missing'])}.")
    bad = [x for x in r["rows"] if "error" in x]
    if bad:
        out.append("\n**Failed steps**\n")
        out += [f"- {x['tool']} {x['set']} round {x['round']} {x['step']} {x['version']}: {x['error']}" for x in bad]
    diff = sorted({(x["tool"], x["set"], x["meta_differs"]) for x in rows if x.get("meta_differs")})
    if diff:
        out.append(
            "\nRestored with the right content, but another mode or mtime: "
            + "; ".join(f"{t} {s}: {n} files" for t, s, n in diff)
            + "."
        )
    return "\n".join(out)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--data", default="data", help="folder of the data sets")
    p.add_argument("--work", default="/dev/shm", help="repositories, caches, restored files (default: %(default)s)")
    p.add_argument("--tools", default="cutpoint,restic-debian,restic-new,bupstash,borg", help="of " + ", ".join(KINDS))
    p.add_argument("--sets", default="CODE,CODETAR,RDS,RAND")
    p.add_argument("--cutpoint", default="target/release/cutpoint", help="binary of cutpoint")
    p.add_argument("--bin", help="folder with the peers' binaries under the tools' names (else PATH)")
    p.add_argument("--binary", action="append", default=[], metavar="TOOL=PATH", help="binary of one tool")
    p.add_argument("--rounds", type=int, default=1)
    p.add_argument("--versions", type=int, default=0, help="only the first N versions")
    p.add_argument(
        "--source",
        choices=["bind", "rename", "sync"],
        help="how a version gets to the one source path (default: bind if allowed, else rename)",
    )
    p.add_argument(
        "--cold", action="store_true", help="drop the page cache before each step (root; give --work on a real disk)"
    )
    p.add_argument("--timeout", type=int, default=1800, help="seconds for one step")
    p.add_argument(
        "--out", action="append", default=[], metavar="FILE.json|FILE.csv", help="raw rows; may be given more than once"
    )
    p.add_argument("--report", nargs="+", metavar="FILE.json", help="only print the tables of stored results")
    a = p.parse_args()
    if a.report:
        rs = [json.loads(Path(f).read_text()) for f in a.report]
        r = rs[0]
        for k, x in enumerate(rs[1:], 1):
            r["rows"] += [row | {"file": k} for row in x["rows"]]
            r["versions"] |= x["versions"]
            r["base"] |= x["base"]
        print(tables(r))
        return
    if a.cold and not os.access("/proc/sys/vm/drop_caches", os.W_OK):
        sys.exit("--cold needs root")
    signal.signal(signal.SIGTERM, lambda *_: (_ for _ in ()).throw(KeyboardInterrupt()))
    b = Bench(a)
    if a.cold and fs_type(b.work) == "tmpfs":
        print("--cold with --work on a tmpfs: the repository is not cold", file=sys.stderr)
    r = b.go()
    print("\n" + tables(r))
    if b.stopped:
        sys.exit(130)
    if any("error" in x for x in r["rows"]):
        sys.exit(2)


if __name__ == "__main__":
    main()
