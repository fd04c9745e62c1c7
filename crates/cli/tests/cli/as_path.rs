//! `backup --as-path`.

use std::fs;
use std::time::Duration;

use crate::sandbox::{Sandbox, make_source};

/// Returns the paths of the newest snapshot.
fn paths(sandbox: &Sandbox) -> Vec<String> {
    let run = sandbox.run(["ls", "latest", "-R"]).well();
    run.text().lines().map(|line| line.trim_start_matches('/').to_owned()).collect()
}

/// Returns the summary of a backup.
fn summary(sandbox: &Sandbox, arguments: &[&str]) -> serde_json::Value {
    sandbox.json([&["backup"], arguments].concat()).pop().expect("a summary")
}

#[test]
fn folder_gets_another_path() {
    let sandbox = Sandbox::with_repository();
    make_source(&sandbox.path("source"));
    std::thread::sleep(Duration::from_millis(2100));
    let first = summary(&sandbox, &["source", "--as-path", "/home/me/docs"]);
    let all = paths(&sandbox);
    assert_eq!(all[..4], ["home/", "home/me/", "home/me/docs/", "home/me/docs/big"], "{all:?}");
    assert_eq!(first["folder_count"], 6, "with two above: {first}");
    let snapshot = sandbox.json(["snapshots"]).pop().expect("a snapshot");
    assert_eq!(snapshot["sources"][0]["path"], "/home/me/docs", "{snapshot}");
    let second = summary(&sandbox, &["source/", "--as-path", "/home/me/docs/"]);
    assert_eq!(second["read_file_count"], 0, "compared with the first: {second}");
    let same = ["source", "--as-path", "/home/me/docs", "--skip-if-unchanged"];
    assert!(summary(&sandbox, &same)["snapshot"].is_null(), "nothing has changed");
    sandbox.run(["restore", "latest:/home/me/docs", "--to", "back"]).well();
    let run = sandbox.run(["diff", "latest:/home/me/docs", "./back", "--metadata"]).well();
    assert_eq!(run.text(), "", "restored");
    let run = sandbox.run(["diff", "latest:/home/me/docs", "./source", "--metadata"]).well();
    assert_eq!(run.text(), "", "as on the disk");
}

#[test]
fn file_and_contents_of_a_folder_get_another_path() {
    let sandbox = Sandbox::with_repository();
    fs::create_dir_all(sandbox.path("a/b")).expect("made");
    fs::write(sandbox.path("a/x"), "1").expect("written");
    fs::write(sandbox.path("a/b/y"), "2").expect("written");
    summary(&sandbox, &["a/x", "--as-path", "/etc/fstab"]);
    assert_eq!(paths(&sandbox), ["etc/", "etc/fstab"]);
    assert_eq!(sandbox.run(["cat", "latest:/etc/fstab"]).well().text(), "1");
    summary(&sandbox, &["a/x", "--as-path", "/fstab"]);
    assert_eq!(paths(&sandbox), ["fstab"]);
    summary(&sandbox, &["a", "--as-path", "/"]);
    assert_eq!(paths(&sandbox), ["b/", "b/y", "x"], "the root of the snapshot");
    sandbox
        .run(["backup", "a/x", "--as-path", "/"])
        .ended(1, &["a/x: a file needs a name in --as-path"]);
}

#[test]
fn impossible_paths_are_refused() {
    let sandbox = Sandbox::with_repository();
    fs::write(sandbox.path("x"), "1").expect("written");
    for (arguments, text) in [
        (&["x", "--as-path", "y"][..], "--as-path y: not an absolute path"),
        (&["x", "--as-path", "/a/../y"], "--as-path /a/../y: not a path"),
        (&["x", "x", "--as-path", "/y"], "--as-path /y: needs exactly one path"),
        (&["/", "--as-path", "/y"], "--as-path /y: the root folder"),
        (&["--stdin", "--as-path", "/y"], "cannot be used with"),
    ] {
        sandbox.run([&["backup"], arguments].concat()).ended(2, &[text]);
    }
    assert!(sandbox.json(["snapshots"]).is_empty(), "no backup was made");
}
