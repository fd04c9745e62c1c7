#!/usr/bin/env python3
"""WEB: successive states of a documentation site: the javadoc HTML of six Java projects, each at its next release, as
Maven delivers it.

Every file gets a new mtime in every version, as when a site is made anew. With BYTES, pages that their path's hash
chooses.
"""

import zipfile
from pathlib import Path

from common import DAY_S, START_S, fact, need, number, run, said, scratch, thin, version_folder, versions, write

RELEASES = {
    "com.google.guava:guava": "31.1-jre 32.0.0-jre 32.0.1-jre 32.1.1-jre 32.1.2-jre 32.1.3-jre 33.0.0-jre 33.1.0-jre",
    "com.fasterxml.jackson.core:jackson-databind": "2.14.2 2.15.0 2.15.1 2.15.2 2.15.3 2.15.4 2.16.0 2.16.1",
    "org.springframework:spring-web": "6.0.7 6.0.8 6.0.9 6.0.10 6.0.11 6.0.12 6.0.13 6.0.14",
    "org.apache.lucene:lucene-core": "9.3.0 9.4.0 9.4.1 9.4.2 9.5.0 9.6.0 9.7.0 9.8.0",
    "org.eclipse.jgit:org.eclipse.jgit": (
        "6.3.0.202209071007-r 6.4.0.202211300538-r 6.5.0.202303070854-r 6.6.0.202305301015-r "
        "6.6.1.202309021850-r 6.7.0.202309050840-r 6.8.0.202311291450-r 6.9.0.202403050737-r"
    ),
    "org.eclipse.jetty:jetty-server": "11.0.11 11.0.12 11.0.13 11.0.14 11.0.15 11.0.16 11.0.17 11.0.18",
}
POM = """<project><modelVersion>4.0.0</modelVersion><groupId>lab</groupId><artifactId>web</artifactId>
<version>1</version><packaging>pom</packaging>
<build><plugins><plugin><artifactId>maven-dependency-plugin</artifactId><version>3.6.1</version><configuration><artifactItems>
{}
</artifactItems></configuration></plugin></plugins></build></project>
"""
ITEM = (
    "<artifactItem><groupId>{}</groupId><artifactId>{}</artifactId><version>{}</version><type>jar</type>"
    "<classifier>javadoc</classifier></artifactItem>"
)
count = versions(8, 8)
budget = number("BYTES", None)
is_chosen = None
fact(**{artifact: " ".join(releases.split()[:count]) for artifact, releases in RELEASES.items()})
with scratch() as work:
    for version in range(1, count + 1):
        folder = version_folder("WEB", version)
        chosen = [(*artifact.split(":"), releases.split()[version - 1]) for artifact, releases in RELEASES.items()]
        pom = Path(work, "pom.xml")
        pom.write_text(POM.format("\n".join(ITEM.format(*artifact) for artifact in chosen)))
        run(
            need("mvn", "maven"),
            "-q",
            "-B",
            "-f",
            pom,
            f"-Dmaven.repo.local={work}/repository",
            "dependency:copy",
            f"-DoutputDirectory={work}",
        )
        jars = {name: zipfile.ZipFile(Path(work, f"{name}-{release}-javadoc.jar")) for _, name, release in chosen}
        pages = {
            f"{name}/{entry.filename}": (jar, entry)
            for name, jar in jars.items()
            for entry in jar.infolist()
            if not entry.is_dir() and not entry.filename.startswith("META-INF/")
        }
        if is_chosen is None:
            is_chosen = thin({path: entry.file_size for path, (_, entry) in pages.items()}, budget and budget // count)
        for path, (jar, entry) in pages.items():
            if is_chosen(path, entry.file_size):
                write(folder / "site" / path, jar.read(entry), START_S + version * DAY_S)
        for jar in jars.values():
            jar.close()
            Path(jar.filename).unlink()
        said("WEB", version)
