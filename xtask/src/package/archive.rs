//! Archives: of the program for any Linux, and of the sources.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use tar::{Builder, EntryType, Header};

use super::parts::{Part, Parts, gzip};
use super::release::{Release, Target, read};
use crate::{output, root};

/// Makes the archive for any Linux, whose files are in one folder.
pub(super) fn package(release: &Release, target: &Target) -> Result<(), String> {
    let parts = Parts::make(release, target)?;
    let folder = folder_name(release, target);
    let mut files = vec![Part::program("cutpoint", parts.program)];
    for (shell, script) in parts.completions {
        files.push(Part::new(format!("completions/cutpoint.{shell}"), script));
    }
    files.extend(
        parts.manual.into_iter().map(|(name, page)| Part::new(format!("man/{name}"), page)),
    );
    files.extend(parts.licences.into_iter().map(|(name, text)| Part::new(name, text)));
    files.push(Part::new("CHANGELOG.md", parts.changelog));
    files.push(Part::new("README.md", read(&Path::new(root()).join("README.md"))?));
    files.push(Part::new("THIRD-PARTY.txt", parts.notices));
    files.push(Part::new("cutpoint-volume@.service", parts.unit));
    for file in &mut files {
        file.path = format!("{folder}/{}", file.path);
    }
    let archive = gzip(&tar(&files, release.time_s, "")?);
    release.write(&file_name(release, target), &archive)
}

/// Returns the name of the archive for any Linux.
pub(super) fn file_name(release: &Release, target: &Target) -> String {
    format!("{}.tar.gz", folder_name(release, target))
}

fn folder_name(release: &Release, target: &Target) -> String {
    format!("cutpoint-{}-{}", release.version, target.triple)
}

/// Makes the archive of the sources of the commit.
pub(super) fn source(release: &Release) -> Result<(), String> {
    let prefix = format!("--prefix=cutpoint-{}/", release.version);
    let mut command = Command::new("git");
    command.args(["archive", "--format=tar", &prefix, &release.commit]).current_dir(root());
    release.write(&source_name(release), &gzip(&output(command)?))
}

/// Returns the name of the archive of the sources.
pub(super) fn source_name(release: &Release) -> String {
    format!("cutpoint-{}.tar.gz", release.version)
}

/// Returns a tar archive of files that belong to root, and of the folders that contain them. The names
/// of all begin with `prefix`.
pub(super) fn tar(files: &[Part], time_s: u64, prefix: &str) -> Result<Vec<u8>, String> {
    let mut folders: BTreeSet<&str> = BTreeSet::new();
    let mut builder = Builder::new(Vec::new());
    let mut sorted: Vec<&Part> = files.iter().collect();
    sorted.sort_by(|left, right| left.path.cmp(&right.path));
    for file in sorted {
        for (end, _) in file.path.match_indices('/') {
            let folder = &file.path[..end];
            if folders.insert(folder) {
                let path = format!("{prefix}{folder}/");
                append(&mut builder, &path, 0o755, time_s, None)?;
            }
        }
        let path = format!("{prefix}{}", file.path);
        if file.is_folder() {
            folders.insert(&file.path);
            append(&mut builder, &format!("{path}/"), file.mode, time_s, None)?;
        } else {
            append(&mut builder, &path, file.mode, time_s, Some(&file.bytes))?;
        }
    }
    builder.into_inner().map_err(|error| format!("tar: {error}"))
}

/// Appends a file, or a folder if there are no `bytes`.
fn append(
    builder: &mut Builder<Vec<u8>>,
    path: &str,
    mode: u32,
    time_s: u64,
    bytes: Option<&[u8]>,
) -> Result<(), String> {
    let mut header = Header::new_ustar();
    let kind = if bytes.is_some() { EntryType::Regular } else { EntryType::Directory };
    header.set_entry_type(kind);
    header.set_mode(mode & 0o7777);
    header.set_uid(0);
    header.set_gid(0);
    header.set_mtime(time_s);
    header.set_size(bytes.map_or(0, |bytes| bytes.len() as u64));
    let named = |error| format!("tar: {path}: {error}");
    header.set_username("root").and_then(|()| header.set_groupname("root")).map_err(named)?;
    // The name is put in directly, because the library takes `./` away.
    let name = &mut header.as_old_mut().name;
    let room = name.get_mut(..path.len()).ok_or(format!("tar: {path} is too long"))?;
    room.copy_from_slice(path.as_bytes());
    header.set_cksum();
    builder.append(&header, bytes.unwrap_or_default()).map_err(named)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn archive_of_files_has_folders_before_them_and_one_time() {
        let files = [
            Part::new("usr/share/b", b"text".to_vec()),
            Part::program("usr/bin/a", b"program".to_vec()),
            Part::folder("tmp", 0o1777),
        ];
        let bytes = tar(&files, 1_700_000_000, "./").unwrap_or_default();
        let mut archive = tar::Archive::new(&bytes[..]);
        let mut found = Vec::new();
        for entry in archive.entries().into_iter().flatten().flatten() {
            let header = entry.header();
            assert_eq!(header.mtime().ok(), Some(1_700_000_000));
            assert_eq!(header.uid().ok(), Some(0));
            let path = String::from_utf8_lossy(&header.path_bytes()).into_owned();
            found.push((path, header.mode().unwrap_or_default()));
        }
        let expected = [
            ("./tmp/", 0o1777),
            ("./usr/", 0o755),
            ("./usr/bin/", 0o755),
            ("./usr/bin/a", 0o755),
            ("./usr/share/", 0o755),
            ("./usr/share/b", 0o644),
        ];
        assert_eq!(found, expected.map(|(path, mode)| (path.to_owned(), mode)));
        assert!(tar(&[Part::new("x".repeat(101), Vec::new())], 0, "").is_err());
    }
}
