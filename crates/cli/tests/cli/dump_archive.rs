//! `dump`: archives that other programs extract like a restore.

use std::ffi::OsStr;
use std::fs;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, UNIX_EPOCH};

use cutpoint_testing::SplitMix64;

use crate::failures::flip;
use crate::sandbox::{Run, Sandbox, describe, run};

/// Returns `true` if a program can be started. Otherwise, reports that a test is skipped.
fn has_program(name: &str) -> bool {
    let mut command = Command::new(name);
    let found = command.arg("--help").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok();
    if !found {
        cutpoint_testing::skipped(&format!("there is no {name}"));
    }
    found
}

/// Runs a program in the sandbox with `input`. Returns its standard output.
#[track_caller]
fn feed(sandbox: &Sandbox, words: &[&str], input: &[u8]) -> Vec<u8> {
    let mut command = Command::new(words[0]);
    command.args(&words[1..]).current_dir(sandbox.path("")).env("TZ", "Asia/Tokyo");
    command.env("LC_ALL", "C.UTF-8");
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("it starts");
    let mut stdin = child.stdin.take().expect("a pipe");
    let input = input.to_vec();
    let feeder = std::thread::spawn(move || stdin.write_all(&input).ok());
    let output = child.wait_with_output().expect("it ends");
    feeder.join().expect("the feeder ends");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.is_empty(), "{words:?}: {said}");
    output.stdout
}

/// Dumps a place. Returns the archive.
#[track_caller]
fn dump(sandbox: &Sandbox, arguments: &[&str]) -> Vec<u8> {
    sandbox.run(["dump"].iter().chain(arguments)).well().stdout
}

fn set_time(path: &Path, since_1970: Duration) {
    let file = fs::File::open(path).expect("opened");
    file.set_modified(UNIX_EPOCH + since_1970).expect("the time is set");
}

/// Adds entries with everything that needs a PAX record.
pub(crate) fn add_extremes(source: &Path) {
    let long = "long name ".repeat(15);
    let deep = source.join("x".repeat(120)).join("\u{fc}".repeat(60)).join(&long);
    fs::create_dir_all(&deep).expect("folders are made");
    let file = deep.join(OsStr::from_bytes(&[b"\xff\n".repeat(60), b"%=".to_vec()].concat()));
    fs::write(&file, "deep").expect("written");
    fs::hard_link(&file, source.join("another name of a long path")).expect("linked");
    symlink("target/".repeat(40), source.join("long link")).expect("linked");
    fs::write(source.join("\u{20ac}"), "not ASCII").expect("written");
    fs::write(source.join("-dash"), "an option?").expect("written");
    fs::write(source.join("back\\slash"), "of Unix").expect("written");
    set_time(&source.join("big"), Duration::new(1_234_567_890, 123_456_789));
    fs::write(source.join("future"), "").expect("written");
    set_time(&source.join("future"), Duration::from_secs(9_000_000_000));
    let before = fs::File::create(source.join("before 1970")).expect("created");
    before.set_modified(UNIX_EPOCH - Duration::new(1, 500_000_000)).expect("the time is set");
    let attributes = [("user.color", &b"red"[..]), ("user.a=b%", b"\0=\n"), ("user.empty", b"")];
    for (name, value) in attributes {
        let flags = rustix::fs::XattrFlags::empty();
        rustix::fs::setxattr(source.join("big"), name, value, flags).ok();
    }
    // The ACL u::rw- u:1000:rw- g::r-- m::rw- o::---, which only some file systems accept.
    let entries: [(u16, u16, u32); 5] =
        [(1, 6, u32::MAX), (2, 6, 1000), (4, 4, u32::MAX), (16, 6, u32::MAX), (32, 0, u32::MAX)];
    let mut acl = 2_u32.to_le_bytes().to_vec();
    for (tag, permissions, id) in entries {
        acl.extend([tag.to_le_bytes(), permissions.to_le_bytes()].concat());
        acl.extend(id.to_le_bytes());
    }
    let (name, flags) = ("system.posix_acl_access", rustix::fs::XattrFlags::empty());
    rustix::fs::setxattr(source.join("empty"), name, &acl, flags).ok();
    rustix::fs::setxattr(source.join("sub"), "system.posix_acl_default", &acl, flags).ok();
    if rustix::process::geteuid().is_root() {
        std::os::unix::fs::chown(source.join("big"), Some(3_000_000), Some(4_000_000_000))
            .expect("owners are set");
        let device = rustix::fs::makedev(1, 3);
        let kind = rustix::fs::FileType::CharacterDevice;
        let folder = fs::File::open(source).expect("opened");
        rustix::fs::mknodat(&folder, "null", kind, rustix::fs::Mode::RUSR, device).ok();
    }
    fs::set_permissions(source.join("sub"), fs::Permissions::from_mode(0o2750)).expect("set");
    set_time(&source.join("sub"), Duration::new(1_000_000_000, 1));
}

/// Returns the extended attributes of everything in a folder.
pub(crate) fn attributes(folder: &Path) -> Vec<(PathBuf, Vec<u8>, Vec<u8>)> {
    let mut all = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(&next).expect("listed") {
            let path = entry.expect("an entry").path();
            if path.symlink_metadata().expect("metadata").is_dir() {
                folders.push(path.clone());
            }
            let mut names = vec![0; 4096];
            let len = rustix::fs::llistxattr(&path, &mut names[..]).unwrap_or(0);
            for name in names[..len].split(|&byte| byte == 0).filter(|name| !name.is_empty()) {
                let mut value = vec![0; 4096];
                let len = rustix::fs::lgetxattr(&path, name, &mut value[..]).expect("a value");
                let path = path.strip_prefix(folder).expect("below").to_owned();
                all.push((path, name.to_vec(), value[..len].to_vec()));
            }
        }
    }
    all.sort();
    all
}

#[test]
fn tar_extracts_like_a_restore() {
    if !has_program("tar") {
        return;
    }
    let sandbox = Sandbox::with_source();
    let source = sandbox.path("source");
    add_extremes(&source);
    sandbox.backup("source");
    let place = format!("latest:{}", source.display());
    sandbox.run(["restore", &place, "--to", "restored"]).well();
    fs::create_dir(sandbox.path("extracted")).expect("made");
    let archive = dump(&sandbox, &[&place]);
    let extract = ["tar", "-x", "-p", "--warning=no-timestamp"];
    let options = ["--xattrs", "--xattrs-include=*", "-C", "extracted"];
    feed(&sandbox, &[&extract[..], &options].concat(), &archive);
    let (restored, extracted) = (sandbox.path("restored"), sandbox.path("extracted"));
    assert_eq!(describe(&extracted), describe(&restored), "entries");
    assert_eq!(describe(&restored), describe(&source), "the restore itself");
    let expected = attributes(&restored);
    assert_eq!(attributes(&extracted), expected, "extended attributes");
    // With --acls, GNU tar ignores ACLs that are attributes, and takes those that are text.
    fs::create_dir(sandbox.path("acls")).expect("made");
    let options = ["--xattrs", "--xattrs-include=*", "--acls", "-C", "acls"];
    feed(&sandbox, &[&extract[..], &options].concat(), &archive);
    assert_eq!(attributes(&sandbox.path("acls")), expected, "ACLs as text");
    if expected.is_empty() {
        cutpoint_testing::skipped("no extended attributes here");
    }
    let stat = |name: &str| extracted.join(name).metadata().expect("metadata");
    assert_eq!(stat("hello").ino(), stat("sub/hello").ino(), "a hard link");
    // The whole snapshot, with the folders above the source.
    fs::create_dir(sandbox.path("whole")).expect("made");
    feed(&sandbox, &[&extract[..], &["-C", "whole"]].concat(), &dump(&sandbox, &["latest"]));
    let below = source.strip_prefix("/").expect("absolute");
    let whole = sandbox.path("whole").join(below);
    assert_eq!(describe(&whole), describe(&restored), "the whole snapshot");
    let above = sandbox.path("whole").join(below.parent().expect("a parent"));
    assert!(above.metadata().expect("metadata").mtime() > 1_700_000_000, "the time of the backup");
    // A single file.
    let file = dump(&sandbox, &["latest", source.join("sub/hello").to_str().expect("UTF-8")]);
    assert_eq!(feed(&sandbox, &["tar", "-xO"], &file), b"hello, world\n", "its content");
    assert_eq!(feed(&sandbox, &["tar", "-t"], &file), b"hello\n", "its name");
}

/// Python reads the records as POSIX describes them, without the habits of GNU tar.
#[test]
fn tar_is_read_by_python() {
    if !has_program("python3") {
        return;
    }
    let sandbox = Sandbox::with_source();
    add_extremes(&sandbox.path("source"));
    sandbox.backup("source");
    let script = "import sys, tarfile
archive = tarfile.open(fileobj=sys.stdin.buffer, mode='r|')
members = {member.name: member for member in archive}
print(len(members), members['big'].mtime, members['before 1970'].mtime, members['future'].mtime)
print(max(map(len, members)), members['big'].size, members['\u{20ac}'].size)";
    let archive = dump(&sandbox, &["latest:source"]);
    let said = feed(&sandbox, &["python3", "-c", script], &archive);
    let count = describe(&sandbox.path("source")).len();
    let longest = 120 + 1 + 60 + 1 + 150 + 1 + 122;
    assert_eq!(
        String::from_utf8_lossy(&said),
        format!("{count} 1234567890.1234567 -1.5 9000000000.0\n{longest} 700000 9\n"),
        "members"
    );
}

/// Describes what a zip archive keeps of a folder: kinds, permissions, contents and seconds.
fn described_for_zip(folder: &Path) -> Vec<String> {
    let mut lines = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(&next).expect("listed") {
            let path = entry.expect("an entry").path();
            let stat = path.symlink_metadata().expect("metadata");
            let name = path.strip_prefix(folder).expect("below").to_owned();
            if stat.is_dir() {
                lines.push(format!("{name:?} {:o}", stat.mode()));
                folders.push(path);
            } else if stat.is_file() {
                let digest = cutpoint_testing::digest::md5(&fs::read(&path).expect("read"));
                let (mode, mtime) = (stat.mode(), stat.mtime());
                lines.push(format!("{name:?} {mode:o} {mtime} {digest:?}"));
            } else if stat.is_symlink() {
                lines.push(format!("{name:?} {:?}", fs::read_link(&path).expect("a link")));
            }
        }
    }
    lines.sort();
    lines
}

#[test]
fn zip_extracts_like_a_restore() {
    if !has_program("unzip") || !has_program("python3") {
        return;
    }
    let sandbox = Sandbox::with_source();
    let source = sandbox.path("source");
    // `unzip` replaces line breaks in names, and zip has neither pipes nor times before 1980.
    fs::remove_file(source.join("sub/\u{fc} \n")).expect("removed");
    fs::remove_file(source.join("pipe")).expect("removed");
    fs::write(source.join("\u{20ac}"), "not ASCII").expect("written");
    fs::write(source.join("back\\slash"), "of Unix").expect("written");
    fs::create_dir_all(source.join("x".repeat(200)).join("y".repeat(200))).expect("made");
    set_time(&source.join("big"), Duration::new(1_234_567_891, 123_456_789));
    sandbox.backup("source");
    let place = format!("latest:{}", source.display());
    sandbox.run(["restore", &place, "--to", "restored"]).well();
    // zip has only names in UTF-8.
    let odd = |name: &[u8]| sandbox.path("restored").join(OsStr::from_bytes(name));
    fs::rename(odd(b"not \xff UTF-8"), odd(b"not %ff UTF-8")).expect("renamed");
    let told = ["UTF-8: its name is not UTF-8; the archive has it as not %ff UTF-8"];
    let archive = sandbox.run(["dump", &place, "--format", "zip"]).ended(0, &told).stdout;
    fs::write(sandbox.path("archive.zip"), &archive).expect("written");
    feed(&sandbox, &["unzip", "-q", "-K", "archive.zip", "-d", "extracted"], b"");
    assert_eq!(
        described_for_zip(&sandbox.path("extracted")),
        described_for_zip(&sandbox.path("restored")),
        "entries"
    );
    feed(&sandbox, &["unzip", "-qt", "archive.zip"], b"");
    let script = "import zipfile
archive = zipfile.ZipFile('archive.zip')
print(archive.testzip(), archive.read('sub/hello'), archive.getinfo('\u{20ac}').flag_bits & 0x800)";
    let said = feed(&sandbox, &["python3", "-c", script], b"");
    assert_eq!(String::from_utf8_lossy(&said), "None b'hello, world\\n' 2048\n", "python");
    assert!(archive.len() < 1_600_000, "compressed: {}", archive.len());
}

#[test]
fn entries_that_a_format_lacks_are_named() {
    let sandbox = Sandbox::with_source();
    let socket = UnixListener::bind(sandbox.path("source/socket")).expect("a socket");
    sandbox.backup("source");
    drop(socket);
    sandbox.run(["dump", "latest"]).ended(0, &["source/socket: left out: tar has no sockets"]);
    sandbox.run(["dump", "latest:source", "--format", "zip"]).ended(
        0,
        &["warning: socket: left out: zip has no sockets", "pipe: left out: zip has no pipes"],
    );
}

/// A region of 128 KiB holds a part of a file only, so that the damage of one affects one file.
#[test]
fn damaged_file_is_left_out_or_has_zeros_and_the_archive_is_valid() {
    if !has_program("tar") || !has_program("unzip") {
        return;
    }
    let sandbox = Sandbox::new();
    let init = ["init", "--encryption", "none", "--region-size", "128k", "--delta", "off"];
    sandbox.run(init).well();
    fs::create_dir(sandbox.path("source")).expect("made");
    let large = SplitMix64::bytes(1, 6_000_000);
    fs::write(sandbox.path("source/1 large"), &large).expect("written");
    fs::write(sandbox.path("source/2 small"), SplitMix64::bytes(2, 300_000)).expect("written");
    fs::write(sandbox.path("source/3 good"), "good").expect("written");
    sandbox.backup("source");
    // The containers of the data, in the order of the files: damage near the end of the large one,
    // and in the small one.
    let data = sandbox.json(["debug", "--list"]);
    let names = data.iter().filter_map(|object| object["name"].as_str());
    let container = names.filter(|name| name.starts_with("data/")).find(|name| {
        fs::metadata(sandbox.path("repo").join(name)).is_ok_and(|stat| stat.len() > 6_000_000)
    });
    let container = sandbox.path("repo").join(container.expect("one container"));
    flip(&container, 5_500_000);
    flip(&container, 6_100_000);
    let told =
        ["1 large: damaged in the archive: ", "2 small: left out: ", "problems: the archive"];
    let run = sandbox.run(["dump", "latest:source"]).ended(1, &told);
    fs::create_dir(sandbox.path("out")).expect("made");
    feed(&sandbox, &["tar", "-x", "-C", "out"], &run.stdout);
    check_remains(&sandbox.path("out"), &large);
    let run = sandbox.run(["dump", "latest:source", "--format", "zip"]).ended(1, &told);
    fs::write(sandbox.path("archive.zip"), &run.stdout).expect("written");
    feed(&sandbox, &["unzip", "-q", "archive.zip", "-d", "unzipped"], b"");
    check_remains(&sandbox.path("unzipped"), &large);
}

/// Checks that the small file is absent, the large one has a run of zeros, and the rest is there.
#[track_caller]
fn check_remains(folder: &Path, large: &[u8]) {
    assert!(!folder.join("2 small").exists(), "the small one is left out");
    let good = fs::read(folder.join("3 good")).expect("the others are there");
    assert_eq!(good, b"good", "what follows is there");
    let found = fs::read(folder.join("1 large")).expect("the large one is there");
    assert_eq!(found.len(), large.len(), "its size");
    let differing: Vec<usize> = (0..large.len()).filter(|&at| found[at] != large[at]).collect();
    let (first, last) = (differing[0], differing[differing.len() - 1]);
    assert!(first > 4 << 20 && last - first < 600_000, "from {first} to {last}");
    assert!(differing.iter().all(|&at| found[at] == 0), "zeros");
}

#[test]
fn wrong_uses_are_refused() {
    let sandbox = Sandbox::with_source();
    sandbox.backup("source");
    let cases: [(&[&str], &str); 4] = [
        (&["latest", "--json"], "`dump` has no --json"),
        (&["latest:/a", "/b"], "two paths given"),
        (&["latest:/no/such"], "has no /no/such"),
        (&["latest", "--format", "rar"], "unknown value \"rar\""),
    ];
    for (arguments, told) in cases {
        let refused = sandbox.run(["dump"].iter().chain(arguments)).ended(2, &[told]);
        assert!(!refused.stdout.starts_with(b"PK") && refused.stdout.len() < 1000, "{arguments:?}");
    }
    // `script` gives the program a terminal as its standard output.
    if !has_program("script") {
        return;
    }
    let on_terminal = |options: &str| -> Run {
        let program = env!("CARGO_BIN_EXE_cutpoint");
        let mut command = sandbox.command([""; 0]);
        let line = format!("{program} dump latest:source/hello {options}");
        let mut script = Command::new("script");
        script.args(["-qec", &line, "/dev/null"]).stdin(Stdio::null());
        for (name, value) in command.current_dir(sandbox.path("")).get_envs() {
            script.env(name, value.unwrap_or_default());
        }
        run(script.current_dir(sandbox.path("")))
    };
    let refused = on_terminal("");
    let said = String::from_utf8_lossy(&refused.stdout).into_owned();
    assert_eq!(refused.code, Some(2), "refused: {said}");
    assert!(said.contains("standard output is a terminal"), "{said}");
    let forced = on_terminal("--force");
    assert_eq!(forced.code, Some(0), "forced");
    assert!(String::from_utf8_lossy(&forced.stdout).contains("hello, world"), "the archive");
}

#[test]
fn reader_that_ends_early_ends_the_dump() {
    let sandbox = Sandbox::with_source();
    sandbox.backup("source");
    for format in ["tar", "zip"] {
        let mut command = sandbox.command(["dump", "latest", "--format", format]);
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program starts");
        drop(child.stdout.take());
        let output = child.wait_with_output().expect("it ends");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success() && said.is_empty(), "{format}: {said}");
    }
}
