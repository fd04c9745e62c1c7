//! Repositories made by older versions: see `tests/data/format-1/README.md`.

use std::fmt::Write as _;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use crate::sandbox::{Run, Sandbox, make_source, run};

const SET_IDS: u32 = 0o6000;

/// A repository without delta chunks, and one with delta chunks and everything introduced with them.
const FOLDERS: [&str; 2] = ["format-1", "format-1-composites"];

fn data(folder: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(folder)
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a folder is made");
    for entry in fs::read_dir(from).expect("the test data is there") {
        let path = entry.expect("an entry").path();
        let target = to.join(path.file_name().expect("a name"));
        if path.is_dir() {
            copy(&path, &target);
        } else {
            fs::copy(&path, &target).expect("the file is copied");
        }
    }
}

/// Quotes a name as in the listings: all bytes except letters, digits and `_.-~/` as %XX.
fn quoted(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, &byte| {
        if byte.is_ascii_alphanumeric() || b"_.-~/".contains(&byte) {
            text.push(byte.into());
        } else {
            write!(text, "%{byte:02X}").expect("a string takes all");
        }
        text
    })
}

/// Appends the entries below `folder`, one line each, as in the listings.
fn listing(root: &Path, folder: &Path, lines: &mut Vec<(PathBuf, String)>) {
    for entry in fs::read_dir(folder).expect("the folder is read") {
        let path = entry.expect("an entry").path();
        let stat = path.symlink_metadata().expect("it is there");
        let kind = stat.file_type();
        let content = if kind.is_file() {
            let bytes = fs::read(&path).expect("the file is read");
            cutpoint_testing::digest::md5(&bytes)
                .iter()
                .fold(String::new(), |text, byte| text + &format!("{byte:02x}"))
        } else if kind.is_symlink() {
            quoted(fs::read_link(&path).expect("the link is read").as_os_str().as_bytes())
        } else {
            "-".to_owned()
        };
        let mode = if kind.is_symlink() { 0 } else { stat.mode() };
        let (links, size) = if kind.is_dir() { (0, 0) } else { (stat.nlink(), stat.len()) };
        let mtime_ns = i128::from(stat.mtime()) * 1_000_000_000 + i128::from(stat.mtime_nsec());
        let shown = path.strip_prefix(root).expect("it is below").as_os_str().as_bytes();
        let shown = quoted(shown);
        lines.push((path.clone(), format!("{mode:o} {links} {size} {mtime_ns} {content} {shown}")));
        if kind.is_dir() {
            listing(root, &path, lines);
        }
    }
}

/// Removes the set-user-id and set-group-id bits, because only root restores owners, and these bits
/// are not restored without them.
fn without_set_ids(line: &str) -> String {
    let (mode, rest) = line.split_once(' ').expect("a line has fields");
    let mode = u32::from_str_radix(mode, 8).expect("a mode");
    format!("{:o} {rest}", mode & !SET_IDS)
}

fn restored(folder: &Path) -> Vec<String> {
    let mut lines = Vec::new();
    listing(folder, folder, &mut lines);
    lines.sort_by(|a, b| a.0.as_os_str().as_bytes().cmp(b.0.as_os_str().as_bytes()));
    lines.into_iter().map(|(_, line)| line).collect()
}

/// Checks that every snapshot of a copy of the repository `name` in `folder` is restored exactly,
/// and that the repository can be written to afterwards.
fn comes_back(folder: &str, name: &str, unlock: &[&str]) {
    let sandbox = Sandbox::new();
    copy(&data(folder), &sandbox.path(""));
    fs::rename(sandbox.path(name), sandbox.path("repo")).expect("renamed");
    for secret in ["key", "passphrase", "recovery-kit"] {
        let private = fs::Permissions::from_mode(0o600);
        fs::set_permissions(sandbox.path(secret), private).expect("set");
    }
    let by = |arguments: &[&str]| -> Run { run(sandbox.command(arguments).args(unlock)) };
    let ids = |arguments: &[&str]| -> Vec<String> {
        by(arguments)
            .well()
            .events()
            .iter()
            .filter(|event| event["type"] == "snapshot")
            .map(|event| event["id"].as_str().expect("an id").to_owned())
            .collect()
    };
    by(&["check", "--read-data"]).ended(0, &["No problems found"]);
    let listed = ids(&["snapshots", "--json"]);
    let forgotten = ids(&["snapshots", "--forgotten", "--json"]);
    assert_eq!((listed.len(), forgotten.len()), (3, 1), "five, of which a prune took one");
    let text = by(&["snapshots"]).well().text().to_owned();
    for word in ["held, and of before the prune", "(held)", "[noted]", "[kept]", "fixture"] {
        assert!(text.contains(word), "{word:?} is missing: {text}");
    }
    by(&["forget", "--undo", &forgotten[0]]).well();

    let is_root = fs::metadata(sandbox.path("")).expect("the folder").uid() == 0;
    let mut compared = 0;
    for id in listed.iter().chain(&forgotten) {
        let expected = fs::read_to_string(data(folder).join(format!("{name}.expected/{id}")))
            .expect("each snapshot has its listing");
        by(&["restore", &format!("{id}:/mnt/data"), "--to", id]).well();
        let mut found = restored(&sandbox.path(id));
        let mut expected: Vec<String> = expected.lines().map(str::to_owned).collect();
        if !is_root {
            for lines in [&mut found, &mut expected] {
                lines.iter_mut().for_each(|line| *line = without_set_ids(line));
            }
        }
        assert_eq!(found, expected, "snapshot {id}");
        compared += found.len();
    }
    assert_eq!(compared, 4 * 57, "entries");

    make_source(&sandbox.path("source"));
    by(&["backup", "source"]).well();
    by(&["check", "--read-data"]).ended(0, &["Checked 5 snapshots", "No problems found"]);
}

#[test]
fn format_1_with_encryption() {
    FOLDERS.iter().for_each(|folder| comes_back(folder, "encrypted", &["--key-file", "key"]));
}

#[test]
fn format_1_without_encryption() {
    FOLDERS.iter().for_each(|folder| comes_back(folder, "open", &[]));
}

#[test]
fn passphrases_and_recovery_kits_of_format_1_open_it() {
    for unlock in [["--passphrase-file", "passphrase"], ["--key-file", "recovery-kit"]] {
        let sandbox = Sandbox::new();
        copy(&data("format-1"), &sandbox.path(""));
        fs::rename(sandbox.path("encrypted"), sandbox.path("repo")).expect("renamed");
        let file = sandbox.path(unlock[1]);
        fs::set_permissions(file, fs::Permissions::from_mode(0o600)).expect("set");
        let listed = run(sandbox.command(["snapshots", "--json"]).args(unlock)).well().events();
        let snapshots = listed.iter().filter(|event| event["type"] == "snapshot").count();
        assert_eq!(snapshots, 3, "{unlock:?}");
    }
}
