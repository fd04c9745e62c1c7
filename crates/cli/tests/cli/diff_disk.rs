//! `diff` of a snapshot and the disk.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::time::{Duration, SystemTime};

use cutpoint_testing::SplitMix64;

use crate::sandbox::{Run, Sandbox, run};

/// Returns the lines of a run with the paths below `source`.
fn lines(sandbox: &Sandbox, run: &Run) -> Vec<String> {
    let source = format!(" {}", sandbox.path("source").display());
    let text = String::from_utf8_lossy(&run.stdout).replace("\u{fc} \n", "umlaut");
    text.lines().map(|line| line.replace(&source, " ")).collect()
}

/// Returns the lines of `diff` without problems.
#[track_caller]
fn diff(sandbox: &Sandbox, arguments: &[&str]) -> Vec<String> {
    let mut command = sandbox.command(["diff"]);
    lines(sandbox, &run(command.args(arguments)).well())
}

fn set_mtime(path: &Path, time: SystemTime) {
    fs::File::open(path).expect("it opens").set_modified(time).expect("a time");
}

fn mtime(path: &Path) -> SystemTime {
    fs::metadata(path).expect("it is there").modified().expect("a time")
}

/// Returns a day in 2001.
fn long_ago() -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000)
}

/// Changes `source` in every way.
fn change(sandbox: &Sandbox) {
    let source = sandbox.path("source");
    let at = |name: &str| source.join(name);
    fs::write(at("hello"), b"Hello, world\n").expect("another content of the same size");
    fs::write(at("sub/deep/text"), b"short").expect("another size");
    fs::create_dir_all(at("sub/deep/new/folder")).expect("folders are added");
    fs::write(at("sub/deep/new/file"), [7; 1000]).expect("a file is added");
    fs::remove_dir(at("empty folder")).expect("a folder is removed");
    fs::remove_file(at("empty")).expect("a file is removed");
    fs::create_dir(at("empty")).expect("a folder is in its place");
    fs::write(at("empty/inside"), [1; 10]).expect("a file in it");
    fs::remove_dir_all(at("folder")).expect("a folder is removed");
    fs::write(at("folder"), b"a file").expect("a file is in its place");
    fs::remove_dir_all(at("gone")).expect("a folder with entries is removed");
    fs::remove_file(at("dangling")).expect("a link is removed");
    symlink("elsewhere", at("dangling")).expect("a link with another target");
    fs::remove_file(at("sub/link")).expect("a link is removed");
    fs::write(at("sub/link"), b"../hello").expect("a file is in its place");
    fs::set_permissions(at("big"), fs::Permissions::from_mode(0o600)).expect("a mode");
    set_mtime(&at("sparse"), long_ago());
    fs::remove_file(at("pipe")).expect("a pipe is removed");
}

/// Creates a sandbox whose `source` has an entry of every kind and some folders to lose.
fn sandbox() -> Sandbox {
    let sandbox = Sandbox::with_source();
    for name in ["folder/a", "gone/b/c", "gone/d"] {
        let path = sandbox.path("source").join(name);
        fs::create_dir_all(path.parent().expect("a folder")).expect("made");
        fs::write(path, name).expect("written");
    }
    sandbox
}

/// What `diff` says of the disk is what it says of a snapshot of it.
#[test]
fn every_kind_of_change_is_listed_as_between_snapshots() {
    let sandbox = sandbox();
    let first = sandbox.backup("source");
    change(&sandbox);
    let expected = [
        "M /dangling",
        "T /empty/",
        "+ /empty/inside",
        "- /empty folder/",
        "T /folder",
        "- /folder/a",
        "- /gone/",
        "- /gone/b/",
        "- /gone/b/c",
        "- /gone/d",
        "M /hello",
        "- /pipe",
        "+ /sub/deep/new/",
        "+ /sub/deep/new/file",
        "+ /sub/deep/new/folder/",
        "M /sub/deep/text",
        "M /sub/hello",
        "T /sub/link",
    ];
    assert_eq!(diff(&sandbox, &[&first, "./source"]), expected, "lines");
    let disk =
        [&["diff", &first, "./source", "--metadata"][..], &["diff", &first, "source/../source"]]
            .map(|arguments| sandbox.json(arguments));
    let metadata = diff(&sandbox, &[&first, "./source", "--metadata"]);
    let only: Vec<_> = metadata.iter().filter(|line| line.starts_with('U')).collect();
    assert_eq!(only, ["U /", "U /big", "U /sparse", "U /sub/", "U /sub/deep/"], "metadata");

    let second = sandbox.backup("source");
    assert_eq!(diff(&sandbox, &[&first, &second]), expected, "the snapshot");
    let snapshots = [&["diff", &first, &second, "--metadata"][..], &["diff", &first, &second]]
        .map(|arguments| sandbox.json(arguments));
    for (mut disk, mut snapshots) in disk.into_iter().zip(snapshots) {
        let (disk_summary, summary) = (disk.pop().expect("one"), snapshots.pop().expect("one"));
        // The root of a snapshot has no metadata, unlike the folder.
        assert_eq!(disk, snapshots, "events");
        for (name, value) in summary.as_object().expect("an object") {
            if !["new_snapshot", "elapsed_ns"].contains(&name.as_str()) {
                assert_eq!(disk_summary[name], *value, "{name}");
            }
        }
        assert_eq!(disk_summary["old_snapshot"], first.as_str());
        assert_eq!(disk_summary["path"], sandbox.path("source").display().to_string());
        assert!(disk_summary.get("new_snapshot").is_none(), "{disk_summary}");
    }
}

#[test]
fn restored_folder_has_no_differences() {
    let sandbox = sandbox();
    sandbox.backup("source");
    let place = format!("latest:{}", sandbox.path("source").display());
    sandbox.run(["restore", &place, "--to", "back"]).well();
    for new in ["./source", "./back"] {
        for options in [&["--metadata"][..], &["--metadata", "--force-read"]] {
            let run = run(sandbox.command(["diff", &place, new]).args(options)).well();
            assert_eq!(run.text(), "", "{new} {options:?}");
            assert!(run.stderr.contains("Added 0 (0 B), removed 0 (0 B)"), "{}", run.stderr);
            assert!(!run.stderr.contains("other metadata"), "{}", run.stderr);
        }
    }
}

#[test]
fn planted_byte_under_the_same_time_is_found_by_force_read_only() {
    let sandbox = sandbox();
    sandbox.backup("source");
    // In a chunk of its own, in a chunk that small files share, and in a hole.
    for (name, position) in [("big", 699_999), ("sub/hello", 3), ("sparse", 1_500_000)] {
        let path = sandbox.path("source").join(name);
        let (time, before) = (mtime(&path), fs::read(&path).expect("read"));
        let mut bytes = before.clone();
        bytes[position] ^= 1;
        fs::write(&path, bytes).expect("written");
        set_mtime(&path, time);
        let expected: &[&str] = match name {
            "sub/hello" => &["M /hello", "M /sub/hello"],
            "big" => &["M /big"],
            _ => &["M /sparse"],
        };
        assert_eq!(diff(&sandbox, &["latest", "./source"]), Vec::<String>::new(), "{name}");
        assert_eq!(diff(&sandbox, &["latest", "./source", "--force-read"]), expected, "{name}");
        // Another time has the file read as well.
        set_mtime(&path, long_ago());
        assert_eq!(diff(&sandbox, &["latest", "./source"]), expected, "{name}");
        fs::write(&path, before).expect("written");
        assert_eq!(diff(&sandbox, &["latest", "./source"]), Vec::<String>::new(), "{name}");
        set_mtime(&path, time);
    }
}

/// The repository is not needed for the chunks that only one file has.
#[test]
fn chunk_of_one_file_is_compared_by_its_fingerprint() {
    let sandbox = Sandbox::with_repository();
    let path = sandbox.path("source/a");
    fs::create_dir(sandbox.path("source")).expect("a folder");
    fs::write(&path, SplitMix64::bytes(5, 3_000_000)).expect("written");
    sandbox.backup("source");
    for object in sandbox.json(["debug", "--list"]) {
        let name = object["name"].as_str().unwrap_or_default();
        let is_data = name.starts_with("data/");
        if is_data && object["stored_bytes"].as_u64().is_none_or(|len| len > 1_000_000) {
            fs::remove_file(sandbox.path("repo").join(name)).expect("removed");
        }
    }
    assert_eq!(diff(&sandbox, &["latest", "./source", "--force-read"]), Vec::<String>::new());
    let mut bytes = fs::read(&path).expect("read");
    bytes[2_000_000] ^= 1;
    fs::write(&path, bytes).expect("written");
    let problem = format!("problem: {}: cannot be compared completely: ", path.display());
    sandbox.run(["diff", "latest", "./source"]).ended(1, &[&problem]);
}

#[test]
fn unreadable_entries_are_problems_and_not_removed() {
    let sandbox = sandbox();
    sandbox.backup("source");
    if !sandbox.give_away() {
        return;
    }
    for name in ["big", "gone"] {
        let mode = fs::Permissions::from_mode(0o000);
        fs::set_permissions(sandbox.path("source").join(name), mode).expect("set");
    }
    let mut command = sandbox.command_of_user(["diff", "latest", "./source", "--force-read"]);
    let problem = |name: &str| {
        format!(
            "problem: {}: cannot be compared completely: Permission denied",
            sandbox.path("source").join(name).display()
        )
    };
    let run = run(&mut command).ended(1, &[&problem("big"), &problem("gone")]);
    assert_eq!(run.text(), "", "everything else is equal");
    fs::set_permissions(sandbox.path("source/gone"), fs::Permissions::from_mode(0o700))
        .expect("set");
}

#[test]
fn excluded_names_are_not_compared() {
    let sandbox = sandbox();
    sandbox.backup("source");
    change(&sandbox);
    fs::write(sandbox.path("list"), "gone/\nempty*\n/pipe\n").expect("written");
    let root = sandbox.path("source");
    let lines = diff(
        &sandbox,
        &[
            "latest",
            "./source",
            "--exclude-file",
            "list",
            "--exclude",
            "hello",
            "--exclude",
            &format!("{}/folder", root.display()),
            "--exclude",
            "deep",
            "-x",
        ],
    );
    // A pattern without a slash at its beginning or inside matches names.
    assert_eq!(lines, ["M /dangling", "- /pipe", "T /sub/link"], "the rest");
    // The repository and the cache of the program would be new.
    let of_all = [".", "--exclude", "source", "--exclude", ".local"];
    run(sandbox.command(["backup"]).args(of_all)).well();
    let run = run(sandbox.command(["diff", "latest"]).args(of_all)).well();
    assert_eq!(run.text(), "", "the rest is as it was");
    assert!(run.stderr.contains("The repository itself"), "{}", run.stderr);
}

#[test]
fn places_on_the_disk_are_told_from_snapshots() {
    let sandbox = sandbox();
    let id = sandbox.backup("source");
    let source = sandbox.path("source");
    fs::write(source.join("sub/deep/text"), b"other").expect("written");
    let in_source = |arguments: &[&str]| {
        let mut command = sandbox.command(["diff"]);
        let run = run(command.args(arguments).current_dir(source.join("sub"))).well();
        lines(&sandbox, &run)
    };
    let expected = ["M /sub/deep/text"];
    assert_eq!(in_source(&["latest", "."]), expected, "the current folder");
    assert_eq!(in_source(&["latest", ".."]), expected, "the folder above");
    assert_eq!(in_source(&[&id, "./deep/text"]), expected, "a file");
    assert_eq!(in_source(&[&id[..8], "deep/"]), expected, "a folder");
    let place = |name: &str| format!("latest:{}", source.join(name).display());
    assert_eq!(in_source(&[&place("hello"), "./hello"]), Vec::<String>::new(), "two files");
    assert_eq!(in_source(&[&place("empty"), "./hello"]), ["M /empty"], "two files");
    assert_eq!(in_source(&[&place("sub/link"), "./link"]), Vec::<String>::new(), "a link");
    assert_eq!(
        in_source(&[&place("gone"), "./deep"]),
        ["- /gone/b/", "- /gone/b/c", "- /gone/d", "+ /gone/text"]
    );
    assert_eq!(in_source(&[&place("hello"), "./deep"]), ["T /hello/", "+ /hello/text"], "a folder");
    fs::write(source.join("a:b"), b"new").expect("written");
    assert_eq!(in_source(&[&place("empty"), "../a:b"]), ["M /empty"], "a colon behind a slash");
    // Folders above the sources have no metadata that could differ.
    let root = sandbox.path("");
    fs::create_dir(root.join("top")).expect("a folder");
    symlink("../source", root.join("top/source")).expect("a link");
    let place = format!("latest:{}", root.display());
    let run = sandbox.run(["diff", &place, "./top", "--metadata"]).well();
    let text = String::from_utf8_lossy(&run.stdout);
    assert!(text.contains(&format!("T {}\n", source.display())), "{text}");
    assert!(!text.contains(&format!("U {}", source.display())), "{text}");

    for (arguments, code, text) in [
        (&["latest", "./nowhere"][..], 2, "./nowhere: not found"),
        (&["latest", "./repo"], 2, "a repository cannot"),
        (&["latest", "./top"], 2, "/top\n"),
        (&["./source", "latest"], 2, "`./source`: not a snapshot"),
        (&["latest", "latest", "--force-read"], 2, "NEW is a snapshot"),
        (&["latest", "latest", "--exclude", "a"], 2, "NEW is a snapshot"),
        (&["latest", "./source", "--exclude", "[a"], 2, "--exclude: pattern [a"),
    ] {
        run_refused(&sandbox, arguments, code, text);
    }
}

#[track_caller]
fn run_refused(sandbox: &Sandbox, arguments: &[&str], code: i32, text: &str) {
    run(sandbox.command(["diff"]).args(arguments)).ended(code, &[text]);
}
