"""The programs that are measured: the commands of each step, a class per program."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from command import PeerError

PASS = "measured-not-secret"


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

    def optimize(self):
        return None

    def find_latest(self):
        """Looks up the name of the newest snapshot for `restore`, if the tool has no word for it."""

    def output(self, command):
        environment = os.environ | self.env()
        done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
        if done.returncode:
            raise PeerError(f"exit {done.returncode}: {done.stderr.strip()[-500:]}")
        return done.stdout

    def version(self):
        done = subprocess.run(
            [self.bin, *self.version_args], capture_output=True, text=True, env={**os.environ, **self.env()}
        )
        return (done.stdout + done.stderr).strip().split("\n")[0]


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


class CutpointMax(Cutpoint):
    name = "cutpoint-max"

    def init(self):
        return [[*super().init()[0], "--mode", "max"]]

    def optimize(self):
        return [self.bin, "optimize", "--wait", "--settle", "0s", *self.opt()]


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

    def find_latest(self):
        ids = re.findall(r'id="([0-9a-f]+)"', self.output([self.bin, "list", "--quiet", "set=bench"]))
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
    "cutpoint-max": CutpointMax,
    "restic-debian": Restic,
    "restic-new": Restic,
    "restic": Restic,
    "rustic": Rustic,
    "bupstash": Bupstash,
    "borg": Borg,
}


def find(names, work, options):
    """Returns those of the tools `names` whose programs are there, and the names of the others.

    A program is `options.cutpoint` for all forms of cutpoint, or is named by `options.binary`, or lies under the tool's
    name in `options.bin`, or on the PATH.
    """
    given = {name: options.cutpoint for name in KINDS if name.startswith("cutpoint")}
    given |= dict(each.split("=", 1) for each in options.binary)
    found, missing = [], []
    for name in names:
        if name not in KINDS:
            sys.exit(f"unknown tool {name}: {', '.join(KINDS)}")
        program = given.get(name) or (options.bin and shutil.which(name, path=options.bin)) or name
        program = shutil.which(program)
        if program is None:
            print(f"{name}: not found, left out", file=sys.stderr)
            missing.append(name)
            continue
        tool = KINDS[name](os.path.abspath(program), Path(work) / name)
        tool.name = name
        tool.clear()
        found.append(tool)
    return found, missing
