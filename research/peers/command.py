"""One measured command: its time, its CPU and its memory."""

import contextlib
import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

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


# The starters that are at work, each the head of a process group of its own.
RUNNING = set()


class PeerError(Exception):
    pass


def stop_running():
    """Ends all commands, also those that other threads wait for."""
    for pid in list(RUNNING):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)


@dataclass
class Ended:
    """The end of a command: its cost and its exit code."""

    wall_s: float
    user_s: float
    system_s: float
    rss_bytes: int
    code: int

    @property
    def cpu_s(self):
        return self.user_s + self.system_s


def spawn(command, environment, folder, log, timeout_s):
    """Runs a command in `folder`, with its output in `log`. Wall time is from before fork to after exit, CPU time and
    memory (of the largest process) are of it and the children that it waited for."""
    starter = [sys.executable, "-I", "-S", "-c", SPAWN, str(log), str(folder), *(str(word) for word in command)]
    process = subprocess.Popen(
        starter,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
        text=True,
    )
    RUNNING.add(process.pid)
    try:
        output, errors = process.communicate(timeout=timeout_s)
    except BaseException as error:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        if isinstance(error, subprocess.TimeoutExpired):
            raise PeerError(f"not done after {timeout_s} s") from None
        raise
    finally:
        RUNNING.discard(process.pid)
    fields = output.split()
    if len(fields) != 5:
        raise PeerError(f"not started: {errors.strip()[-300:]}")
    wall_s, user_s, system_s = map(float, fields[:3])
    return Ended(wall_s, user_s, system_s, int(fields[3]) * 1024, int(fields[4]))


def run(cmd, env, cwd, log, limit):
    """Runs a command with no other variables than `env` and the PATH. Returns its cost; fails if its exit code is not
    0, with the end of its output."""
    ended = spawn(cmd, {"PATH": os.environ["PATH"], "LANG": "C.UTF-8", **env}, cwd, log, limit)
    if ended.code:
        text = Path(log).read_text(errors="replace").strip() if os.path.exists(log) else ""
        raise PeerError(f"exit {ended.code}: {' | '.join(text.splitlines()[-4:])[-500:]}")
    return {"wall": ended.wall_s, "user": ended.user_s, "sys": ended.system_s, "rss": ended.rss_bytes}
