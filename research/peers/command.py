"""One measured command: its time, its CPU and its memory."""

import os
import signal
import subprocess
import sys
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


class PeerError(Exception):
    pass


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
