#!/usr/bin/env python3
"""Measures a first backup and a restore of data that does not compress, over S3 with latency.

    research/scale/far.py PROGRAM FOLDER [--mib 1024] [--runs 3] [--latency-ms 30] [--restic restic]

PROGRAM is a release build of cutpoint, FOLDER an empty folder, best in memory. In each run, restores
alternate with plain requests that read the objects of the repository: ranges of 8 MiB, 16 at a time,
over connections that stay open. With --restic, restic backs up and restores the same file. Prints wall
and CPU seconds, peak memory, requests, and medians of rates in relation to the plain requests.
"""

import argparse
import datetime
import hashlib
import hmac
import http.client
import os
import pathlib
import shutil
import statistics
import sys
import threading
import time
import urllib.parse
from concurrent.futures import ThreadPoolExecutor

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from stage import S3Server, timed  # noqa: E402

RANGE_LEN = 8 << 20
READER_COUNT = 16


class Reader:
    """Signed requests (AWS Signature Version 4) for ranges of objects."""

    def __init__(self, server):
        variables = server.variables
        self.key_id, self.key = variables["AWS_ACCESS_KEY_ID"], variables["AWS_SECRET_ACCESS_KEY"]
        self.region = variables.get("AWS_REGION", "us-east-1")
        self.host = urllib.parse.urlsplit(variables["AWS_ENDPOINT_URL"]).netloc
        self.bucket, self.local = server.bucket, threading.local()

    def signature(self, path, date, stamp):
        empty = hashlib.sha256(b"").hexdigest()
        headers = f"host:{self.host}\nx-amz-content-sha256:{empty}\nx-amz-date:{stamp}\n"
        names = "host;x-amz-content-sha256;x-amz-date"
        request = f"GET\n{path}\n\n{headers}\n{names}\n{empty}"
        scope = f"{date}/{self.region}/s3/aws4_request"
        text = f"AWS4-HMAC-SHA256\n{stamp}\n{scope}\n{hashlib.sha256(request.encode()).hexdigest()}"
        key = f"AWS4{self.key}".encode()
        for part in (date, self.region, "s3", "aws4_request"):
            key = hmac.digest(key, part.encode(), "sha256")
        signature = hmac.digest(key, text.encode(), "sha256").hex()
        value = f"AWS4-HMAC-SHA256 Credential={self.key_id}/{scope}, SignedHeaders={names}, Signature={signature}"
        return {"Authorization": value, "x-amz-content-sha256": empty, "x-amz-date": stamp}

    def read(self, name, start, end):
        """Reads the bytes `start..end` of an object and throws them away."""
        if not hasattr(self.local, "connection"):
            self.local.connection = http.client.HTTPConnection(self.host)
        now = datetime.datetime.now(datetime.timezone.utc)
        path = urllib.parse.quote(f"/{self.bucket}/{name}")
        headers = self.signature(path, f"{now:%Y%m%d}", f"{now:%Y%m%dT%H%M%SZ}")
        self.local.connection.request("GET", path, headers=headers | {"Range": f"bytes={start}-{end - 1}"})
        answer = self.local.connection.getresponse()
        buffer, read = memoryview(bytearray(1 << 20)), 0
        while count := answer.readinto(buffer):
            read += count
        if answer.status != 206 or read != end - start:
            sys.exit(f"{name}: status {answer.status}, {read} bytes of {end - start}")


def plain_requests(server, folder):
    """Reads all containers of data below `folder`. Returns the seconds and the number of bytes."""
    reader, ranges = Reader(server), []
    for path in sorted((server.folder / folder / "data").rglob("*")):
        if path.is_file():
            name, size = str(path.relative_to(server.folder)), path.stat().st_size
            ranges += [(name, start, min(start + RANGE_LEN, size)) for start in range(0, size, RANGE_LEN)]
    begin = time.perf_counter()
    with ThreadPoolExecutor(max_workers=READER_COUNT) as pool:
        list(pool.map(lambda it: reader.read(*it), ranges))
    return time.perf_counter() - begin, sum(end - start for _, start, end in ranges)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--mib", type=int, default=1024)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--latency-ms", type=int, default=30)
    parser.add_argument("--restic")
    parser.add_argument("--proxy", help="a build of cutpoint-scale")
    args = parser.parse_args()
    folder = args.folder.resolve()
    source = folder / "source" / "file"
    source.parent.mkdir(parents=True)
    with source.open("wb") as file:
        for _ in range(args.mib):
            file.write(os.urandom(1 << 20))
    server = S3Server(folder / "build", args.proxy)
    environment = os.environ | server.variables | {"CUTPOINT_PASSPHRASE": "secret", "RESTIC_PASSWORD": "secret"}
    for name in ("XDG_CACHE_HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME"):
        environment[name] = str(folder / name)

    def measured(name, *command):
        work = folder / "work"
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir()
        server.ask(f"latency {args.latency_ms}")
        server.ask("take")
        cost = timed(command, environment, work, 600)
        cost.add_requests(server.ask("take")["requests"])
        if cost.failure:
            sys.exit(f"{name}: {cost.failure}")
        figures = f"{cost.wall_s:.2f} s, {cost.cpu_s:.2f} CPU s, {cost.rss_bytes >> 20} MiB"
        print(f"{name}: {figures}, {cost.request_count()} requests ({cost.request_count('GET')} GET)", flush=True)
        shutil.rmtree(work)
        return cost.wall_s

    rates = []
    for run in range(args.runs):
        ours = [os.path.realpath(args.program), "--repo", f"s3://{server.bucket}/ours{run}"]
        measured("init", *ours, "init", "--recovery-kit", folder / f"kit{run}")
        measured("backup", *ours, "backup", "--quiet", source)
        restored = measured("restore", *ours, "restore", "--quiet", "latest", "--to", "out")
        plain, size = plain_requests(server, f"ours{run}")
        print(f"plain requests: {plain:.2f} s for {size >> 20} MiB", flush=True)
        rates.append(plain / restored)
        if args.restic:
            # The address of the server is that of the bucket's host, which restic wants in its own spelling.
            theirs = [args.restic, "-r", f"s3:{server.variables['AWS_ENDPOINT_URL']}/{server.bucket}/theirs{run}"]
            theirs += ["-o", "s3.connections=16"]
            measured("restic init", *theirs, "init")
            measured("restic backup", *theirs, "backup", "--quiet", source)
            measured("restic restore", *theirs, "restore", "--quiet", "latest", "--target", "out")
        for name in (f"ours{run}", f"theirs{run}"):
            shutil.rmtree(server.folder / name, ignore_errors=True)
    server.close()
    print(f"rate of the restore against plain requests: {statistics.median(rates):.2f} (median)")


if __name__ == "__main__":
    main()
