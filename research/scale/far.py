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
from stage import Cost, S3Server, measured  # noqa: E402

SECRET = "measured-not-secret"
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


class Far:
    """A file of random bytes, and a server with latency."""

    def __init__(self, options, folder, build_folder=None):
        self.options, self.folder = options, folder
        self.source = folder / "source" / "file"
        self.source.parent.mkdir(parents=True)
        with self.source.open("wb") as file:
            for _ in range(options.mib):
                file.write(os.urandom(1 << 20))
        self.server = S3Server(build_folder or folder / "build", options.proxy)
        self.environment = os.environ | self.server.variables
        self.environment |= {"CUTPOINT_PASSPHRASE": SECRET, "RESTIC_PASSWORD": SECRET}
        for name in ("XDG_CACHE_HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME"):
            self.environment[name] = str(folder / name)

    def measure(self, case, name, *command):
        work = self.folder / "work"
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir()
        self.server.ask(f"latency {self.options.latency_ms}")
        self.server.ask("take")
        cost = measured(command, self.environment, work, 600)
        cost.add_requests(self.server.ask("take")["requests"])
        shutil.rmtree(work)
        return case, name, cost

    def run(self, number):
        """Yields the names of cases and tools with their costs; of the plain requests, only wall time and bytes."""
        url, bucket = self.server.variables["AWS_ENDPOINT_URL"], self.server.bucket
        ours = [os.path.realpath(self.options.cutpoint), "--repo", f"s3://{bucket}/ours{number}"]
        kit = self.folder / f"kit{number}"
        yield self.measure("init", "cutpoint", *ours, "init", "--recovery-kit", kit)
        yield self.measure("first", "cutpoint", *ours, "backup", "--quiet", self.source)
        yield self.measure("restore", "cutpoint", *ours, "restore", "--quiet", "latest", "--to", "out")
        seconds, length = plain_requests(self.server, f"ours{number}")
        yield "restore", "plain requests", Cost(wall_s=seconds, received_len=length)
        if self.options.restic:
            # The address of the server is that of the bucket's host, which restic wants in its own spelling.
            theirs = [self.options.restic, "-r", f"s3:{url}/{bucket}/theirs{number}", "-o", "s3.connections=16"]
            yield self.measure("init", "restic", *theirs, "init")
            yield self.measure("first", "restic", *theirs, "backup", "--quiet", self.source)
            yield self.measure("restore", "restic", *theirs, "restore", "--quiet", "latest", "--target", "out")
        for name in (f"ours{number}", f"theirs{number}"):
            shutil.rmtree(self.server.folder / name, ignore_errors=True)
        kit.unlink()

    def close(self):
        self.server.close()
        for path in self.folder.iterdir():
            if path.name != "build":
                shutil.rmtree(path, ignore_errors=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cutpoint", metavar="PROGRAM")
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--mib", type=int, default=1024)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--latency-ms", type=int, default=30)
    parser.add_argument("--restic")
    parser.add_argument("--proxy", help="a build of cutpoint-scale")
    args = parser.parse_args()
    far, rates = Far(args, args.folder.resolve()), []
    for run in range(args.runs):
        restored_s = {}
        for case, name, cost in far.run(run):
            requests = f"{cost.request_count()} requests ({cost.request_count('GET')} GET)"
            if not cost.requests:
                requests = f"{cost.received_len >> 20} MiB"
            print(f"{case}: {name}: {cost.figures()}, {requests}", flush=True)
            if case == "restore":
                restored_s[name] = cost.wall_s
        rates.append(restored_s["plain requests"] / restored_s["cutpoint"])
    far.close()
    print(f"rate of the restore against plain requests: {statistics.median(rates):.2f} (median)")


if __name__ == "__main__":
    main()
