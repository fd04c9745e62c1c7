#!/usr/bin/env python3
"""LOGS: the folder of logs of a server, once a day: a web server's log, a program's lines of JSON, and the system's
log.

Logs rotate at midnight: NAME becomes NAME.1, NAME.1 becomes NAME.2, and so on; NAME.7 is deleted. A version is taken at
noon, so that NAME holds half a day, and is the beginning of the next version's NAME.1. Nothing is compressed (a rotated
file is the same file by another name).
"""

import json
import random

from common import DAY_S, START_S, Words, number, seed, version_folder, versions, write

KEPT = 7
STREAMS = {"access.log": 5, "app.json": 3, "syslog": 2}  # how the bytes are shared out
count = versions(14)
start = seed(20260501)
words = Words(start, 1500)
day_size = number("BYTES", 300 << 20) // count * 2 // (2 * KEPT + 1)
AGENTS = [
    f"Mozilla/5.0 ({system}; rv:{number_}.0) Gecko/20100101 Firefox/{number_}.0"
    for system in ("X11; Linux x86_64", "Windows NT 10.0; Win64", "Macintosh")
    for number_ in range(128, 140, 3)
]
PATHS = [f"/{'/'.join(words.choose(random.Random(page), 2))}/{page}" for page in range(400)]
UNITS = [f"{word}.service" for word in words.words[:30]]


def line(stream, source, second):
    clock = f"{second // 3600:02d}:{second // 60 % 60:02d}:{second % 60:02d}"
    address = f"10.{source.randrange(4)}.{source.randrange(256)}.{source.randrange(256)}"
    if stream == "access.log":
        path = PATHS[int(len(PATHS) * source.random() ** 3)]
        status, size = source.choice([200, 200, 200, 304, 404]), source.randrange(200, 90000)
        request = f'"GET {path} HTTP/1.1" {status} {size} "-" "{source.choice(AGENTS)}"'
        return f"{address} - - [DAY:{clock} +0000] {request}\n"
    if stream == "app.json":
        facts = {
            "at": f"DAYT{clock}.{source.randrange(1000):03d}Z",
            "level": source.choice(["info", "info", "debug", "warn"]),
            "user": int(5000 * source.random() ** 2),
            "request": f"{source.getrandbits(128):032x}",
        }
        return (
            json.dumps(
                facts
                | {
                    "message": " ".join(words.choose(source, source.randrange(3, 9))),
                    "took_ms": source.randrange(1, 900),
                }
            )
            + "\n"
        )
    unit = f"{source.choice(UNITS)}[{source.randrange(300, 9000)}]"
    return f"DAYT{clock} host-1 {unit}: {' '.join(words.choose(source, source.randrange(3, 12)))}\n"


def day(stream, number_):
    """All lines of a day."""
    source = random.Random(f"{start} {stream} {number_}")
    size = day_size * STREAMS[stream] // sum(STREAMS.values()) * source.randrange(70, 131) // 100
    lines = []
    length = 0
    name = f"2026-{number_ // 28 % 12 + 1:02d}-{number_ % 28 + 1:02d}"
    while length < size:
        lines.append(line(stream, source, DAY_S * length // size).replace("DAY", name))
        length += len(lines[-1])
    return "".join(lines).encode()


days = {stream: {} for stream in STREAMS}
for version in range(1, count + 1):
    folder = version_folder("LOGS", version)
    for stream, made in days.items():
        for number_ in range(version, version + KEPT + 1):
            made.setdefault(number_, None)
        for number_ in [number_ for number_ in made if number_ < version]:
            del made[number_]
        for age in range(KEPT + 1):
            number_ = version + KEPT - age
            made[number_] = made[number_] or day(stream, number_)
            content = made[number_]
            midnight_s = START_S + (number_ - KEPT + 1) * DAY_S
            if age:
                write(folder / f"{stream}.{age}", content, midnight_s)
            else:
                write(folder / stream, content[: content.index(b"\n", len(content) // 2) + 1], midnight_s - DAY_S // 2)
