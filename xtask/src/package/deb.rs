//! Packages of Debian and its relatives.

use super::archive::tar;
use super::parts::{Part, Parts, gzip};
use super::release::{DESCRIPTION, HOMEPAGE, MAINTAINER, REVISION, Release, SUMMARY, Target};

/// The folder of the completions of zsh.
const ZSH: &str = "usr/share/zsh/vendor-completions";

/// Has systemd read its units again, after an installation and after a removal.
const RELOAD: &str = "\
#!/bin/sh
set -e
if [ -d /run/systemd/system ]; then
    systemctl --system daemon-reload >/dev/null || true
fi
";

/// Makes the package.
pub(super) fn package(release: &Release, target: &Target) -> Result<(), String> {
    let parts = Parts::make(release, target)?;
    let mut files = parts.of_distribution(ZSH);
    let doc = "usr/share/doc/cutpoint";
    files.push(Part::new(format!("{doc}/THIRD-PARTY.gz"), gzip(&parts.notices)));
    files.push(Part::new(format!("{doc}/changelog.gz"), gzip(&parts.changelog)));
    files.push(Part::new(format!("{doc}/changelog.Debian.gz"), gzip(changes(release).as_bytes())));
    files.push(Part::new(format!("{doc}/copyright"), copyright(&parts).into_bytes()));
    let scripts =
        ["postinst", "postrm"].map(|name| Part::program(name, RELOAD.as_bytes().to_vec()));
    let control = Part::new("control", control(release, target, &files).into_bytes());
    let control = tar(&[&[control][..], &scripts].concat(), release.time_s, "./")?;
    let data = tar(&files, release.time_s, "./")?;
    let members = [
        ("debian-binary", b"2.0\n".to_vec()),
        ("control.tar.gz", gzip(&control)),
        ("data.tar.gz", gzip(&data)),
    ];
    let name = format!("cutpoint_{}-{REVISION}_{}.deb", release.version, target.deb);
    release.write(&name, &ar(&members, release.time_s))
}

/// Returns an archive in the format of `ar`.
fn ar(members: &[(&str, Vec<u8>)], time_s: u64) -> Vec<u8> {
    let mut archive = b"!<arch>\n".to_vec();
    for (name, bytes) in members {
        let header =
            format!("{name:<16}{time_s:<12}{:<6}{:<6}{:<8}{:<10}`\n", 0, 0, "100644", bytes.len());
        archive.extend_from_slice(header.as_bytes());
        archive.extend_from_slice(bytes);
        // Members begin at even offsets.
        if bytes.len() % 2 == 1 {
            archive.push(b'\n');
        }
    }
    archive
}

fn control(release: &Release, target: &Target, files: &[Part]) -> String {
    let installed_kib: usize = files.iter().map(|file| file.bytes.len().div_ceil(1024)).sum();
    let description: String = DESCRIPTION.iter().map(|line| format!(" {line}\n")).collect();
    format!(
        "Package: cutpoint\nVersion: {}-{REVISION}\nArchitecture: {}\nMaintainer: {MAINTAINER}\n\
         Installed-Size: {installed_kib}\nRecommends: openssh-client\nSuggests: fuse3, nbd-client, rclone\n\
         Section: utils\nPriority: optional\nHomepage: {HOMEPAGE}\nDescription: {SUMMARY}\n{description}",
        release.version, target.deb
    )
}

/// Returns the log of the package, which has one entry.
fn changes(release: &Release) -> String {
    let date = super::release::rfc2822(release.time_s);
    format!(
        "cutpoint ({}-{REVISION}) stable; urgency=medium\n\n  * Package of commit {}.\n\n -- {MAINTAINER}  {date}\n",
        release.version, release.commit
    )
}

/// Returns the licences in the format that Debian's tools read.
fn copyright(parts: &Parts) -> String {
    let indented = |name: &str| {
        let text = parts.licences.get(name).map(|text| String::from_utf8_lossy(text).into_owned());
        let text = text.unwrap_or_default();
        let lines = text.lines().map(|line| match line.trim_end() {
            "" => " .\n".to_owned(),
            line => format!(" {line}\n"),
        });
        lines.collect::<String>()
    };
    format!(
        "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\n\
         Upstream-Name: cutpoint\nSource: {HOMEPAGE}\n\
         Comment: The program contains libraries; THIRD-PARTY.gz has their licences.\n\n\
         Files: *\nCopyright: the authors of Cutpoint\nLicense: Expat or Apache-2.0\n\n\
         License: Expat\n{}\nLicense: Apache-2.0\n{}",
        indented("LICENSE-MIT"),
        indented("LICENSE-APACHE")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_of_an_archive_begin_at_even_offsets() {
        let archive = ar(&[("a", b"odd".to_vec()), ("b", Vec::new())], 7);
        assert_eq!(archive.len(), 8 + 60 + 4 + 60);
        assert_eq!(&archive[8..26], b"a               7 ");
        assert_eq!(&archive[8 + 58..8 + 64], b"`\nodd\n");
    }
}
