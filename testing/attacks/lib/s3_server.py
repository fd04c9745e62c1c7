"""An S3 server in memory that misbehaves in one way or another.

s3_server.py [--listing-lag SECONDS] [--deny-regions FILE]

--listing-lag SECONDS: listings are older than the objects by this time; each object that one lacks is
named at standard error (`hidden: KEY`).
--deny-regions FILE: while FILE exists, a GET of a range in the first half of a container of file
chunks is refused (403) and named in FILE, unless the range begins with the container's first byte:
headers and directories can be read, the chunks cannot.

Prints its port, and serves until it is ended. Signatures are not looked at.
"""

import argparse
import os
import sys
import threading
import time
import urllib.parse
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from xml.sax.saxutils import escape

PARSER = argparse.ArgumentParser()
PARSER.add_argument("--listing-lag", type=float, default=0.0)
PARSER.add_argument("--deny-regions", metavar="FILE")
OPTIONS = PARSER.parse_args()
LOCK = threading.Lock()
OBJECTS = {}  # key: (bytes, time of the put)


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def answer(self, status, body=b"", headers=()):
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def key(self):
        path = urllib.parse.urlsplit(self.path).path
        return urllib.parse.unquote(path).split("/", 2)[2] if path.count("/") > 1 else ""

    def do_PUT(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        with LOCK:
            if self.headers.get("If-None-Match") == "*" and self.key() in OBJECTS:
                return self.answer(412, b"<Error><Code>PreconditionFailed</Code></Error>")
            OBJECTS[self.key()] = (body, time.time())
        self.answer(200, headers=[("ETag", '"x"')])

    def do_DELETE(self):
        with LOCK:
            OBJECTS.pop(self.key(), None)
        self.answer(204)

    def do_HEAD(self):
        self.do_GET()

    def do_GET(self):
        query = urllib.parse.parse_qs(urllib.parse.urlsplit(self.path).query)
        if "list-type" in query:
            return self.list(query)
        with LOCK:
            found = OBJECTS.get(self.key())
        if found is None:
            return self.answer(404, b"<Error><Code>NoSuchKey</Code></Error>")
        body, put = found
        headers = [("ETag", '"x"'), ("Last-Modified", formatdate(put, usegmt=True))]
        span = self.headers.get("Range")
        if span is None:
            return self.answer(200, body, headers)
        first, last = span.removeprefix("bytes=").split("-")
        first, last = int(first), min(int(last), len(body) - 1)
        if first >= len(body):
            return self.answer(416)
        if self.is_denied(first, len(body)):
            return self.answer(403, b"<Error><Code>AccessDenied</Code></Error>")
        headers.append(("Content-Range", f"bytes {first}-{last}/{len(body)}"))
        self.answer(206, body[first : last + 1], headers)

    def is_denied(self, first, size):
        denied = OPTIONS.deny_regions
        if not denied or not os.path.exists(denied) or "/data/" not in self.key():
            return False
        if not 0 < first < size // 2:
            return False
        with LOCK, open(denied, "a") as file:
            file.write(f"{self.key()} from {first} on\n")
        return True

    def list(self, query):
        prefix = query.get("prefix", [""])[0]
        late = time.time() - OPTIONS.listing_lag
        # The probe of `init` asks for its own objects at once.
        lags = "tmp" not in prefix.split("/")
        with LOCK:
            there = [
                (key, len(body), put)
                for key, (body, put) in OBJECTS.items()
                if key.startswith(prefix)
            ]
        found = sorted(row for row in there if row[2] <= late or not lags)
        for key in {row[0] for row in there} - {row[0] for row in found}:
            print(f"hidden: {key}", file=sys.stderr, flush=True)
        rows = "".join(
            f"<Contents><Key>{escape(key)}</Key><LastModified>"
            f"{time.strftime('%Y-%m-%dT%H:%M:%S.000Z', time.gmtime(put))}</LastModified>"
            f"<ETag>&quot;x&quot;</ETag><Size>{size}</Size></Contents>"
            for key, size, put in found
        )
        body = f"<ListBucketResult><IsTruncated>false</IsTruncated>{rows}</ListBucketResult>"
        self.answer(200, body.encode(), [("Content-Type", "application/xml")])


server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print(server.server_address[1], flush=True)
server.serve_forever()
