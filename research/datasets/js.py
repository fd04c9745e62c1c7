#!/usr/bin/env python3
"""JS: releases of a bundled and minified JavaScript package (monaco-editor, folder min/), as npm delivers them."""

import tarfile
from pathlib import Path

from common import DAY_S, START_S, fact, need, number, run, said, scratch, thin, version_folder, versions, write

RELEASES = ["0.44.0", "0.45.0", "0.46.0", "0.47.0", "0.48.0", "0.49.0", "0.50.0", "0.51.0"]
count = versions(len(RELEASES), len(RELEASES))
budget = number("BYTES", None)
is_chosen = None
fact(monaco_editor=" ".join(RELEASES[:count]))
for version, release in enumerate(RELEASES[:count], 1):
    folder = version_folder("JS", version)
    with scratch() as work:
        run(need("npm", "npm"), "pack", "--silent", f"monaco-editor@{release}", cwd=work)
        with tarfile.open(Path(work) / f"monaco-editor-{release}.tgz") as packed:
            entries = {
                entry.name.removeprefix("package/min/"): entry
                for entry in packed
                if entry.isfile() and entry.name.startswith("package/min/")
            }
            if is_chosen is None:
                is_chosen = thin({path: entry.size for path, entry in entries.items()}, budget and budget // count)
            for path, entry in entries.items():
                if is_chosen(path, entry.size):
                    write(folder / path, packed.extractfile(entry).read(), START_S + version * DAY_S)
    said("JS", version)
