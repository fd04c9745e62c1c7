//! Everything that a restore brings back is shown, and the folders at the top lead there.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use cutpoint_testing::{SplitMix64, skipped};
use rustix::fs::{SeekFrom, lgetxattr, llistxattr, seek};

use super::{Mounted, names, sandbox, until};
use crate::sandbox::{NOBODY, Sandbox, is_root, make_source};

/// Adds to the source what only root, or not every file system, can have.
pub(in crate::services) fn add_rarities(sandbox: &Sandbox) {
    let source = sandbox.path("source");
    let sparse = fs::OpenOptions::new().write(true).open(source.join("sparse")).expect("opened");
    for at in [400_000, 1_000_001, 2_999_999] {
        std::os::unix::fs::FileExt::write_all_at(&sparse, b"data", at).expect("written");
    }
    for number in 0..3000 {
        let name = source.join("sub").join(format!("{number:05} {}", "x".repeat(40)));
        fs::write(name, number.to_string()).expect("written");
    }
    fs::write(source.join("large"), SplitMix64::bytes(9, 5_000_000)).expect("written");
    let script = "set -e
        touch -d '1960-01-01T00:00:00.123456789Z' sub/deep
        setfattr -n user.empty hello
        setfattr -n user.value -v 0x00ff0a hello
        setfattr -n user.folder -v x sub
        setfacl -m u:65534:r-x,d:g:65534:r-- sub
        setfacl -m u:65534:r large
        if [ $(id -u) = 0 ]; then
            mknod char c 1 3; mknod block b 259 300000; chown 1234:54321 big; chown -h 1:1 sub/link
        fi
        chmod 2750 'empty folder'; chmod 0 empty; chmod 1777 sub/deep";
    let status = Command::new("sh").args(["-c", script]).current_dir(source).status();
    assert!(status.is_ok_and(|status| status.success()), "attr and acl are installed");
}

/// A name with everything that must be equal.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::services) struct Properties {
    mode: u32,
    owner: (u32, u32),
    size: u64,
    blocks: u64,
    links: u64,
    device: u64,
    modified: (i64, i64),
    xattrs: BTreeMap<Vec<u8>, Vec<u8>>,
    content: Vec<u8>,
    /// The offsets at which data and holes begin.
    holes: Vec<u64>,
    /// The first name of the file.
    first: PathBuf,
}

fn xattrs(path: &Path) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let mut names = vec![0; 65_536];
    let len = llistxattr(path, names.as_mut_slice()).expect("listed");
    let names = names[..len].split(|byte| *byte == 0).filter(|name| !name.is_empty());
    let value = |name: &[u8]| {
        let mut value = vec![0; 65_536];
        let len = lgetxattr(path, OsStr::from_bytes(name), value.as_mut_slice()).expect("read");
        value.truncate(len);
        (name.to_vec(), value)
    };
    names.map(value).collect()
}

fn holes(path: &Path, size: u64) -> Vec<u64> {
    let file = fs::File::open(path).expect("opened");
    let mut offsets = Vec::new();
    let (mut at, mut is_hole) = (0, false);
    while at < size {
        let wanted = if is_hole { SeekFrom::Hole(at) } else { SeekFrom::Data(at) };
        at = seek(&file, wanted).unwrap_or(size);
        offsets.push(at);
        is_hole = !is_hole;
    }
    offsets
}

pub(in crate::services) fn walk(root: &Path) -> BTreeMap<PathBuf, Properties> {
    let (mut all, mut firsts) = (BTreeMap::new(), BTreeMap::new());
    let mut open = vec![PathBuf::new()];
    while let Some(path) = open.pop() {
        let full = root.join(&path);
        let stat = full.symlink_metadata().expect("it is there");
        let (is_file, is_folder) = (stat.is_file(), stat.is_dir());
        let content = match stat.file_type() {
            kind if kind.is_file() => fs::read(&full).expect("read"),
            kind if kind.is_symlink() => {
                fs::read_link(&full).expect("read").into_os_string().into_encoded_bytes()
            }
            _ => Vec::new(),
        };
        if is_folder {
            let entries = fs::read_dir(&full).expect("listed");
            let mut below: Vec<PathBuf> =
                entries.map(|entry| path.join(entry.expect("an entry").file_name())).collect();
            below.sort();
            open.extend(below.into_iter().rev());
        }
        let first = firsts.entry(stat.ino()).or_insert_with(|| path.clone()).clone();
        let properties = Properties {
            mode: stat.mode(),
            owner: (stat.uid(), stat.gid()),
            // Those of folders are up to the file system.
            size: if is_folder { 0 } else { stat.len() },
            blocks: if is_file { stat.blocks() } else { 0 },
            links: if is_folder { 0 } else { stat.nlink() },
            device: stat.rdev(),
            modified: (stat.mtime(), stat.mtime_nsec()),
            xattrs: xattrs(&full),
            content,
            holes: if is_file { holes(&full, stat.len()) } else { Vec::new() },
            first,
        };
        all.insert(path, properties);
    }
    all
}

/// Compares everything, except that programs need not find the same holes.
pub(in crate::services) fn assert_equal(
    shown: &BTreeMap<PathBuf, Properties>,
    restored: &BTreeMap<PathBuf, Properties>,
    with_holes: bool,
) {
    assert!(shown.keys().eq(restored.keys()), "other names: {:?}", shown.keys());
    for (path, expected) in restored {
        let found = &shown[path];
        let are_bytes_equal = found.content == expected.content;
        assert!(are_bytes_equal, "{path:?}: other bytes");
        let blank = |properties: &Properties| {
            let Properties { mode, owner, size, blocks, links, device, modified, .. } = properties;
            let Properties { xattrs, holes, first, .. } = properties;
            let holes = with_holes.then_some((blocks, holes));
            format!(
                "{mode:o} {owner:?} {size} {links} {device} {modified:?} {xattrs:?} {holes:?} \
                 {first:?}"
            )
        };
        assert_eq!(blank(found), blank(expected), "{path:?}");
    }
}

#[test]
fn mounted_snapshot_equals_a_restore() {
    let Some(sandbox) = sandbox() else { return };
    make_source(&sandbox.path("source"));
    add_rarities(&sandbox);
    sandbox.backup("source");
    let inner = format!("latest:{}", sandbox.path("source").display());
    sandbox.run(["restore", &inner, "--to", "back"]).ended(0, &["Restored"]);
    let mounted = Mounted::new(&sandbox, &[]);
    let restored = walk(&sandbox.path("back"));
    assert!(restored.len() > 3015, "{} entries", restored.len());
    let shown = walk(&mounted.latest(&sandbox.path("source")));
    assert_equal(&shown, &restored, true);
    let diff = Command::new("diff")
        .args(["-r", "--no-dereference", "-x", "pipe", "-x", "char", "-x", "block"])
        .arg(mounted.latest(&sandbox.path("source")))
        .arg(sandbox.path("back"))
        .output();
    let diff = diff.expect("diff runs");
    assert!(diff.status.success(), "{}", String::from_utf8_lossy(&diff.stdout));
    let (code, log) = mounted.end();
    assert_eq!(code, Some(0), "{log}");
}

#[test]
fn new_snapshots_appear_and_forgotten_ones_disappear() {
    let Some(sandbox) = sandbox() else { return };
    make_source(&sandbox.path("source"));
    let backup = |host: &str, tag: &str| {
        let events = sandbox.json(["backup", "source", "--host", host, "--tag", tag]);
        let id = events.last().expect("a summary")["snapshot"].as_str().expect("an id").to_owned();
        id[..8].to_owned()
    };
    let first = backup("a/b", "x");
    let mounted = Mounted::new(&sandbox, &["--tag", "x"]);
    let top = |path: &str| names(&mounted.folder.join(path));
    let target = |path: &str| {
        fs::read_link(mounted.folder.join(path)).expect("a link").display().to_string()
    };
    assert_eq!(top(""), ["by-time", "hosts", "ids", "latest", "tags"], "the folders");
    assert_eq!((top("ids"), top("hosts")), (vec![first.clone()], vec!["a%2Fb".to_owned()]));
    assert_eq!(target("latest"), format!("ids/{first}"));
    assert_eq!(target("hosts/a%2Fb/latest"), format!("../../ids/{first}"));
    assert_eq!(target("tags/x/latest"), format!("../../ids/{first}"));
    assert_eq!(target(&format!("by-time/{}", top("by-time")[0])), format!("../ids/{first}"));
    backup("other", "y");
    let third = backup("other", "x");
    until("the third snapshot appears", || top("ids").contains(&third));
    assert_eq!(top("ids").len(), 2, "the second is not selected");
    assert_eq!(target("latest"), format!("ids/{third}"));
    let hello = Path::new("hosts/other/latest")
        .join(sandbox.path("source/hello").strip_prefix("/").expect("an absolute path"));
    let bytes = fs::read(mounted.folder.join(hello)).expect("it can be read");
    assert_eq!(bytes, b"hello, world\n");
    sandbox.run(["forget", &first]).ended(0, &[]);
    until("the first snapshot disappears", || top("ids") == [third.clone()]);
    let (code, log) = mounted.end();
    assert_eq!(code, Some(0), "{log}");
}

/// Without --allow-other, the mounting user can read everything, and other users nothing.
#[test]
fn user_mounts_and_others_stay_out() {
    let Some(sandbox) = sandbox() else { return };
    make_source(&sandbox.path("source"));
    sandbox.backup("source");
    if !sandbox.give_away() {
        return;
    }
    let device = fs::metadata("/dev/fuse").expect("the device");
    if is_root() && device.mode() & 0o006 != 0o006 {
        skipped("/dev/fuse is for root alone here: mounting by another user was not tried");
        return;
    }
    let mounted = Mounted::by(sandbox.command_of_user(["mount", "mnt"]), &sandbox);
    let cat = |mut command: Command| {
        command.arg(mounted.latest(&sandbox.path("source/hello")));
        command.output().expect("cat runs")
    };
    if is_root() {
        let mut user = Command::new("cat");
        user.uid(NOBODY).gid(NOBODY);
        assert_eq!(cat(user).stdout, b"hello, world\n", "the user");
        assert!(!cat(Command::new("cat")).status.success(), "not even root");
    } else {
        assert_eq!(cat(Command::new("cat")).stdout, b"hello, world\n", "the user");
    }
    mounted.signal("INT");
    until("it is unmounted", || !mounted.is_mounted());
}
