#!/usr/bin/env python3
# PG, SQLDUMP: 6 states of one PostgreSQL database under pgbench's load (TPC-B-like): the raw folder, copied by pg_basebackup
# while the load runs, and the dump as SQL text (pg_dump) at the same moment. SCALE=10 is about 150 MiB of tables.
# How far the load gets between two states is counted in transactions, not in seconds; what it does is pgbench's chance.
import os, pwd, shutil, socket, subprocess, sys, tempfile
data = os.path.abspath(os.environ.get("DATA", "data")); scale = os.environ.get("SCALE", "10"); transactions = os.environ.get("TRANSACTIONS", "20000")
bin = subprocess.run(["pg_config", "--bindir"], capture_output=True, text=True, check=True).stdout.strip()
w = tempfile.mkdtemp(); user = "postgres" if os.getuid() == 0 else pwd.getpwuid(os.getuid()).pw_name
if os.getuid() == 0: shutil.chown(w, user)   # the server refuses to be root
def command(name, *args): return (["runuser", "-u", user, "--"] if os.getuid() == 0 else []) + [f"{bin}/{name}", *args]
def run(name, *args):
    ran = subprocess.run(command(name, *args), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, cwd=w)
    if ran.returncode != 0: sys.exit(f"{name}: {ran.stderr}")
s = socket.socket(); s.bind(("127.0.0.1", 0)); port = str(s.getsockname()[1]); s.close()
to = ["-h", w, "-p", port, "-U", user]
try:
    run("initdb", "-D", w + "/db", "-U", user, "-E", "UTF8", "--no-locale", "--no-sync")
    run("pg_ctl", "-D", w + "/db", "-w", "-l", w + "/log", "-o", f"-p {port} -k {w} -c listen_addresses= -c fsync=off -c max_wal_size=64MB", "start")
    run("createdb", *to, "bench"); run("pgbench", *to, "-q", "-i", "-s", scale, "bench")
    for v in range(1, 7):
        if v > 1: run("pgbench", *to, "-n", "-c", "4", "-t", str(int(transactions) // 4), "bench")
        load = subprocess.Popen(command("pgbench", *to, "-n", "-c", "2", "-T", "600", "bench"), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=w)
        b = f"{w}/v{v:02d}"; run("pg_basebackup", *to, "-D", b, "-X", "stream", "-c", "fast")
        load.terminate(); load.wait()
        for made, name in ((b, "PG"), (f"{w}/dump.sql", "SQLDUMP")):
            d = f"{data}/{name}/v{v:02d}"
            if name == "SQLDUMP": run("pg_dump", *to, "-f", made, "bench"); os.makedirs(d, exist_ok=True); d += "/dump.sql"
            shutil.move(made, d)
        print(f"v{v:02d}", file=sys.stderr, flush=True)
finally:
    subprocess.run(command("pg_ctl", "-D", w + "/db", "-m", "immediate", "stop"), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=w); shutil.rmtree(w, ignore_errors=True)
