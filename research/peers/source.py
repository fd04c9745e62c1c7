"""The versions of a set, each shown at one and the same path."""

import os
import shutil
import subprocess
import time
from pathlib import Path

from files import files


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
