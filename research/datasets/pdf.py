#!/usr/bin/env python3
"""PDF: articles and manuals that LaTeX set, from Debian's packages of TeX's documentation, and revisions of them.

The "thorough investigation" took 2000 articles that nobody had revised: v01 alone is such a set. In each next version
10 % of the documents are new, 3 % are deleted, and 10 % are revised with the package pypdf: every second one by an
update appended to the file as it is (a note on its first page, as a reviewer's program leaves it), the others written
anew as a whole with a page more (as an author's program does).
"""

import io
import logging
import random
import tarfile
from pathlib import Path

from common import (
    DAY_S,
    START_S,
    ended,
    fact,
    fail,
    need,
    number,
    piped,
    rank,
    run,
    said,
    scratch,
    seed,
    version_folder,
    versions,
    write,
)

try:
    import pypdf
    from pypdf.annotations import Text
except ImportError:
    fail("the package pypdf is missing: pip install pypdf")

logging.getLogger("pypdf").setLevel(logging.CRITICAL)  # what it says about documents that bend the standard
PACKAGES = ["texlive-latex-base-doc", "texlive-science-doc", "texlive-latex-recommended-doc"]
count = versions(6)
source = random.Random(seed(20260701))
budget = number("BYTES", 300 << 20) // count


def documents(package, work):
    """(path, content) of the package's documents that are not too large."""
    run(need("apt-get", "apt"), "-q", "download", package, cwd=work)
    deb = next(work.glob(f"{package}_*.deb"))
    fact(**{package: deb.name.split("_")[1]})
    process, stream = piped(need("dpkg-deb", "dpkg"), "--fsys-tarfile", deb)
    with tarfile.open(fileobj=stream, mode="r|") as packed:
        for entry in packed:
            if entry.isfile() and entry.name.endswith(".pdf") and entry.size <= budget // 8:
                yield Path(entry.name).name, packed.extractfile(entry).read()
    ended(process)
    deb.unlink()


def revised(content, turn):
    reader = pypdf.PdfReader(io.BytesIO(content), strict=False)
    is_appended = turn % 2 == 0
    writer = pypdf.PdfWriter(reader, incremental=True) if is_appended else pypdf.PdfWriter(clone_from=reader)
    if is_appended:
        writer.add_annotation(0, Text(rect=(50, 50, 80, 80), text=f"Revision {turn}: {source.getrandbits(256):064x}"))
    else:
        writer.insert_blank_page(index=source.randrange(len(reader.pages) + 1))
        writer.add_metadata({"/Revision": str(turn)})
    out = io.BytesIO()
    writer.write(out)
    return out.getvalue()


with scratch() as work:
    found = {}
    needed = budget * (1 + count * 8 // 100 + 1)
    for package in PACKAGES:
        if sum(map(len, found.values())) < needed:
            found.update(documents(package, Path(work)))
waiting = sorted(found, key=rank)
current = {}
total = 0
turn = 0
while waiting and total < budget:
    path = waiting.pop(0)
    current[path] = (found[path], START_S)
    total += len(found[path])
for version in range(1, count + 1):
    now_s = START_S + version * DAY_S
    if version > 1:
        paths = sorted(current)
        tenth = max(2, len(paths) // 10)
        touched = source.sample(paths, min(len(paths), tenth + max(1, tenth * 3 // 10)))
        for path in touched[tenth:]:
            del current[path]
        for path in touched[:tenth]:
            turn += 1
            try:
                current[path] = (revised(current[path][0], turn), now_s)
            except (
                pypdf.errors.PyPdfError,
                ValueError,
                KeyError,
                TypeError,
                AttributeError,
                NotImplementedError,
            ) as error:
                print(f"PDF: {path} is left as it is: {error}", flush=True)
        for path in waiting[:tenth]:
            current[path] = (found[path], now_s)
        del waiting[:tenth]
    folder = version_folder("PDF", version)
    for path, (content, mtime_s) in current.items():
        write(folder / path, content, mtime_s)
    said("PDF", version)
