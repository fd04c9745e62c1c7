//! Packages of Fedora, openSUSE and their relatives, in version 4 of the format.

use super::parts::{Part, Parts, gzip};
use super::release::{DESCRIPTION, HOMEPAGE, REVISION, Release, SUMMARY, Target, sha256};
use super::rpm_header::{Header, Value, to_u32};

/// The folder of the completions of zsh.
const ZSH: &str = "usr/share/zsh/site-functions";

/// The flags of a file that is documentation, and of one that is a licence.
const DOCUMENTATION: u32 = 2;
const LICENCE: u32 = 128;

/// The number of SHA-256 among the algorithms.
const SHA256: u32 = 8;

/// The comparison "equal" of versions, "less or equal", and the mark of what `rpm` itself must know.
const EQUAL: u32 = 8;
const LESS_OR_EQUAL: u32 = 2 | EQUAL;
const KNOWN_BY_RPM: u32 = 1 << 24;

/// Makes the package.
pub(super) fn package(release: &Release, target: &Target) -> Result<(), String> {
    let parts = Parts::make(release, target)?;
    let mut files = parts.of_distribution(ZSH);
    let doc = "usr/share/doc/cutpoint";
    files.push(Part::new(format!("{doc}/CHANGELOG.md"), parts.changelog.clone()));
    files.push(Part::new(format!("{doc}/THIRD-PARTY.txt"), parts.notices.clone()));
    for (name, text) in &parts.licences {
        files.push(Part::new(format!("usr/share/licenses/cutpoint/{name}"), text.clone()));
    }
    files.push(Part::folder(doc, 0o755));
    files.push(Part::folder("usr/share/licenses/cutpoint", 0o755));
    files.sort_by(|left, right| left.path.cmp(&right.path));
    let cpio = cpio(&files, release.time_s)?;
    let payload = gzip(&cpio);
    let mut header = Header::new(63);
    describe(&mut header, release, target)?;
    list(&mut header, &files, release.time_s)?;
    header.set(1009, Value::U32s(vec![to_u32(files.iter().map(|file| file.bytes.len()).sum())?]));
    header.texts(5092, &[&sha256(&payload)]);
    header.set(5093, Value::U32s(vec![SHA256]));
    header.texts(5097, &[&sha256(&cpio)]);
    let header = header.encode()?;
    let mut sums = Header::new(62);
    sums.text(273, sha256(&header));
    sums.set(1000, Value::U32s(vec![to_u32(header.len() + payload.len())?]));
    sums.set(1007, Value::U32s(vec![to_u32(cpio.len())?]));
    let mut sums = sums.encode()?;
    sums.resize(sums.len().next_multiple_of(8), 0);
    let name = format!("cutpoint-{}-{REVISION}.{}.rpm", release.version, target.rpm);
    release.write(&name, &[lead(release, target)?, sums, header, payload].concat())
}

/// Returns the first bytes of a package, which only tools for types of files look at.
fn lead(release: &Release, target: &Target) -> Result<Vec<u8>, String> {
    let name = format!("cutpoint-{}-{REVISION}", release.version);
    let mut lead = vec![0xed, 0xab, 0xee, 0xdb, 3, 0, 0, 0];
    lead.extend_from_slice(&target.rpm_number.to_be_bytes());
    let name = name.as_bytes().get(..name.len().min(65)).unwrap_or_default();
    lead.extend_from_slice(name);
    lead.resize(10 + 66, 0);
    // The system is Linux, and a header with sums follows.
    lead.extend_from_slice(&[0, 1, 0, 5]);
    lead.resize(96, 0);
    Ok(lead)
}

/// Adds what concerns the package as a whole.
fn describe(header: &mut Header, release: &Release, target: &Target) -> Result<(), String> {
    let version = format!("{}-{REVISION}", release.version);
    let time_s = u32::try_from(release.time_s).map_err(|_| "the time does not fit".to_owned())?;
    header.texts(100, &["C"]);
    header.text(1000, "cutpoint");
    header.text(1001, release.version);
    header.text(1002, REVISION);
    header.set(1004, Value::Localized(SUMMARY.to_owned()));
    header.set(1005, Value::Localized(DESCRIPTION.join("\n")));
    header.set(1006, Value::U32s(vec![time_s]));
    header.text(1007, "localhost");
    header.text(1014, "MIT OR Apache-2.0");
    header.set(1016, Value::Localized("Applications/Archiving".to_owned()));
    header.text(1020, HOMEPAGE);
    header.text(1021, "linux");
    header.text(1022, target.rpm);
    header.text(1044, format!("cutpoint-{version}.src.rpm"));
    header.text(1064, "4.18.0");
    header.text(1124, "cpio");
    header.text(1125, "gzip");
    header.text(1126, "9");
    let features = [
        ("rpmlib(CompressedFileNames)", "3.0.4-1"),
        ("rpmlib(FileDigests)", "4.6.0-1"),
        ("rpmlib(PayloadFilesHavePrefix)", "4.0-1"),
    ];
    header.texts(1049, &features.map(|(name, _)| name));
    header.texts(1050, &features.map(|(_, version)| version));
    header.set(1048, Value::U32s(vec![KNOWN_BY_RPM | LESS_OR_EQUAL; features.len()]));
    let isa = format!("cutpoint({}-64)", if target.rpm == "x86_64" { "x86" } else { "aarch" });
    header.texts(1047, &["cutpoint", &isa]);
    header.texts(1113, &[&version, &version]);
    header.set(1112, Value::U32s(vec![EQUAL; 2]));
    // Recommended packages, of any version.
    header.texts(5046, &["openssh-clients"]);
    header.texts(5047, &[""]);
    header.set(5048, Value::U32s(vec![0]));
    Ok(())
}

/// Adds the list of files.
fn list(header: &mut Header, files: &[Part], time_s: u64) -> Result<(), String> {
    let time_s = u32::try_from(time_s).map_err(|_| "the time does not fit".to_owned())?;
    let mut folders: Vec<String> = Vec::new();
    let mut folder_indexes = Vec::new();
    let mut names = Vec::new();
    for file in files {
        let (folder, name) = file.path.rsplit_once('/').unwrap_or(("", &file.path));
        let folder = format!("/{folder}/");
        // Files are sorted, but a folder can come again behind a folder inside it.
        let known = folders.iter().position(|each| *each == folder);
        let index = known.unwrap_or_else(|| {
            folders.push(folder);
            folders.len() - 1
        });
        folder_indexes.push(to_u32(index)?);
        names.push(name.to_owned());
    }
    let count = files.len();
    let lengths: Result<Vec<u32>, String> =
        files.iter().map(|file| to_u32(file.bytes.len())).collect();
    let modes: Result<Vec<u16>, _> = files.iter().map(|file| u16::try_from(file.mode)).collect();
    let inodes: Result<Vec<u32>, String> = (1..=count).map(to_u32).collect();
    let same = |text: &str| Value::Texts(vec![text.to_owned(); count]);
    header.set(1028, Value::U32s(lengths?));
    header.set(1030, Value::U16s(modes.map_err(|error| error.to_string())?));
    header.set(1033, Value::U16s(vec![0; count]));
    header.set(1034, Value::U32s(vec![time_s; count]));
    header.set(1035, Value::Texts(files.iter().map(sum_of).collect()));
    header.set(1036, same(""));
    header.set(1037, Value::U32s(files.iter().map(flags).collect()));
    header.set(1039, same("root"));
    header.set(1040, same("root"));
    header.set(1045, Value::U32s(vec![u32::MAX; count]));
    header.set(1095, Value::U32s(vec![1; count]));
    header.set(1096, Value::U32s(inodes?));
    header.set(1097, same(""));
    header.set(1116, Value::U32s(folder_indexes));
    header.set(1117, Value::Texts(names));
    header.set(1118, Value::Texts(folders));
    header.set(5011, Value::U32s(vec![SHA256]));
    Ok(())
}

/// Returns the sum of a file; a folder has none.
fn sum_of(file: &Part) -> String {
    if file.is_folder() { String::new() } else { sha256(&file.bytes) }
}

fn flags(file: &Part) -> u32 {
    let is_below = |folder: &str| file.path.starts_with(folder);
    if file.is_folder() {
        0
    } else if is_below("usr/share/licenses/") {
        LICENCE
    } else if is_below("usr/share/doc/") || is_below("usr/share/man/") {
        DOCUMENTATION
    } else {
        0
    }
}

/// Returns an archive of `files` in the format `newc` of cpio.
fn cpio(files: &[Part], time_s: u64) -> Result<Vec<u8>, String> {
    let mut archive = Vec::new();
    for (index, file) in files.iter().enumerate() {
        let name = format!("./{}", file.path);
        append(
            &mut archive,
            &name,
            &file.bytes,
            [to_u32(index + 1)?, file.mode, to_u32_time(time_s)?],
        )?;
    }
    append(&mut archive, "TRAILER!!!", &[], [0; 3])?;
    Ok(archive)
}

/// Appends a file, of which inode, mode and time are given.
fn append(archive: &mut Vec<u8>, name: &str, bytes: &[u8], values: [u32; 3]) -> Result<(), String> {
    let [inode, mode, time_s] = values;
    let name_len = to_u32(name.len() + 1)?;
    let len = to_u32(bytes.len())?;
    archive.extend_from_slice(b"070701");
    // Inode, mode, user, group, links, time, length, four numbers of devices, length of the name, sum.
    for number in [inode, mode, 0, 0, 1, time_s, len, 0, 0, 0, 0, name_len, 0] {
        archive.extend_from_slice(format!("{number:08x}").as_bytes());
    }
    archive.extend_from_slice(name.as_bytes());
    archive.push(0);
    archive.resize(archive.len().next_multiple_of(4), 0);
    archive.extend_from_slice(bytes);
    archive.resize(archive.len().next_multiple_of(4), 0);
    Ok(())
}

fn to_u32_time(time_s: u64) -> Result<u32, String> {
    u32::try_from(time_s).map_err(|_| format!("the time {time_s} does not fit into an RPM package"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn archive_of_a_file_is_aligned() {
        let archive = cpio(&[Part::new("ab", b"text!".to_vec())], 0x10).unwrap_or_default();
        assert_eq!(archive.len() % 4, 0);
        let head =
            b"07070100000001000081a400000000000000000000000100000010000000050000000000000000";
        assert_eq!(&archive[..head.len()], head);
        assert_eq!(&archive[110..116], b"./ab\0\0", "name, padded from 115 to 116");
        assert_eq!(&archive[116..124], b"text!\0\0\0");
        assert!(archive.windows(10).any(|bytes| bytes == b"TRAILER!!!"));
    }
}
