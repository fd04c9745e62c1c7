#!/usr/bin/env python3
# SQLITE: 6 states of one SQLite database of about 150 MiB (4 KiB pages) under an order-entry load, closed before each
# copy. Between two states: orders of the day (3 % new, the oldest 1 % deleted), 2 % of the customers and 5 % of the
# stock rows updated (popular ones more often), an event log that grows and is trimmed. B-tree pages split, free pages
# are used again. Everything follows from the seed and SQLite's own version.
import os
import random
import shutil
import sqlite3
import tempfile
from pathlib import Path

from common import DATA, fact, number, seed, versions

VERSIONS = versions(6)
rng = random.Random(seed(20260301))
fact(sqlite=sqlite3.sqlite_version)
T0 = 1700000000
words = [word.lower() for word in Path("/usr/share/common-licenses/GPL-3").read_text().split() if word.isalpha()]


def text(n):
    return " ".join(rng.choices(words, k=n))


w = tempfile.mkdtemp(dir=os.environ.get("TMPDIR"))
db = w + "/app.db"
c = sqlite3.connect(db, isolation_level=None)
c.executescript("""pragma page_size=4096; pragma journal_mode=off; pragma synchronous=off; pragma cache_size=-400000;
create table customer(id integer primary key, name text, email text, balance int, seen int, address text);
create unique index customer_email on customer(email);
create table item(id integer primary key, sku text, title text, price int, stock int, sold int);
create table orders(id integer primary key, customer int, at int, state text, total int, note text);
create index orders_customer on orders(customer, at);
create table line(order_id int, n int, item int, qty int, price int, primary key(order_id, n)) without rowid;
create table event(id integer primary key, at int, kind text, body text);
create index event_at on event(kind, at);""")
FULL = 155 << 20
share = number("BYTES", VERSIONS * FULL) / VERSIONS / FULL  # of the rows
customer_count, item_count, order_count, event_count = (
    max(100, round(rows * share)) for rows in (205_000, 95_000, 525_000, 415_000)
)
now = T0
next_o = 1
old_o = 1
next_e = 1
old_e = 1


def zipf(n):
    return min(n - 1, int(n * rng.random() ** 2.5)) + 1


def order(day):
    global next_o, now
    now += rng.randrange(3)
    lines = [
        (next_o, k, zipf(item_count), rng.randrange(1, 5), rng.randrange(100, 20000))
        for k in range(rng.randrange(1, 6))
    ]
    cu = zipf(customer_count)
    c.execute(
        "insert into orders values(?,?,?,?,?,?)",
        (
            next_o,
            cu,
            now,
            rng.choice(["new", "paid", "sent"]),
            sum(each[3] * each[4] for each in lines),
            text(rng.randrange(0, 8)),
        ),
    )
    c.executemany("insert into line values(?,?,?,?,?)", lines)
    if day:
        c.executemany(
            "update item set stock = stock - ?, sold = sold + ? where id = ?",
            [(each[3], each[3], each[2]) for each in lines],
        )
        c.execute("update customer set balance = balance + ?, seen = ? where id = ?", (lines[0][4], now, cu))
    next_o += 1


def event():
    global next_e
    c.execute(
        "insert into event values(?,?,?,?)",
        (
            next_e,
            now + next_e % 60,
            rng.choice(["login", "view", "cart", "error"]),
            f'{{"ip":"10.{rng.randrange(256)}.{rng.randrange(256)}.{rng.randrange(256)}",'
            f'"ref":"{rng.randbytes(8).hex()}","q":"{text(rng.randrange(2, 9))}"}}',
        ),
    )
    next_e += 1


c.execute("begin")
for i in range(1, customer_count + 1):
    c.execute(
        "insert into customer values(?,?,?,?,?,?)",
        (
            i,
            f"{rng.choice(words)} {rng.choice(words)}",
            f"{rng.choice(words)}.{i}@mail{rng.randrange(9)}.example",
            rng.randrange(10**5),
            now,
            text(12),
        ),
    )
for i in range(1, item_count + 1):
    c.execute(
        "insert into item values(?,?,?,?,?,?)",
        (i, f"{rng.randbytes(6).hex()}", text(rng.randrange(3, 10)), rng.randrange(100, 20000), rng.randrange(500), 0),
    )
for _ in range(order_count):
    order(False)
for _ in range(event_count):
    event()
c.execute("commit")
for v in range(1, VERSIONS + 1):
    if v > 1:
        c.execute("begin")
        now = T0 + v * 86400
        for _ in range(order_count * 3 // 100):
            order(True)
        for _ in range(event_count * 6 // 100):
            event()
        cut = old_o + order_count // 100
        c.execute("delete from line where order_id < ?", (cut,))
        c.execute("delete from orders where id < ?", (cut,))
        old_o = cut
        old_e += event_count * 4 // 100
        c.execute("delete from event where id < ?", (old_e,))
        for _ in range(customer_count * 2 // 100):
            c.execute(
                "update customer set seen = ?, balance = ? where id = ?",
                (now, rng.randrange(10**5), zipf(customer_count)),
            )
        for _ in range(item_count * 5 // 100):
            c.execute(
                "update item set price = ?, stock = stock + ? where id = ?",
                (rng.randrange(100, 20000), rng.randrange(50), zipf(item_count)),
            )
        for _ in range(order_count * 2 // 100):
            c.execute(
                "update orders set state = 'done' where id = ?",
                (rng.randrange(max(old_o, next_o - order_count // 5), next_o),),
            )
        c.execute("commit")
    c.close()
    d = f"{DATA}/SQLITE/v{v:02d}"
    os.makedirs(d, exist_ok=True)
    shutil.copyfile(db, d + "/app.db")
    os.utime(d + "/app.db", (T0 + v * 86400,) * 2)
    print(f"v{v:02d}", os.path.getsize(db) >> 20, "MiB", flush=True)
    c = sqlite3.connect(db, isolation_level=None)
    c.executescript("pragma journal_mode=off; pragma synchronous=off; pragma cache_size=-400000;")
c.close()
shutil.rmtree(w)
