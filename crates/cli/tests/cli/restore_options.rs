//! The options of `restore`, and the place of a single restored file.

use std::fs;
use std::path::Path;

use crate::sandbox::{Run, Sandbox, run};

/// Restores `path` of the folder `source` with `arguments`.
fn restore(sandbox: &Sandbox, path: &str, arguments: &[&str]) -> Run {
    let mut command = sandbox.command(["restore"]);
    command.arg(format!("latest:{}", sandbox.path("source").join(path).display()));
    run(command.args(arguments))
}

#[track_caller]
fn require_content(path: &Path, content: &[u8]) {
    let found = fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    assert!(found == content, "{}: other bytes", path.display());
}

#[test]
fn single_file_goes_into_an_existing_folder_or_gets_a_new_name() {
    let sandbox = Sandbox::with_source();
    sandbox.backup("source");
    let hello = b"hello, world\n";
    restore(&sandbox, "hello", &["--to", "new"]).ended(0, &["Restored 1 file", "to new in"]);
    require_content(&sandbox.path("new"), hello);
    restore(&sandbox, "hello", &["--to", "made/below/name"]).well();
    require_content(&sandbox.path("made/below/name"), hello);
    restore(&sandbox, "hello", &["--to", "made"]).well();
    require_content(&sandbox.path("made/hello"), hello);
    restore(&sandbox, "hello", &["--to", "folder/"]).well();
    require_content(&sandbox.path("folder/hello"), hello);
    let absolute = sandbox.path("absolute");
    restore(&sandbox, "hello", &["--to", absolute.to_str().expect("UTF-8")]).well();
    require_content(&absolute, hello);
    // A symbolic link is restored in the same way.
    restore(&sandbox, "dangling", &["--to", "link"]).well();
    assert_eq!(fs::read_link(sandbox.path("link")).expect("a link"), Path::new("nowhere"));
}

#[test]
fn single_file_replaces_a_file_only_on_request() {
    let sandbox = Sandbox::with_source();
    sandbox.backup("source");
    fs::write(sandbox.path("mine"), "mine").expect("written");
    restore(&sandbox, "hello", &["--to", "mine"]).ended(1, &["problem: mine: exists"]);
    require_content(&sandbox.path("mine"), b"mine");
    restore(&sandbox, "hello", &["--to", "mine", "--overwrite", "changed"]).well();
    require_content(&sandbox.path("mine"), b"hello, world\n");
    // A file cannot be the parent of another one.
    restore(&sandbox, "hello", &["--to", "mine/inside"]).ended(2, &["mine"]);
    let told = ["not a folder", "give either"];
    restore(&sandbox, "hello", &["below", "--to", "back"]).ended(2, &told);
}

#[test]
fn problems_of_a_kind_are_listed_twenty_times_and_then_counted() {
    let sandbox = Sandbox::with_repository();
    fs::create_dir(sandbox.path("source")).expect("made");
    for number in 0..1250 {
        fs::write(sandbox.path(format!("source/{number}")), "text").expect("written");
    }
    sandbox.backup("source");
    restore(&sandbox, "", &["--to", "back"]).well();
    let run = restore(&sandbox, "", &["--to", "back"]);
    let count = "problem: ... and 1,230 more of this kind: exists; not overwritten (see \
                 --overwrite) (`-v` lists all)\nRestored";
    let run = run.ended(1, &[count, "1250 problems"]);
    let listed = |text: &str| text.lines().filter(|line| line.starts_with("problem: ")).count();
    assert_eq!(listed(&run.stderr), 21, "{}", run.stderr);
    let verbose = restore(&sandbox, "", &["--to", "back", "-v"]).ended(1, &["1250 problems"]);
    assert_eq!(listed(&verbose.stderr), 1250, "with -v");
    let json = restore(&sandbox, "", &["--to", "back", "--json"]).ended(1, &[]);
    let problems = json.events().iter().filter(|event| event["type"] == "problem").count();
    assert_eq!(problems, 1250, "with --json");
    assert_eq!(json.stderr, "", "nothing else with --json");
}
