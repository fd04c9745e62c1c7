#!/usr/bin/env python3
"""PG, SQLDUMP, TPCC, TPCC-DUMP: states of a PostgreSQL database under load.

PG, SQLDUMP      pgbench's own load (like TPC-B): the raw folder, copied by pg_basebackup while the load runs, and the
                 dump as SQL text at the same moment. How far the load gets is counted in transactions; what it does is
                 pgbench's chance. SCALE=10 is about 150 MiB.
TPCC, TPCC-DUMP  order entry like TPC-C (pgsql/): its nine tables, five transactions and their shares, run by pgbench
                 with one client; the raw folder after the server was stopped, and the dump. The SeqCDC papers took 25
                 snapshots of a MySQL machine. Rows and load follow from the seed, so the dumps are the same each time
                 (with the same PostgreSQL); the raw folders hold times and identifiers of the server's own. Not by the
                 standard: no terminals that think, fewer rows if BYTES says so.
"""

import os
import pwd
import shutil
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

from common import DATA, DAY_S, START_S, fact, fail, need, number, seed, versions, wanted

programs = subprocess.run(
    [need("pg_config", "postgresql libpq-dev"), "--bindir"], capture_output=True, text=True, check=True
).stdout.strip()
user = "postgres" if os.getuid() == 0 else pwd.getpwuid(os.getuid()).pw_name  # the server refuses to be root


def command(name, *args):
    program = shutil.which(name, path=programs) or need(name, "postgresql")
    return (["runuser", "-u", user, "--"] if os.getuid() == 0 else []) + [program, *args]


class Server:
    """A server of our own below a folder of our own."""

    def __init__(self, settings="", init=()):
        self.folder = tempfile.mkdtemp()
        self.settings = settings
        if os.getuid() == 0:
            shutil.chown(self.folder, user)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = str(free.getsockname()[1])
        self.to = ["-h", self.folder, "-p", self.port, "-U", user]
        self.run("initdb", "-D", self.folder + "/db", "-U", user, "-E", "UTF8", "--no-locale", "--no-sync", *init)
        self.start()

    def run(self, name, *args):
        ran = subprocess.run(
            command(name, *args), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, cwd=self.folder
        )
        if ran.returncode != 0:
            fail(f"{name}: {ran.stderr}")

    def start(self):
        self.run(
            "pg_ctl",
            "-D",
            self.folder + "/db",
            "-w",
            "-l",
            self.folder + "/log",
            "-o",
            f"-p {self.port} -k {self.folder} -c listen_addresses= -c fsync=off {self.settings}",
            "start",
        )

    def stop(self):
        self.run("pg_ctl", "-D", self.folder + "/db", "-w", "-m", "fast", "stop")

    def sql(self, database, *words):
        self.run("psql", *self.to, "-d", database, "-q", "-v", "ON_ERROR_STOP=1", *words)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        subprocess.run(
            command("pg_ctl", "-D", self.folder + "/db", "-m", "immediate", "stop"),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd=self.folder,
        )
        shutil.rmtree(self.folder, ignore_errors=True)

    def dump(self, database, name, version):
        """The dump as SQL text. Since 2025 it begins and ends with a random word, if none is given."""
        made = f"{self.folder}/dump.sql"
        word = (
            ["--restrict-key=lab"]
            if "--restrict-key" in subprocess.run(command("pg_dump", "--help"), capture_output=True, text=True).stdout
            else []
        )
        self.run("pg_dump", *self.to, *word, "-f", made, database)
        self.keep(made, name, version, "dump.sql")

    def keep(self, made, name, version, inside=""):
        """Moves what was made to its place."""
        target = Path(DATA, name, f"v{version:02d}")
        shutil.rmtree(target, ignore_errors=True)
        if inside:
            target.mkdir(parents=True)
            target /= inside
        else:
            target.parent.mkdir(parents=True, exist_ok=True)
        shutil.move(made, target)
        if inside:
            os.utime(target, (START_S + version * DAY_S,) * 2)
        print(f"{name} v{version:02d}", file=sys.stderr, flush=True)


def pgbench_load(names, count):
    share = number("BYTES", None)
    per_version = share and share // count
    scale = number(
        "SCALE",
        10
        if not share
        else max(1, (per_version - (55 << 20)) // (15 << 20) if "PG" in names else per_version // (10 << 20)),
    )
    transactions = number("TRANSACTIONS", 2000 * scale)
    fact(pgbench_scale=scale)
    with Server("-c max_wal_size=64MB") as server:
        server.run("createdb", *server.to, "bench")
        server.run("pgbench", *server.to, "-q", "-i", "-s", str(scale), "bench")
        for v in range(1, count + 1):
            if v > 1:
                server.run("pgbench", *server.to, "-n", "-c", "4", "-t", str(transactions // 4), "bench")
            if "PG" in names:
                load = subprocess.Popen(
                    command("pgbench", *server.to, "-n", "-c", "2", "-T", "600", "bench"),
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    cwd=server.folder,
                )
                made = f"{server.folder}/copy"
                server.run("pg_basebackup", *server.to, "-D", made, "-X", "stream", "-c", "fast")
                load.terminate()
                load.wait()
                server.keep(made, "PG", v)
            if "SQLDUMP" in names:
                server.dump("bench", "SQLDUMP", v)


def order_entry_load(names, count):
    start = seed(20260801)
    per_version = number("BYTES", count * (200 << 20)) // count
    # A whole warehouse has about 100 MiB in the raw folder, 68 MiB in a dump; the empty server 13 MiB.
    whole = max(0.01, (per_version - (13 << 20)) / (100 << 20) if "TPCC" in names else per_version / (68 << 20))
    warehouses = max(1, round(whole))
    items = max(500, round(100_000 * whole / warehouses))
    customers = max(30, round(3000 * whole / warehouses))
    transactions = number("TRANSACTIONS", max(20, round(150 * whole)))
    fact(warehouses=warehouses, items=items, customers_of_a_district=customers, transactions=transactions)
    given = [
        f"{key}={value}"
        for key, value in (
            ("warehouses", warehouses),
            ("items", items),
            ("customers", customers),
            ("seed", start % 2**31),
        )
    ]
    scripts = Path(__file__).resolve().parent / "pgsql"
    with Server(
        "-c autovacuum=off -c min_wal_size=2MB -c max_wal_size=2MB -c max_parallel_workers_per_gather=0 "
        "-c synchronize_seqscans=off",
        ["--wal-segsize=1"],
    ) as server:
        for script in scripts.iterdir():
            shutil.copy(script, server.folder)
            os.chmod(Path(server.folder, script.name), 0o644)
        server.run("createdb", *server.to, "tpcc")
        server.sql("tpcc", *(word for pair in given for word in ("-v", pair)), "-f", "load.sql")
        for database in (
            "template1",
            "template0",
            "postgres",
        ):  # they would be the same in each version, and as large as the rest of a small one
            server.sql(
                "tpcc",
                "-c",
                f"update pg_database set datistemplate = false where datname = '{database}'",
                "-c",
                f"drop database {database}",
            )
        for v in range(1, count + 1):
            if v > 1:
                shares = ("new_order", 45), ("payment", 43), ("order_status", 4), ("delivery", 4), ("stock_level", 4)
                server.run(
                    "pgbench",
                    *server.to,
                    "-n",
                    "-c",
                    "1",
                    "-t",
                    str(transactions),
                    f"--random-seed={start % 2**31 + v}",
                    *(word for pair in given for word in ("-D", pair)),
                    *(word for name, share in shares for word in ("-f", f"{name}.sql@{share}")),
                    "tpcc",
                )
            server.sql(
                "tpcc", "-c", "vacuum"
            )  # no analyze: its sample is by chance, and with it the order in which rows are updated
            if "TPCC-DUMP" in names:
                server.dump("tpcc", "TPCC-DUMP", v)
            if "TPCC" in names:
                server.stop()
                made = f"{server.folder}/copy"
                shutil.copytree(server.folder + "/db", made)
                os.remove(made + "/postmaster.opts")
                server.keep(made, "TPCC", v)
                server.start()


if __name__ == "__main__":
    fact(
        postgresql=subprocess.run(
            [shutil.which("postgres", path=programs) or need("postgres", "postgresql"), "--version"],
            capture_output=True,
            text=True,
            check=True,
        ).stdout.split()[2]
    )
    for load, all_of_it, default in (
        (pgbench_load, ("PG", "SQLDUMP"), 6),
        (order_entry_load, ("TPCC", "TPCC-DUMP"), 8),
    ):
        if wanted(*all_of_it):
            load(wanted(*all_of_it), versions(default))
