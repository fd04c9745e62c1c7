"""Synthetic repositories, written byte by byte as docs/format.md says.

The repository is made by `cutpoint init --encryption none` first; this module adds commits, index segments
and containers to its folder. All choices are functions of a seed. Needs the packages blake3, cbor2 and xxhash,
and numpy for full segments.
"""

import os
import random
import struct
from dataclasses import dataclass, field
from pathlib import Path

import cbor2
import xxhash
from blake3 import blake3

CLASSES = ("config", "commit", "index", "meta", "data", "similarity", "parity")
TICKET, COMMIT, SEGMENT, DATA, META = 3, 4, 6, 7, 8
HEADER_LEN, TRAILER_LEN, TAG_LEN = 64, 32, 16
SMALL_PADDING, CONTAINER_PADDING, TOC_PADDING = 256, 65_536, 4096
CONTAINER_LEN_MIN = 4096
TOC_PART = 2**32 - 1
HOUR_NS = 3_600 * 10**9
TREE_CUT = "tree"
DATA_CUT = "fastcdc:level=2,min=16384,normal=53900,max=262144,seed=0"
RECIPE_ENTRY_COUNT_MAX = 4096
# The time of the first synthetic snapshot, so that no time depends on the clock of the machine.
START_NS = 1_700_000_000 * 10**9


def varint(value):
    """Returns an unsigned LEB128."""
    out = bytearray()
    while value >= 128:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def packed(chunks):
    """Returns packed segments for `chunks`, pairs of a length and a fingerprint."""
    return b"".join(varint(length << 2) + fingerprint for length, fingerprint in chunks)


def cbor(value):
    """Returns a map of the format: keys in rising order, integers in their shortest form."""
    return cbor2.dumps(value, canonical=True)


def padded_container_len(length):
    """Returns the length to which a container of `length` bytes is padded, trailer included."""
    if length > CONTAINER_PADDING:
        return -(-length // CONTAINER_PADDING) * CONTAINER_PADDING
    return max(1 << (length - 1).bit_length(), CONTAINER_LEN_MIN)


def container_folder(name):
    """Returns the folder of a container in `data/` or `meta/` by its 16-byte name."""
    return f"{blake3(name).digest()[0]:02x}"


@dataclass
class Placed:
    """A container that was written, as an index segment describes it."""

    name: bytes
    kind: int
    object_len: int
    toc_offset: int
    toc_len: int
    fingerprints: list = field(default_factory=list)

    def record(self):
        """Returns the 29 bytes of the container in a segment."""
        head = self.name + bytes([self.kind - DATA])
        return head + struct.pack("<III", self.object_len, self.toc_offset, self.toc_len)


@dataclass
class Listing:
    """The chunks of a container: their number, their records in its table of contents, and the raw regions."""

    chunk_count: int
    records: bytes
    regions: list


class Repository:
    """An unencrypted repository in a folder."""

    def __init__(self, folder, seed=1):
        self.folder = Path(folder)
        self.random = random.Random(seed)
        key = next(each for each in (self.folder / "keys").iterdir() if each.suffix != ".copy")
        keyring = cbor2.loads(self.body_of(key))
        self.id = keyring[0]
        self.epoch, secret = keyring[1][-2:]
        first_secret = keyring[1][1]
        self.class_keys = {each: self.derive(f"cutpoint v1 {each}", secret) for each in CLASSES}
        self.fingerprint_keys = {
            kind: self.derive(f"cutpoint v1 fingerprint {name}", first_secret)
            for kind, name in ((DATA, "data"), (META, "meta"))
        }
        # An object storage has no empty folders.
        for name in ("commits", "index"):
            (self.folder / name).mkdir(exist_ok=True)
        # Ids rise above those of the existing commits, so that digests of views can be continued.
        self.ids = sorted(bytes.fromhex(each) for each in os.listdir(self.folder / "commits"))
        self.view = blake3(b"".join(self.ids))
        self.heads = self.ids[:]
        self.known_folders = set()

    @staticmethod
    def derive(context, secret):
        return blake3(secret, derive_key_context=context).digest()

    @staticmethod
    def body_of(path):
        """Returns the body of an unencrypted object of one part, without its tag."""
        data = Path(path).read_bytes()
        length, _, offset = struct.unpack("<IIQ", data[-TRAILER_LEN:-16])
        return data[offset : offset + length - TAG_LEN]

    def fingerprint(self, kind, data):
        return blake3(data, key=self.fingerprint_keys[kind]).digest()

    def new_ids(self, count):
        """Returns random ids of tickets in rising order, above all that exist."""
        low = int.from_bytes(self.ids[-1], "big") + 1 if self.ids else 0
        step = (2**96 - 1 - low) // max(2 * count, 1)
        return [(low + i * step + self.random.randrange(step)).to_bytes(12, "big") for i in range(count)]

    # Objects.

    def header(self, kind, class_name, name):
        """Returns the header of an object and the keys of its body and of its table of contents."""
        head = b"CutP" + bytes([kind, 1, 0, 0]) + struct.pack("<II", self.epoch, 0) + name + self.random.randbytes(16)
        derived = blake3(head, key=self.class_keys[class_name]).digest(48)
        toc_key = blake3(head, key=self.class_keys["index"]).digest(48)[:32]
        return head + derived[32:], derived[:32], toc_key

    @staticmethod
    def sealed(header, key, part, code, data):
        """Returns a part with its tag, by suite 0."""
        hasher = blake3(header + struct.pack("<IB", part, code), key=key)
        hasher.update(data)
        return data + hasher.digest(TAG_LEN)

    @staticmethod
    def trailer(data, total_len, last_offset):
        """Returns the zeros and the trailer behind `data` of an object of `total_len` bytes."""
        zeros = bytes(total_len - len(data) - TRAILER_LEN)
        tail = zeros + struct.pack("<IIQ", len(data) - last_offset, 0, last_offset)
        hasher = xxhash.xxh3_128(data, seed=0)
        hasher.update(tail)
        return tail + hasher.intdigest().to_bytes(16, "little")

    def object(self, kind, class_name, name, body):
        """Returns an object of one part."""
        header, key, _ = self.header(kind, class_name, name)
        data = header + self.sealed(header, key, 0, 0, body)
        total_len = -(-(len(data) + TRAILER_LEN) // SMALL_PADDING) * SMALL_PADDING
        return data + self.trailer(data, total_len, HEADER_LEN)

    def container(self, kind, name, chunks):
        """Writes a container of full chunks in regions of at most 2 MiB and returns its place."""
        records, fingerprints, regions = [], [], []
        for number, region in enumerate(regions_of(chunks)):
            offset_in_region = 0
            for chunk in region:
                fingerprint = self.fingerprint(kind, chunk)
                fingerprints.append(fingerprint)
                sizes = (0, number, offset_in_region, len(chunk), len(chunk))
                records.append(fingerprint + struct.pack("<BHIII", *sizes))
                offset_in_region += len(chunk)
            regions.append(b"".join(region))
        placed = self.put_container(kind, name, Listing(len(records), b"".join(records), regions), True)
        placed.fingerprints = fingerprints
        return placed

    def put_container(self, kind, name, listing, exists):
        """Returns the place of a container, and writes it if it is to exist."""
        header, key, toc_key = self.header(kind, "data" if kind == DATA else "meta", name)
        out, regions = bytearray(header), []
        for number, region in enumerate(listing.regions):
            part = self.sealed(header, key, number, 1, region)
            regions.append(struct.pack("<IIIBH", len(out), len(part), len(region), 0, 0))
            out += part
        listed = struct.pack("<II", len(regions), listing.chunk_count) + b"".join(regions) + listing.records + b"\xa0"
        toc = struct.pack("<I", len(listed)) + listed
        toc += bytes(-len(toc) % TOC_PADDING)
        toc_offset = len(out)
        out += self.sealed(header, toc_key, TOC_PART, 2, toc)
        toc_len = len(out) - toc_offset
        data = bytes(out)
        object_len = padded_container_len(len(data) + TRAILER_LEN)
        if exists:
            tail = self.trailer(data, object_len, toc_offset)
            folder = self.container_path(kind, name).parent
            if folder not in self.known_folders:
                folder.mkdir(parents=True, exist_ok=True)
                self.known_folders.add(folder)
            with open(self.container_path(kind, name), "wb") as file:
                # The padding is a hole.
                file.write(data)
                file.seek(len(tail) - TRAILER_LEN, os.SEEK_CUR)
                file.write(tail[-TRAILER_LEN:])
        return Placed(name, kind, object_len, toc_offset, toc_len)

    def container_path(self, kind, name):
        folder = "data" if kind == DATA else "meta"
        return self.folder / folder / container_folder(name) / name.hex()

    def write_segment(self, name, containers, hints):
        """Writes a segment. `hints` are the sorted bytes of its hints."""
        body = struct.pack("<II", len(containers), len(hints) // 12)
        body += b"".join(each.record() for each in containers) + hints + b"\xa0"
        number = int.from_bytes(name[12:], "big")
        path = self.folder / "index" / f"{name[:12].hex()}-{number:08x}"
        path.write_bytes(self.object(SEGMENT, "index", name, body))

    def segment_of(self, name, containers):
        """Writes a segment with a hint for each chunk of `containers`."""
        hints = sorted(
            (fingerprint[:8], number)
            for number, container in enumerate(containers)
            for fingerprint in container.fingerprints
        )
        packed_hints = b"".join(prefix + struct.pack("<I", number) for prefix, number in hints)
        self.write_segment(name, containers, packed_hints)

    # Tickets and commits.

    def ticket(self, ticket, host, time_ns):
        """Writes the ticket of a backup."""
        body = {0: 0, 1: host, 2: "", 3: 1, 4: 0, 5: time_ns, 6: ""}
        path = self.folder / "tickets" / ticket.hex()
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(self.object(TICKET, "commit", ticket + bytes(4), cbor(body)))

    def commit(self, ticket, body):
        """Writes a commit whose view has all earlier ones."""
        body = body | {2: 0, 3: self.heads, 4: self.view.digest()}
        path = self.folder / "commits" / ticket.hex()
        path.write_bytes(self.object(COMMIT, "commit", ticket + bytes(4), cbor(body)))
        self.ids.append(ticket)
        self.view.update(ticket)
        self.heads = [ticket]

    def snapshot_body(self):
        """Returns the fields of the newest snapshot of the repository."""
        bodies = (cbor2.loads(self.body_of(self.folder / "commits" / each.hex())) for each in self.ids)
        return max((body for body in bodies if body[0] == 0), key=lambda body: body[5])


def regions_of(chunks, region_len=2 << 20):
    """Groups chunks to regions."""
    region, length = [], 0
    for chunk in chunks:
        if region and length + len(chunk) > region_len:
            yield region
            region, length = [], 0
        region.append(chunk)
        length += len(chunk)
    if region:
        yield region


def times_of(number, client_count, first_ns):
    """Returns the time of a snapshot when each of `client_count` clients makes one an hour."""
    begun_ns = first_ns + number * HOUR_NS // client_count
    return begun_ns, begun_ns + 10**9


def add_commits(folder, count, client_count=10, seed=1, void_count=0):
    """Adds `count` snapshots of several clients with the tree of the newest snapshot, and then voids."""
    repository = Repository(folder, seed)
    body = repository.snapshot_body()
    # The newest synthetic snapshot is older than the real one, as in a repository with a history.
    first_ns = body[14][0] - (count // client_count + 2) * HOUR_NS
    body.pop(18, None)
    # The segment in its commit.
    body.pop(25, None)
    parents = {}
    for number, ticket in enumerate(repository.new_ids(count + void_count)):
        if number >= count:
            repository.commit(ticket, {0: 1, 1: [], 5: body[5]})
            continue
        begun_ns, ended_ns = times_of(number, client_count, first_ns)
        host = f"client{number % client_count}"
        body |= {1: [], 5: ended_ns, 12: host, 14: [begun_ns, ended_ns]}
        if host in parents:
            body[18] = parents[host]
        else:
            body.pop(18, None)
        repository.commit(ticket, body)
        parents[host] = ticket


class TreeWriter:
    """The metadata chunks of a writer: recipes and trees."""

    def __init__(self, repository):
        self.repository = repository
        self.chunks = []

    def put(self, data):
        """Adds a chunk and returns its fingerprint."""
        self.chunks.append(data)
        return self.repository.fingerprint(META, data)

    def file_content(self, chunks):
        """Returns the content of a file of `chunks`, pairs of a length and a fingerprint."""
        if len(chunks) <= 4:
            return [1, packed(chunks)]
        if len(chunks) > RECIPE_ENTRY_COUNT_MAX:
            raise ValueError("a file of one recipe chunk has too many chunks")
        return [2, self.put(cbor({0: 0, 1: DATA_CUT, 2: packed(chunks)}))]

    def tree(self, entries):
        """Returns the content of a folder with `entries`, sorted by their names."""
        data = b"".join(cbor(entry) for entry in entries)
        return [1, packed([(len(data), self.put(data))])]


def folder_entry(name, content):
    return {0: name, 1: 1, 2: 0o755, 3: 0, 4: 0, 7: [0, 0], 8: [0, 0], 9: 0, 14: content}


def file_entry(name, size, content, time_s):
    entry = {0: name, 1: 0, 2: 0o644, 3: 0, 4: 0, 7: [time_s, 0], 8: [time_s, 0], 9: 2}
    return entry | {13: size, 14: content}


def snapshot_fields(root, host, times_ns, segments):
    """Returns the body of a snapshot of `/synthetic`."""
    begun_ns, ended_ns = times_ns
    return {
        0: 0,
        1: segments,
        5: ended_ns,
        10: root,
        11: [b"/synthetic"],
        12: host,
        13: "0",
        14: [begun_ns, ended_ns],
        15: [],
        16: "",
        17: DATA_CUT,
        19: False,
        20: [],
        21: "synth.py",
    }


@dataclass
class Shape:
    """The data of each synthetic writer."""

    file_count: int = 1
    # The number of chunks of a file, and the length of a chunk in bytes.
    chunk_count: int = 1
    chunk_len: int = 64
    # With 2, each writer also makes a snapshot with the tag `odd` of the chunks with odd numbers, and its first
    # snapshot has those with even numbers only.
    snapshot_count: int = 1
    # Whether the tickets of the writers are still there, as before the next sweep.
    has_tickets: bool = False


def add_snapshots(folder, count, shape=None, client_count=1, seed=1, first_ns=START_NS):
    """Adds `count` writers, each with a data container, a container of trees, a segment and its snapshots."""
    shape = shape or Shape()
    repository = Repository(folder, seed)
    tickets = repository.new_ids(count * shape.snapshot_count)
    for number in range(count):
        own = tickets[number * shape.snapshot_count : (number + 1) * shape.snapshot_count]
        name = own[0] + bytes(4)
        files = [
            [repository.random.randbytes(shape.chunk_len) for _ in range(shape.chunk_count)]
            for _ in range(shape.file_count)
        ]
        data = repository.container(DATA, name, [chunk for file in files for chunk in file])
        trees = TreeWriter(repository)
        times_ns = times_of(number, client_count, first_ns)
        roots = [snapshot_root(trees, shape, data.fingerprints, part, times_ns[0]) for part in range(len(own))]
        meta = repository.container(META, name, trees.chunks)
        repository.segment_of(name, [data, meta])
        for part, (ticket, root) in enumerate(zip(own, roots, strict=True)):
            body = snapshot_fields(root, f"client{number % client_count}", times_ns, [] if part else [name])
            if part:
                body[15] = ["odd"]
            if shape.has_tickets:
                repository.ticket(ticket, body[12], times_ns[0])
            repository.commit(ticket, body)


def snapshot_root(trees, shape, fingerprints, part, time_ns):
    """Returns the content of the root of a snapshot of the chunks of `part`."""
    entries = []
    for number in range(shape.file_count):
        own = fingerprints[number * shape.chunk_count : (number + 1) * shape.chunk_count]
        own = own[part :: shape.snapshot_count]
        content = trees.file_content([(shape.chunk_len, each) for each in own])
        size = shape.chunk_len * len(own)
        entries.append(file_entry(b"file%06d" % number, size, content, time_ns // 10**9 - 3600))
    return trees.tree([folder_entry(b"synthetic", trees.tree(entries))])


@dataclass
class Full:
    """The index of a writer with large segments, whose chunks no snapshot needs."""

    segment_count: int
    # The number of hints of each segment, a multiple of the number of its containers.
    hint_count: int
    container_count: int
    # Whether the containers exist. Without them, `check` reports them as missing.
    has_containers: bool = True


def add_full_segments(folder, full, seed=1):
    """Adds a snapshot that publishes `full`, with the tree of the newest snapshot.

    The containers have a valid table of contents with random fingerprints, over regions of zeros. `check` finds nothing
    unless it reads the data.
    """
    import numpy

    repository = Repository(folder, seed)
    body = repository.snapshot_body()
    ticket = repository.new_ids(1)[0]
    numbers = numpy.random.default_rng(seed)
    per_container = full.hint_count // full.container_count
    segments = []
    for segment in range(full.segment_count):
        fingerprints = numpy.frombuffer(numbers.bytes(32 * per_container * full.container_count), dtype="V32")
        containers = []
        for number in range(full.container_count):
            name = ticket + struct.pack(">I", segment * full.container_count + number)
            own = fingerprints[number * per_container : (number + 1) * per_container]
            containers.append(dead_container(repository, name, own, full.has_containers))
        hints = numpy.empty(len(fingerprints), dtype=[("prefix", ">u8"), ("container", "<u4")])
        hints["prefix"] = fingerprints.view(">u8")[::4]
        hints["container"] = numpy.repeat(numpy.arange(full.container_count, dtype=numpy.uint32), per_container)
        hints = hints[numpy.argsort(hints["prefix"].astype(numpy.uint64), kind="stable")]
        segments.append(ticket + struct.pack(">I", segment))
        repository.write_segment(segments[-1], containers, hints.tobytes())
    body.pop(18, None)
    body.pop(25, None)
    repository.commit(ticket, body | {1: segments})


def dead_container(repository, name, fingerprints, exists):
    """Returns a container with one region, of one byte for each of `fingerprints`."""
    import numpy

    columns = [("fingerprint", "V32"), ("form", "u1"), ("region", "<u2"), ("offset", "<u4")]
    columns += [("payload_len", "<u4"), ("chunk_len", "<u4")]
    records = numpy.zeros(len(fingerprints), dtype=columns)
    records["fingerprint"] = fingerprints
    records["offset"] = numpy.arange(len(fingerprints))
    records["payload_len"] = records["chunk_len"] = 1
    listing = Listing(len(fingerprints), records.tobytes(), [bytes(len(fingerprints))])
    return repository.put_container(DATA, name, listing, exists)
