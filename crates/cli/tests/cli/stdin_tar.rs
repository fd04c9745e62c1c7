//! `backup --stdin-tar`: archives become snapshots that equal those of the files.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::Path;
use std::process::{Command, Stdio};

use cutpoint_testing::SplitMix64;

use crate::dump_archive::{add_extremes, attributes};
use crate::sandbox::{Run, Sandbox, describe, run_with_input};

/// Saves an archive from standard input.
fn save(sandbox: &Sandbox, options: &[&str], archive: &[u8]) -> Run {
    run_with_input(&mut sandbox.command([&["backup", "--stdin-tar"], options].concat()), archive)
}

/// Returns the header of a member, with its checksum.
fn header(name: &str, kind: u8, size: u64, link: &str) -> Vec<u8> {
    let mut header = tar::Header::new_gnu();
    let field = &mut header.as_gnu_mut().expect("of GNU tar").name;
    field[..name.len()].copy_from_slice(name.as_bytes());
    let field = &mut header.as_gnu_mut().expect("of GNU tar").linkname;
    field[..link.len()].copy_from_slice(link.as_bytes());
    header.set_entry_type(tar::EntryType::new(kind));
    header.set_mode(0o640);
    header.set_uid(7);
    header.set_gid(8);
    header.set_mtime(1_000_000_000);
    header.set_size(size);
    header.set_cksum();
    header.as_bytes().to_vec()
}

/// Returns a member with its data.
fn member(name: &str, kind: u8, data: &[u8]) -> Vec<u8> {
    let mut bytes = header(name, kind, data.len() as u64, "");
    bytes.extend_from_slice(data);
    bytes.resize(bytes.len().next_multiple_of(512), 0);
    bytes
}

/// Ends an archive.
fn archive(members: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = members.concat();
    bytes.resize(bytes.len() + 1024, 0);
    bytes
}

fn listed(sandbox: &Sandbox) -> Vec<String> {
    let run = sandbox.run(["ls", "latest", "-R"]).well();
    run.text().lines().map(str::to_owned).collect()
}

#[test]
fn dumped_snapshot_is_equal_after_it_is_saved_again() {
    let sandbox = Sandbox::with_source();
    let source = sandbox.path("source");
    add_extremes(&source);
    sandbox.backup("source");
    let dumped = sandbox.run(["dump", "latest", "--format", "tar"]).well().stdout;
    let saved = save(&sandbox, &["--json"], &dumped).well();
    let summary = saved.events().pop().expect("a summary");
    assert_eq!(summary["new_chunk_count"], 0, "all data is known");
    let equal = "Added 0 (0 B), removed 0 (0 B), changed 0 (0 B before, 0 B now)";
    sandbox.run(["diff", "--metadata", "latest~1", "latest"]).ended(0, &[equal]);
    // A folder of the snapshot, below another path.
    let place = format!("latest:{}", source.display());
    let dumped = sandbox.run(["dump", &place, "--format", "tar"]).well().stdout;
    save(&sandbox, &["--as-path", "/other/place"], &dumped).well();
    let before = place.replace("latest", "latest~1");
    sandbox.run(["diff", "--metadata", &before, "latest:/other/place"]).ended(0, &[equal]);
    sandbox.run(["restore", "latest:/other/place", "--to", "restored"]).well();
    let restored = sandbox.path("restored");
    assert_eq!(describe(&restored), describe(&source), "restored");
    assert_eq!(attributes(&restored), attributes(&source), "extended attributes");
    let stat = |name: &str| restored.join(name).metadata().expect("metadata");
    assert_eq!(stat("hello").ino(), stat("sub/hello").ino(), "a hard link");
    sandbox.run(["check", "--read-data"]).ended(0, &["No problems found"]);
}

/// Makes a folder with what archives describe differently.
fn make_varied(folder: &Path) {
    fs::create_dir_all(folder.join("sub/z")).expect("made");
    fs::write(folder.join("sub/a file"), "content").expect("written");
    fs::write(folder.join("sub-"), "sorts between").expect("written");
    let long = "n".repeat(180);
    fs::write(folder.join("sub").join(&long), "a long name").expect("written");
    fs::hard_link(folder.join("sub/a file"), folder.join("another")).expect("linked");
    symlink("l".repeat(150), folder.join("link")).expect("linked");
    let mut sparse = fs::File::create(folder.join("sparse")).expect("created");
    sparse.write_all(b"begin").expect("written");
    let data = SplitMix64::bytes(3, 100_000);
    std::os::unix::fs::FileExt::write_all_at(&sparse, &data, 5_000_000).expect("written");
    sparse.set_len(9_000_000).expect("set");
    rustix::fs::mkfifoat(rustix::fs::CWD, folder.join("pipe"), rustix::fs::Mode::RUSR)
        .expect("made");
    let flags = rustix::fs::XattrFlags::empty();
    rustix::fs::setxattr(folder.join("sub-"), "user.color", b"red", flags).ok();
    Command::new("setfacl").args(["-m", "u:1:rw"]).arg(folder.join("sub-")).status().ok();
}

#[test]
fn archives_of_gnu_tar_equal_a_backup_of_the_files() {
    let sandbox = Sandbox::with_repository();
    make_varied(&sandbox.path("varied"));
    sandbox.backup("varied");
    let place = format!("latest:{}", sandbox.path("varied").display());
    sandbox.run(["restore", &place, "--to", "expected"]).well();
    let expected = sandbox.path("expected");
    for (number, options) in [
        &["--format=gnu", "--sparse"][..],
        &["--format=pax", "--sparse", "--xattrs", "--acls"],
        &["--format=pax", "--sparse", "--sparse-version=0.0"],
        &["--format=pax", "--sparse", "--sparse-version=0.1"],
        &["--format=ustar", "--exclude=n*", "--exclude=link"],
        &["--format=pax", "--sort=name"],
    ]
    .into_iter()
    .enumerate()
    {
        let mut tar = Command::new("tar");
        let output = tar.args(["-C", "varied", "-c"]).args(options).arg(".");
        let output = output.current_dir(sandbox.path("")).output().expect("tar runs");
        let mut run = save(&sandbox, &["--as-path", "/v"], &output.stdout);
        run = run.well();
        assert!(!run.stderr.contains("warning"), "{options:?}: {}", run.stderr);
        let to = format!("restored{number}");
        sandbox.run(["restore", "latest:/v", "--to", &to]).well();
        let restored = sandbox.path(&to);
        if options.contains(&"--format=ustar") {
            assert!(!restored.join("link").exists() && restored.join("sub/z").exists(), "a part");
            continue;
        }
        if options.contains(&"--format=gnu") {
            // Its times have whole seconds.
            let both =
                [&restored, &expected].map(|folder| fs::read(folder.join("sparse")).expect("read"));
            assert!(both[0] == both[1], "a sparse file");
        } else {
            assert_eq!(describe(&restored), describe(&expected), "{options:?}");
        }
        if options.contains(&"--sparse") {
            let blocks = restored.join("sparse").metadata().expect("metadata").blocks();
            assert!(blocks < 9_000_000 / 512 / 2, "{options:?}: holes are kept, {blocks} blocks");
        }
        if options.contains(&"--xattrs") {
            assert_eq!(attributes(&restored), attributes(&expected), "attributes");
        }
        let stat = |name: &str| restored.join(name).metadata().expect("metadata");
        assert_eq!(stat("another").ino(), stat("sub/a file").ino(), "{options:?}: a hard link");
    }
}

#[test]
fn last_of_equal_names_counts_and_links_keep_their_file() {
    let sandbox = Sandbox::with_repository();
    let link = |name: &str, kind, target: &str| header(name, kind, 0, target);
    let made = archive(&[
        member("a/x", b'0', b"old"),
        link("hard", b'1', "a/x"),
        link("chain", b'1', "./hard"),
        member("a/x", b'0', b"new"),
        link("later", b'1', "/a/x"),
        member("b", b'0', b"a file first"),
        member("b/", b'5', b""),
        member("b/y", b'0', b"below"),
        member("c/gone", b'0', b"replaced"),
        member("c", b'0', b"a file now"),
        member("zz", b'0', b"first"),
        link("zz", b'1', "later"),
    ]);
    save(&sandbox, &[], &made).well();
    let names = ["a/", "a/x", "b/", "b/y", "c", "chain", "hard", "later", "zz"];
    assert_eq!(listed(&sandbox), names.map(|name| format!("/{name}")), "the names");
    for (name, content) in
        [("a/x", "new"), ("hard", "old"), ("chain", "old"), ("later", "new"), ("c", "a file now")]
    {
        let path = format!("latest:/{name}");
        assert_eq!(sandbox.run(["cat", &path]).well().text(), content, "{name}");
    }
    sandbox.run(["restore", "latest", "--to", "out"]).well();
    let stat = |name: &str| sandbox.path("out").join(name).metadata().expect("metadata");
    assert_eq!((stat("hard").ino(), stat("hard").nlink()), (stat("chain").ino(), 2), "old");
    assert_eq!((stat("later").ino(), stat("later").nlink()), (stat("a/x").ino(), 3), "new");
    assert_eq!(stat("zz").ino(), stat("a/x").ino(), "a name that became a link");
}

#[test]
fn hostile_members_are_reported_and_not_saved() {
    let sandbox = Sandbox::with_repository();
    let made = archive(&[
        member("good", b'0', b"good"),
        member("../evil", b'0', b"evil"),
        member("a/../../evil", b'0', b"evil"),
        header("sym", b'2', 0, "/etc"),
        member("sym/passwd", b'0', b"evil"),
        member("good/below", b'0', b"evil"),
        header("dangling", b'1', 0, "nowhere"),
        header("out", b'1', 0, "../../etc/passwd"),
        member("/absolute", b'0', b"fine"),
        member("odd", b'Q', b"what is this?"),
    ]);
    let said = [
        "../evil: not saved: its name has the component `..`",
        "a/../../evil: not saved",
        "sym/passwd: not saved: below a member that is not a folder",
        "good/below: not saved: below",
        "dangling: not saved: hard link to a name",
        "out: not saved: target of a hard link",
        "odd: not saved: members of type 'Q'",
        "7 problems",
    ];
    save(&sandbox, &[], &made).ended(1, &said);
    assert_eq!(listed(&sandbox), ["/absolute", "/good", "/sym"], "the names");
    sandbox.run(["check", "--read-data"]).ended(0, &["No problems found"]);
}

#[test]
fn broken_archives_make_no_snapshot() {
    let sandbox = Sandbox::with_repository();
    let whole = archive(&[member("a", b'0', &SplitMix64::bytes(1, 3000)), member("b", b'0', b"b")]);
    for len in [0, 1, 511, 512, 700, 3584, 4000, whole.len() - 1024] {
        save(&sandbox, &[], &whole[..len]).ended(2, &["standard input", "truncated"]);
    }
    let claims = |name: &str, kind, size| archive(&[header(name, kind, size, "")]);
    let mut huge = tar::Header::new_gnu();
    huge.set_size(u64::MAX);
    huge.set_cksum();
    let mut flipped = whole.clone();
    flipped[10] ^= 1;
    let pax = |records: &[u8]| archive(&[member("x", b'x', records), member("a", b'0', b"")]);
    for (bytes, text) in [
        (claims("a", b'0', 1 << 40), "truncated"),
        (archive(&[huge.as_bytes().to_vec()]), "standard input"),
        (claims("long", b'L', 1 << 40), "extended tar header"),
        (claims("records", b'x', 1 << 40), "extended tar header"),
        (claims("records", b'x', 1 << 20), "truncated"),
        (flipped, "checksum"),
        (b"\x1f\x8b\x08".repeat(400), "compressed by gzip"),
        (pax(b"9 path=b"), "malformed PAX"),
        (pax(b"28 size=9999999999999999999\n"), "standard input"),
        (pax(b"22 GNU.sparse.major=1\n25 GNU.sparse.realsize=9\n13 size=1024\n"), "standard input"),
    ] {
        save(&sandbox, &[], &bytes).ended(2, &["standard input", text]);
    }
    assert_eq!(sandbox.json(["snapshots"]).len(), 0, "no snapshot");
    sandbox.run(["check"]).ended(0, &["No problems found"]);
}

#[test]
fn commands_and_options_work_with_archives() {
    let sandbox = Sandbox::with_repository();
    fs::create_dir(sandbox.path("data")).expect("made");
    let old = SplitMix64::bytes(5, 3_000_000);
    fs::write(sandbox.path("data/file"), &old).expect("written");
    let tar = ["backup", "--stdin-tar", "--as-path", "/d", "--json", "--stdin-from-command", "--"];
    let tar = [&tar[..], &["tar", "-c", "-C", "data", "."]].concat();
    sandbox.run(&tar).well();
    // A small change is stored as a delta of the previous version.
    let mut new = old.clone();
    for at in (0..new.len()).step_by(100_000) {
        new[at] ^= 1;
    }
    fs::write(sandbox.path("data/file"), &new).expect("written");
    let summary = sandbox.run(&tar).well().events().pop().expect("a summary");
    let stored = summary["stored_bytes"].as_u64().expect("a number");
    assert!(stored < 200_000, "{stored} bytes are stored for 30 changed bytes");
    assert!(!summary["parent"].is_null(), "the first snapshot is the parent");
    assert_eq!(sandbox.run(["cat", "latest:/d/file"]).well().stdout, new, "its content");
    // A dry run, and a run without changes.
    let mut dry = tar.clone();
    dry.insert(1, "--dry-run");
    let summary = sandbox.run(&dry).well().events().pop().expect("a summary");
    assert_eq!(summary["new_bytes"], 0, "nothing is new");
    dry[1] = "--skip-if-unchanged";
    let summary = sandbox.run(&dry).well().events().pop().expect("a summary");
    assert!(summary["snapshot"].is_null(), "nothing has changed");
    let failing = ["backup", "--stdin-tar", "--stdin-from-command", "--", "sh", "-c"];
    let failing = [&failing[..], &["tar -c data; exit 3"]].concat();
    sandbox.run(&failing).ended(2, &["exited with status 3", "no snapshot"]);
    for (arguments, text) in [
        (&["--stdin-tar", "data"][..], "cannot be used with paths"),
        (&["--stdin-tar", "--stdin"], "cannot be used with"),
        (&["--stdin-tar", "--exclude", "x"], "do not apply to an archive"),
        (&["--stdin-tar", "--as-path", "x"], "not an absolute path"),
        (&["--as-path", "/x", "--stdin-from-command", "--", "true"], "--as-path: needs"),
    ] {
        sandbox.run([&["backup"], arguments].concat()).ended(2, &[text]);
    }
    assert_eq!(sandbox.json(["snapshots"]).len(), 2, "the snapshots");
}

/// More entries than the memory holds, in reverse order.
#[test]
fn many_members_in_any_order_make_sorted_trees() {
    let sandbox = Sandbox::with_repository();
    let mut stream = sandbox.command(["backup", "--stdin-tar", "-q"]);
    stream.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = stream.spawn().expect("it starts");
    let mut input = std::io::BufWriter::new(child.stdin.take().expect("a pipe"));
    let count = 30_000;
    for number in (0..count).rev() {
        let name = format!("{}/{}", number % 7, number * 7919 % count);
        input.write_all(&member(&name, b'0', name.as_bytes())).expect("written");
    }
    input.write_all(&[0; 1024]).expect("written");
    drop(input);
    let mut id = String::new();
    child.stdout.take().expect("a pipe").read_to_string(&mut id).expect("read");
    assert!(child.wait().expect("it ends").success(), "saved");
    let names = listed(&sandbox);
    assert_eq!(names.len(), count + 7, "all names");
    assert_eq!(sandbox.run(["cat", "latest:/3/7919"]).text(), "", "or another folder");
}
