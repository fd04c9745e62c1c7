#!/usr/bin/env python3
"""DEV: what a build server keeps, night after night: the newest build of each of eight projects, unpacked, as PyPI has
them (wheels).

Shared libraries and programs for Linux that Rust, C and C++ compilers made, with Python sources beside them. Each night
one project has a new release, the others are as the night before. The SeqCDC papers' DEV was 100 backups of a Rust
build server, of which 98 % was there before; 20 nights here. With BYTES, fewer projects, the smallest first, and nights
without a release.
"""

import shutil
import sys
import zipfile
from pathlib import Path

from common import DATA, DAY_S, START_S, fact, keep_mtimes, number, run, said, scratch, version_folder, versions

# Project, about how many MB it has, and its releases.
PROJECTS = [
    ("orjson", 0.4, "3.11.0 3.11.1 3.11.2 3.11.3 3.11.4 3.11.5"),
    ("rpds-py", 1, "0.22.3 0.23.1 0.24.0 0.25.0 0.25.1 0.26.0"),
    ("regex", 2.5, "2025.7.29 2025.7.31 2025.7.33 2025.7.34 2025.9.1 2025.9.18"),
    ("pydantic-core", 5, "2.39.0 2.40.0 2.40.1 2.41.0 2.41.1 2.41.2"),
    ("tokenizers", 10, "0.20.0 0.20.1 0.20.3 0.21.0 0.21.1 0.21.2"),
    ("cryptography", 12, "45.0.5 45.0.6 45.0.7 46.0.0 46.0.1 46.0.2"),
    ("lxml", 15, "5.3.1 5.3.2 5.4.0 6.0.0 6.0.1 6.0.2"),
    ("ruff", 30, "0.15.4 0.15.5 0.15.6 0.15.7 0.15.8 0.15.9"),
]
FOR = [
    "--python-version",
    "3.11",
    "--implementation",
    "cp",
    "--abi",
    "cp311",
    "--abi",
    "abi3",
    "--abi",
    "none",
    *(
        word
        for platform in ("manylinux2014_x86_64", "manylinux_2_17_x86_64", "manylinux_2_28_x86_64")
        for word in ("--platform", platform)
    ),
]

budget = number("BYTES", None)
taken = []
total = 0
count = versions(20, 1 + sum(len(names.split()) - 1 for _, _, names in PROJECTS))
for project in PROJECTS:
    total += project[1] * 1e6
    if taken and budget and total > budget / count:
        break
    taken.append(project)
releases = {name: names.split() for name, _, names in taken}
at = {name: 0 for name in releases}
built = {}
with scratch() as work:
    for version in range(1, count + 1):
        if version > 1:
            name = PROJECTS[(version - 2) % len(PROJECTS)][0]
            if name in at:
                at[name] += 1
        folder = version_folder("DEV", version)
        for name, place in at.items():
            release = releases[name][place]
            own = Path(work) / f"{name}-{release}"
            if not own.exists():
                wheels = Path(work) / "wheels"
                run(
                    sys.executable,
                    "-m",
                    "pip",
                    "download",
                    "--quiet",
                    "--disable-pip-version-check",
                    "--no-deps",
                    "--only-binary",
                    ":all:",
                    *FOR,
                    "-d",
                    wheels,
                    f"{name}=={release}",
                )
                with zipfile.ZipFile(next(wheels.glob("*.whl"))) as wheel:
                    wheel.extractall(own)
                shutil.rmtree(wheels)
                built.setdefault(name, []).append(release)
            shutil.copytree(own, folder / name)
        keep_mtimes(DATA / f"DEV/v{version - 1:02d}" if version > 1 else None, folder, START_S + version * DAY_S)
        said("DEV", version)
fact(**{name: " ".join(names) for name, names in built.items()})
