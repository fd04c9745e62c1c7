"""A relay to an SFTP server that answers some requests itself.

Usage: sftp_relay.py SERVER MODE [STATE]
  no-folders   folders cannot be opened as files
  few-folders  only the first of them can, as with too many open handles
  empty        listings have parts without entries
  endless      listings have parts without end, of links
  opens        the path of each file that is opened is added to STATE, a line each
  short-first  reads of more than 64 KiB wait until a shorter one is asked for
  late-link    the first process dies at a link, which is made when the second one asks for the same
"""

import os
import struct
import subprocess
import sys
import threading

INIT, OPEN, READ, READDIR, EXTENDED, STATUS, NAME = 1, 3, 5, 12, 200, 101, 104
FAILURE = 4
server, mode = sys.argv[1:3]
state = sys.argv[3] if len(sys.argv) > 3 else None
child = subprocess.Popen([server], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
lock = threading.Lock()


def read_packet(pipe):
    head = pipe.read(4)
    return pipe.read(struct.unpack(">I", head)[0]) if len(head) == 4 else None


def text(data):
    return struct.pack(">I", len(data)) + data


def texts(data):
    found = []
    while data:
        end = 4 + struct.unpack(">I", data[:4])[0]
        found.append(data[4:end])
        data = data[end:]
    return found


def send(packet):
    with lock:
        sys.stdout.buffer.write(text(packet))
        sys.stdout.buffer.flush()


def pass_answers():
    while (packet := read_packet(child.stdout)) is not None:
        send(packet)
    os._exit(0)


def reply(number, kind, body):
    send(bytes([kind]) + number + body)


def pass_request(packet):
    child.stdin.write(text(packet))
    child.stdin.flush()


def answer(packet, counts):
    """Answers a request in the place of the server. Returns whether that was done."""
    kind, number, body = packet[0], packet[1:5], packet[5:]
    failure = struct.pack(">I", FAILURE) + text(b"Failure") + text(b"")
    if kind == OPEN and mode.endswith("-folders"):
        length = struct.unpack(">I", body[:4])[0]
        if os.path.isdir(body[4 : 4 + length]):
            counts["folders"] = counts.get("folders", 0) + 1
            if mode == "no-folders" or counts["folders"] > 1:
                reply(number, STATUS, failure)
                return True
    if kind == OPEN and mode == "opens":
        with open(state, "ab") as file:
            file.write(texts(body[: 4 + struct.unpack(">I", body[:4])[0]])[0] + b"\n")
    if kind == READ and mode == "short-first" and not counts.get("short"):
        if struct.unpack(">I", body[-4:])[0] > 64 << 10:
            counts.setdefault("held", []).append(packet)
            return True
        counts["short"] = True
        for held in counts.pop("held", []):
            pass_request(held)
    if kind == READDIR and mode == "empty":
        reply(number, NAME, struct.pack(">I", 0))
        return True
    if kind == READDIR and mode == "endless":
        entries = b""
        for _ in range(1000):
            counts["names"] = counts.get("names", 0) + 1
            entries += text(b"%032x" % counts["names"]) + text(b"")
            entries += struct.pack(">II", 4, 0o120777)
        reply(number, NAME, struct.pack(">I", 1000) + entries)
        return True
    if kind == EXTENDED and mode == "late-link" and b"hardlink@openssh.com" in body:
        _, source, target = texts(body)
        if not os.path.exists(state):
            with open(state, "wb") as file:
                file.write(source)
            child.kill()
            os._exit(255)
        with open(state, "rb") as file:
            os.link(file.read(), target)
    return False


threading.Thread(target=pass_answers, daemon=True).start()
counted = {}
while (request := read_packet(sys.stdin.buffer)) is not None:
    if request[0] == INIT or not answer(request, counted):
        pass_request(request)
child.stdin.close()
child.wait()
os._exit(0)
