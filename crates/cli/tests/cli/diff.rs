//! `diff`: the differences between two snapshots.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::time::{Duration, SystemTime};

use cutpoint_testing::SplitMix64;
use serde_json::Value;

use crate::sandbox::{Sandbox, run};

/// Returns the lines of `diff` with the paths below `source`.
fn lines(sandbox: &Sandbox, arguments: &[&str]) -> Vec<String> {
    let mut command = sandbox.command(["diff"]);
    let run = run(command.args(arguments)).well();
    let source = format!(" {}", sandbox.path("source").display());
    // The names of `make_source` include one with a line break and one that is not UTF-8.
    let text = String::from_utf8_lossy(&run.stdout).replace("\u{fc} \n", "umlaut");
    text.lines().map(|line| line.replace(&source, " ")).collect()
}

fn set_mtime(path: &Path, seconds: u64) {
    let file = fs::File::open(path).expect("it opens");
    file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)).expect("a time");
}

/// Makes a snapshot of `source`, changes `source` in every way, and makes another snapshot.
fn two_snapshots(sandbox: &Sandbox) -> (String, String) {
    let source = sandbox.path("source");
    let at = |name: &str| source.join(name);
    let first = sandbox.backup("source");
    fs::write(at("hello"), b"Hello, world\n").expect("another content of the same size");
    fs::write(at("sub/deep/new"), [7; 1000]).expect("a file is added");
    fs::remove_dir(at("empty folder")).expect("a folder is removed");
    fs::remove_file(at("empty")).expect("a file is removed");
    fs::create_dir(at("empty")).expect("a folder is in its place");
    fs::write(at("empty/inside"), [1; 10]).expect("a file in it");
    fs::remove_file(at("dangling")).expect("a link is removed");
    symlink("elsewhere", at("dangling")).expect("a link with another target");
    fs::set_permissions(at("big"), fs::Permissions::from_mode(0o600)).expect("a mode");
    set_mtime(&at("sparse"), 1_000_000_000);
    (first, sandbox.backup("source"))
}

/// The differences that [`two_snapshots`] makes, without those of metadata.
const DIFFERENCES: [&str; 7] = [
    "M /dangling",
    "T /empty/",
    "+ /empty/inside",
    "- /empty folder/",
    "M /hello",
    "+ /sub/deep/new",
    "M /sub/hello",
];

#[test]
fn every_kind_of_change_is_listed_once() {
    let sandbox = Sandbox::with_source();
    let (first, second) = two_snapshots(&sandbox);
    assert_eq!(lines(&sandbox, &[&first, &second]), DIFFERENCES, "there");
    let back: Vec<String> = lines(&sandbox, &["latest", &first[..8]]);
    let expected = DIFFERENCES.map(|line| match line {
        "T /empty/" => "T /empty".to_owned(),
        line => line.replace('+', "?").replace("- ", "+ ").replace('?', "-"),
    });
    assert_eq!(back, expected, "and back");
    let all = lines(&sandbox, &[&first, "latest", "--metadata"]);
    let metadata: Vec<_> = all.iter().filter(|line| line.starts_with('U')).collect();
    assert_eq!(metadata, ["U /", "U /big", "U /sparse", "U /sub/deep/"], "metadata");
    let run = sandbox.run(["diff", &first, &second]).well();
    let summary = "Added 2 (1010 B), removed 1 (0 B), changed 4 (26 B before, 26 B now); 4 with other \
         metadata (listed with --metadata).";
    assert!(run.stderr.contains(summary), "{}", run.stderr);
}

#[test]
fn equal_snapshots_have_no_differences() {
    let sandbox = Sandbox::with_source();
    let first = sandbox.backup("source");
    let second = sandbox.backup("source");
    for other in [&first, &second] {
        let run = sandbox.run(["diff", &first, other, "--metadata"]).well();
        assert_eq!(run.text(), "", "nothing");
        assert!(run.stderr.contains("Added 0 (0 B), removed 0 (0 B)"), "{}", run.stderr);
    }
}

#[test]
fn differences_are_events() {
    let sandbox = Sandbox::with_source();
    let (first, second) = two_snapshots(&sandbox);
    let events = sandbox.json(["diff", &first, &second, "--metadata"]);
    let of = |name: &str| {
        let path = sandbox.path("source").join(name).display().to_string();
        events.iter().find(|event| event["path"] == path.as_str()).expect("an event").clone()
    };
    let part = |event: &Value, names: &[&str]| -> Vec<String> {
        names.iter().map(|name| event[name].to_string()).collect()
    };
    let names = ["change", "kind", "size_bytes", "old_kind", "old_size_bytes", "metadata"];
    for (name, expected) in [
        ("empty", ["\"type\"", "\"folder\"", "0", "\"file\"", "0", "[]"]),
        ("sub/deep/new", ["\"added\"", "\"file\"", "1000", "null", "null", "[]"]),
        ("empty folder", ["\"removed\"", "\"folder\"", "0", "null", "null", "[]"]),
        ("hello", ["\"content\"", "\"file\"", "13", "\"file\"", "13", "[\"time\"]"]),
        ("big", ["\"metadata\"", "\"file\"", "700000", "\"file\"", "700000", "[\"mode\"]"]),
    ] {
        assert_eq!(part(&of(name), &names), expected, "{name}");
    }
    let summary = events.last().expect("a summary");
    let numbers = [
        ("added_count", 2),
        ("added_bytes", 1010),
        ("removed_count", 1),
        ("content_changed_count", 3),
        ("type_changed_count", 1),
        ("metadata_changed_count", 4),
        ("changed_old_bytes", 26),
        ("changed_new_bytes", 26),
        ("problem_count", 0),
    ];
    for (name, expected) in numbers {
        assert_eq!(summary[name], expected, "{name}");
    }
    assert_eq!(summary["old_snapshot"], first.as_str());
    assert_eq!(summary["new_snapshot"], second.as_str());
}

/// The path of one snapshot is that of the other one, unless both have one.
#[test]
fn folders_and_files_are_compared_by_path() {
    let sandbox = Sandbox::with_source();
    let (first, second) = two_snapshots(&sandbox);
    let at = |id: &str, name: &str| format!("{id}:{}", sandbox.path("source").join(name).display());
    for (old, new) in [(at(&first, "sub"), second.clone()), (first.clone(), at(&second, "sub"))] {
        assert_eq!(lines(&sandbox, &[&old, &new]), ["+ /sub/deep/new", "M /sub/hello"], "{old}");
    }
    let file = lines(&sandbox, &[&at(&first, "hello"), &second]);
    assert_eq!(file, ["M /hello"], "a file");
    let copy = lines(&sandbox, &[&at(&second, "big"), &at(&second, "sub/copy of big")]);
    assert_eq!(copy, Vec::<String>::new(), "equal files of other names");
    let folders = lines(&sandbox, &[&at(&second, "empty"), &at(&second, "sub/deep")]);
    assert_eq!(folders, ["- /empty/inside", "+ /empty/new", "+ /empty/text"], "two folders");
    let missing = at(&second, "nowhere");
    sandbox.run(["diff", &missing, &second]).ended(2, &["/nowhere\n"]);
    let short = second[..8].to_owned();
    sandbox.run(["diff", &at(&first, "sub"), &at(&second, "gone")]).ended(2, &[&short, "/gone\n"]);
    sandbox.run(["diff", "latest", "0000"]).ended(2, &["snapshot `0000`: not found"]);
    sandbox.run(["diff", "latest"]).ended(2, &["NEW"]);
}

/// Equal bytes are equal, however they are cut: at other places, and in chunks that are shared with
/// other files.
#[test]
fn equal_bytes_in_other_chunks_are_no_difference() {
    let sandbox = Sandbox::with_repository();
    let source = sandbox.path("source");
    fs::create_dir(&source).expect("a folder");
    let bytes = SplitMix64::bytes(3, 300_000);
    let zeros = [&[0; 100_000][..], &bytes[..10], &[0; 100_000]].concat();
    for (name, bytes) in
        [("a", &bytes[..5000]), ("b", &bytes[5000..9000]), ("c", &bytes), ("z", &zeros)]
    {
        fs::write(source.join(name), bytes).expect("written");
    }
    let first = sandbox.backup("source");
    sandbox.run(["config", "--cut", "fastcdc:avg=16k"]).well();
    fs::write(source.join("aa"), &bytes[..3000]).expect("a file in the same bundle");
    for name in ["a", "b", "c", "z"] {
        set_mtime(&source.join(name), 1_000_000_000);
    }
    sandbox.run(["backup", "source", "--force-read"]).well();
    assert_eq!(lines(&sandbox, &[&first, "latest"]), ["+ /aa"], "cut in another way");
    let mut other = bytes.clone();
    other[299_999] ^= 1;
    fs::write(source.join("c"), other).expect("another last byte");
    let mut other = zeros.clone();
    other[150_000] = 1;
    fs::write(source.join("z"), other).expect("another byte among zeros");
    sandbox.backup("source");
    assert_eq!(lines(&sandbox, &[&first, "latest"]), ["+ /aa", "M /c", "M /z"], "one byte each");
}

/// The tree of a large folder has several chunks, and those that both snapshots share are skipped.
#[test]
fn change_in_large_folder_is_found() {
    let sandbox = Sandbox::with_repository();
    let source = sandbox.path("source");
    fs::create_dir(&source).expect("a folder");
    for number in 0..3000 {
        fs::write(source.join(format!("{number:04}")), format!("{number}")).expect("written");
    }
    let first = sandbox.backup("source");
    fs::write(source.join("1500"), "other").expect("changed");
    fs::remove_file(source.join("0700")).expect("removed");
    fs::write(source.join("2200x"), "").expect("added");
    sandbox.backup("source");
    assert_eq!(lines(&sandbox, &[&first, "latest"]), ["- /0700", "M /1500", "+ /2200x"]);
}

/// A file that cannot be compared is a problem, and everything else is compared.
#[test]
fn missing_data_is_a_problem_of_its_file() {
    let sandbox = Sandbox::with_repository();
    let source = sandbox.path("source");
    fs::create_dir(&source).expect("a folder");
    fs::write(source.join("a"), SplitMix64::bytes(5, 300_000)).expect("written");
    let first = sandbox.backup("source");
    sandbox.run(["config", "--cut", "fastcdc:avg=16k"]).well();
    fs::write(source.join("b"), "new").expect("written");
    set_mtime(&source.join("a"), 1_000_000_000);
    sandbox.run(["backup", "source", "--force-read"]).well();
    let objects = sandbox.json(["debug", "--list"]);
    let names = objects.iter().filter_map(|object| object["name"].as_str());
    for name in names.filter(|name| name.starts_with("data/") && name.contains(&first)) {
        fs::remove_file(sandbox.path("repo").join(name)).expect("removed");
    }
    let path = source.join("a").display().to_string();
    let problem = format!("problem: {path}: cannot be compared completely: ");
    let run = sandbox.run(["diff", &first, "latest"]).ended(1, &[&problem]);
    assert_eq!(run.text(), format!("+ {}\n", source.join("b").display()), "the other file");
    let events = crate::sandbox::run(sandbox.command(["diff", &first, "latest"]).arg("--json"));
    let events = events.ended(1, &[]).events();
    assert_eq!(events.last().expect("a summary")["problem_count"], 1, "counted");
}
