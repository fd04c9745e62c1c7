#!/usr/bin/env python3
"""Runs the commands of `docs/volume.md` as they are printed there: a disk with a database is served, snapshotted,
cloned, killed, rolled back, backed up and restored, and the rows of the database are counted after each step.

Needs root, PostgreSQL, `nbdfuse` (or the kernel's NBD client), `losetup` and `unshare`. `/srv` is a new tmpfs that no
other process sees. Differences from the page: the passphrase comes from the variable, paths of devices are those that
`connect` prints, and the section on systemd is left out.
"""

import argparse
import contextlib
import os
import re
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from disk import DiskError, Process, call, end_on_signals, remove_leftovers, wait_until

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/volume.md"
FOLDER = Path("/srv")
# The variable that tells the script that it has its own `/srv`.
IS_ALONE = "CUTPOINT_VOLUME_WALKTHROUGH"
# Commands that run until Ctrl-C, each in a terminal of its own, and what they print once they can be used.
FOREGROUND = {"cutpoint volume serve": r"served at", "cutpoint volume connect": r"(/dev/\w+)"}


class Page:
    """The commands of a page by its headings."""

    def __init__(self, path: Path) -> None:
        self.sections = {}
        for section in path.read_text().split("\n## ")[1:]:
            heading, _, text = section.partition("\n")
            self.sections[heading] = text

    def block(self, heading: str, beginning: str) -> str:
        """Returns the block of commands that begins with `beginning`."""
        for block in re.findall(r"^```sh[^\n]*\n(.*?)^```", self.sections[heading], re.DOTALL | re.MULTILINE):
            if block.startswith(beginning):
                return block
        raise DiskError(f"{PAGE.name}, {heading}: no block begins with {beginning!r}")

    def line(self, heading: str, part: str) -> str:
        """Returns the line of a block of commands that has `part`."""
        found = [line for line in self.sections[heading].splitlines() if part in line]
        if len(found) != 1:
            raise DiskError(f"{PAGE.name}, {heading}: {len(found)} lines have {part!r}")
        return found[0]

    def items(self, heading: str) -> list[list[str]]:
        """Returns the commands of each item of a numbered list."""
        items = re.split(r"^\d\. ", self.sections[heading], flags=re.MULTILINE)[1:]
        commands = "cutpoint|mount|umount|runuser"
        return [re.findall(rf"`((?:{commands}) [^`]+)`", item.partition("\n\n")[0]) for item in items]


class Terminals:
    """The shells in which the commands run."""

    def __init__(self, work: Path) -> None:
        self.work = work
        # The commands in the foreground, by their texts.
        self.running: dict[str, Process] = {}
        # The device of each path on the page, in the order of `connect`.
        self.devices: dict[str, str] = {}

    def type(self, commands: str) -> str:
        """Runs commands, and returns what they print. Those of `FOREGROUND` stay."""
        printed, ordinary = "", []
        for line in commands.strip().splitlines():
            words = next((words for words in FOREGROUND if line.startswith(words)), None)
            if words and not line.endswith("&"):
                printed += self.ordinary(ordinary)
                ordinary = []
                self.start(line, FOREGROUND[words])
            else:
                ordinary.append(line)
        return printed + self.ordinary(ordinary)

    def ordinary(self, lines: list[str]) -> str:
        text = "\n".join(lines)
        for path, device in self.devices.items():
            text = text.replace(path, device)
        return call(["bash", "-ec", f"exec 2>&1\n{text}"], cwd=FOLDER) if text else ""

    def start(self, line: str, ready: str) -> None:
        """Starts a command in the foreground, and waits until it can be used."""
        command, _, comment = line.partition("#")
        if "Ctrl-C at the other one" in comment:
            self.end(list(self.running)[-1])
        command = command.strip()
        output = self.work / "output"
        with output.open("w") as file:
            words = ["bash", "-c", f"exec {command}"]
            self.running[command] = process = Process(words, cwd=FOLDER, stdout=file, stderr=file)

        def found():
            return re.search(ready, output.read_text())

        wait_until(lambda: found() or process.child.poll() is not None, command)
        if not (said := found()):
            raise DiskError(f"{command} ended: {output.read_text()}")
        if said.groups():
            number = sum(words.startswith("cutpoint volume connect") for words in self.running) - 1
            self.devices[f"/dev/nbd{number}"] = said.group(1)

    def end(self, beginning: str, number: int = signal.SIGINT) -> None:
        """Ends the last command that begins so by a signal."""
        command = [command for command in self.running if command.startswith(beginning)][-1]
        code = self.running.pop(command).end(number)
        if number == signal.SIGINT and code:
            raise DiskError(f"{command} ended with {code} after Ctrl-C")

    def end_all(self) -> None:
        for process in reversed(self.running.values()):
            process.end()


class Story:
    """The steps of the page, with what the database must have after each."""

    def __init__(self, page: Page, terminals: Terminals) -> None:
        self.page, self.terminals = page, terminals
        self.type = terminals.type
        self.start = page.line("A database on a disk", "-w start")
        self.stop = page.line("A database on a disk", "-w stop")
        self.mount = "mount -o discard /dev/nbd0 /srv/db"
        programs = page.line("A database on a disk", "PATH=$PATH")
        os.environ["PATH"] += programs.removeprefix("PATH=$PATH")

    def psql(self, text: str, port: int = 5433) -> str:
        words = ["runuser", "-u", "postgres", "--", "psql", "-h", "/tmp", "-p", str(port), "-XAtqc", text]
        return call(words, cwd="/").strip()

    def expect_rows(self, least: int, most: int, port: int = 5433) -> None:
        count = int(self.psql("select count(distinct id) from t", port))
        if not least <= count <= most:
            raise DiskError(f"the table has {count} rows, expected {least} to {most}")
        print(f"  {count} rows", flush=True)

    def take_down(self) -> None:
        """Stops the database and everything below it."""
        self.type(f"{self.stop}\numount /srv/db")
        self.terminals.end("cutpoint volume connect")
        self.terminals.end("cutpoint volume serve")

    def serve_and_use(self) -> None:
        """Puts everything up again that `take_down` has ended."""
        self.type(f"cutpoint volume serve vol\ncutpoint volume connect vol\n{self.mount}\n{self.start}")

    def quick_start(self) -> None:
        self.type(self.page.block("Quick start", "cutpoint volume create vol"))
        self.type(self.page.block("Quick start", "modprobe nbd").replace("modprobe nbd", "modprobe nbd || true"))
        self.type(self.page.block("Quick start", "mkfs.ext4"))

    def database(self) -> None:
        self.type(self.page.block("A database on a disk", "install -d"))
        self.type(self.start)
        self.expect_rows(1000, 1000)

    def snapshots_and_clones(self) -> None:
        heading = "Snapshots and clones"
        listed = self.type(self.page.block(heading, "cutpoint volume snapshot vol main before-upgrade"))
        if "before-upgrade" not in listed or "test" not in listed:
            raise DiskError(f"not listed: {listed}")
        self.type(self.page.block(heading, "fsfreeze"))
        self.psql("insert into t select generate_series(1001, 1500)")
        self.type("cutpoint volume connect vol test")
        self.type(self.page.block(heading, "mkdir /srv/test"))
        self.expect_rows(1000, 1000, 5434)
        self.type(self.stop.replace("/srv/db", "/srv/test") + "\numount /srv/test")
        self.terminals.end("cutpoint volume connect vol test")
        self.expect_rows(1500, 1500)

    def crash(self) -> None:
        """Kills the server while the database confirms rows."""
        server, confirmed = self.terminals.running["cutpoint volume serve vol"], 1500
        database = (FOLDER / "db/data/postmaster.pid").read_text().split()[0]
        with contextlib.suppress(DiskError):
            while confirmed < 20_000:
                self.psql(f"insert into t values ({confirmed + 1})")
                confirmed += 1
                if confirmed == 1600:
                    os.kill(server.pid, signal.SIGKILL)
        if confirmed == 20_000:
            raise DiskError("the database goes on without its disk")
        self.terminals.end("cutpoint volume serve", signal.SIGKILL)
        end, unmount, serve, use = self.page.items("After a crash")
        with contextlib.suppress(DiskError):
            self.type(end[0])
        # A first process of a container may take long to collect the status of the one that has ended.
        wait_until(lambda: not Path("/proc", database).exists(), "the end of the database", 120)
        self.type(unmount[0])
        self.terminals.end("cutpoint volume connect", signal.SIGTERM)
        self.type("\n".join([*serve, *use, self.start]))
        # The last row was perhaps committed, but not confirmed.
        self.expect_rows(confirmed, confirmed + 1)

    def go_back(self) -> None:
        self.take_down()
        self.type(self.page.block("Snapshots and clones", "cutpoint volume rollback"))
        self.type(f"cutpoint volume connect vol\n{self.mount}\n{self.start}")
        self.expect_rows(1000, 1000)

    def backup_and_restore(self) -> None:
        heading = "Backup and restore"
        monday, tuesday = self.page.block(heading, "cutpoint volume snapshot vol main monday").split("\n\n")
        self.type(monday)
        self.psql("insert into t select generate_series(1001, 3000)")
        said = self.type(tuesday)
        print("  " + "\n  ".join(said.strip().splitlines()))
        self.terminals.end("cutpoint volume connect vol main@tuesday")
        self.take_down()
        self.type(self.page.block(heading, "cutpoint volume import"))
        self.type("cutpoint volume serve vol\ncutpoint volume connect vol restored")
        self.type(self.mount + "\nrm /srv/db/data/postmaster.pid\n" + self.start)
        self.expect_rows(3000, 3000)
        print("  " + self.type("cutpoint volume check vol").strip())
        self.take_down()

    def without_a_terminal(self) -> None:
        """Starts a server in the background, behind one that was killed."""
        self.type("cutpoint volume serve vol")
        self.terminals.end("cutpoint volume serve", signal.SIGKILL)
        block = self.page.block("Quick start", "rm -f vol/nbd.socket").replace("the passphrase", "page")
        self.type(block.replace("--quiet &", "--quiet >/dev/null 2>&1 &") + "kill $!; wait $!")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", type=Path, required=True, help="cutpoint")
    args = parser.parse_args()
    if os.geteuid() != 0:
        parser.error("mounts need root")
    if IS_ALONE not in os.environ:
        words = ["unshare", "--mount", "--propagation", "private", sys.executable, *sys.argv]
        return subprocess.run(words, env=os.environ | {IS_ALONE: "1"}, check=False).returncode
    end_on_signals()
    call(["mount", "-t", "tmpfs", "-o", "mode=755", "tmpfs", FOLDER])
    with tempfile.TemporaryDirectory() as work:
        program = Path(work) / "bin/cutpoint"
        program.parent.mkdir()
        program.symlink_to(args.program.resolve())
        os.environ["PATH"] = f"{program.parent}:{os.environ['PATH']}"
        os.environ |= {"CUTPOINT_PASSPHRASE": "page", "HOME": work}
        terminals = Terminals(Path(work))
        story = Story(Page(PAGE), terminals)
        steps = (story.quick_start, story.database, story.snapshots_and_clones, story.crash, story.go_back)
        try:
            for step in (*steps, story.backup_and_restore, story.without_a_terminal):
                print(step.__name__, flush=True)
                step()
        except (DiskError, OSError, subprocess.TimeoutExpired) as error:
            print(f"FAILED: {error}", flush=True)
            for log in FOLDER.glob("*/data/log"):
                print(log, *log.read_text().splitlines()[-20:], sep="\n  ")
            return 1
        finally:
            for data in ("/srv/db/data", "/srv/test/data"):
                with contextlib.suppress(DiskError):
                    call(["runuser", "-u", "postgres", "--", "pg_ctl", "-D", data, "-m", "immediate", "stop"], cwd="/")
            terminals.end_all()
            remove_leftovers(FOLDER)
    return 0


if __name__ == "__main__":
    sys.exit(main())
