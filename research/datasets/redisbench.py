#!/usr/bin/env python3
"""RDS-BENCH: snapshots (RDB, not compressed) of a Redis server under redis-benchmark, as the SeqCDC papers took them
(100 there, 12 here).

The server first gets its keys, with redis-benchmark's own values of three letters, always the same. From one snapshot
to the next redis-benchmark writes, by its own chance, a five-thousandth as many times to each of: the keys, counters,
lists, a set, hashes and a sorted set. A key that is written again is as it was: what changes is what is new, and where
the rest lies in the file. `rds.py` is the harder load: there each record has contents of its own, and every tenth
changes.
"""

import os
import shutil
import socket
import subprocess
import time
from pathlib import Path

from common import DAY_S, START_S, fact, fail, need, number, run, said, scratch, version_folder, versions

server = need("redis-server", "redis-server")
client = need("redis-cli", "redis-tools")
load = need("redis-benchmark", "redis-tools")
count = versions(12)
keys = max(1000, number("BYTES", count * (80 << 20)) // count // 24)
fact(redis_server=run(server, "--version").split()[2].removeprefix("v="), keys=keys)
with socket.socket() as free:
    free.bind(("127.0.0.1", 0))
    port = str(free.getsockname()[1])


def write(tests, requests, *more):
    run(load, "-p", port, "-q", "-c", 10, "-P", 16, "-r", keys, "-n", requests, "-t", tests, *more)


with scratch() as work:
    process = subprocess.Popen(
        [server, "--port", port, "--bind", "127.0.0.1", "--dir", work, "--save", "", "--rdbcompression", "no"],
        stdout=subprocess.DEVNULL,
    )
    try:
        for _ in range(100):
            if (
                subprocess.run(
                    [client, "-p", port, "ping"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
                ).returncode
                == 0
            ):
                break
            if process.poll() is not None:
                fail(f"redis-server ended with {process.returncode}")
            time.sleep(0.1)
        else:
            fail("redis-server does not answer")
        write("set", 3 * keys)  # by chance: 95 % of the keys come to be
        for version in range(1, count + 1):
            if version > 1:
                write("set,incr,lpush,rpush,sadd,hset,zadd", max(16, keys // 5000))
            folder = version_folder("RDS-BENCH", version)
            run(client, "-p", port, "save")
            shutil.move(Path(work, "dump.rdb"), folder / "dump.rdb")
            os.utime(folder / "dump.rdb", (START_S + version * DAY_S,) * 2)
            said("RDS-BENCH", version)
    finally:
        process.terminate()
        process.wait()
