//! Snapshots that are copied between repositories, and rewritten.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use cutpoint_testing::SplitMix64;
use serde_json::Value;

use crate::dump_archive::{add_extremes, attributes};
use crate::failures::flip;
use crate::sandbox::{Run, Sandbox, describe, run};
use crate::untrusted::{Lie, Server};

/// Creates the repository `other`, encrypted by a key file `other.key` and with another cut, and
/// copies everything from `repo` into it. Returns the summary.
fn copy(sandbox: &Sandbox, options: &[&str]) -> Vec<Value> {
    run(copy_command(sandbox, options).arg("--json")).well().events()
}

fn copy_command(sandbox: &Sandbox, options: &[&str]) -> Command {
    if !sandbox.path("other").exists() {
        let mut init =
            sandbox.command(["init", "--key-file", "other.key", "--cut", "fastcdc:avg=8k"]);
        run(init.env("CUTPOINT_REPO", sandbox.path("other"))).well();
    }
    let mut command = sandbox.command(["copy", "--key-file", "other.key", "--from"]);
    let source = sandbox.path("repo");
    command.arg(source).args(options).env("CUTPOINT_REPO", sandbox.path("other"));
    command
}

/// Runs a command on the repository `other`.
fn of_other(sandbox: &Sandbox, arguments: &[&str]) -> Run {
    let mut command = sandbox.command(arguments);
    run(command.args(["--key-file", "other.key"]).env("CUTPOINT_REPO", sandbox.path("other")))
}

/// Returns the folder below `to` to which `source` was restored.
fn restored(sandbox: &Sandbox, to: &str) -> PathBuf {
    let source = sandbox.path("source");
    sandbox.path(to).join(source.strip_prefix("/").expect("an absolute path"))
}

/// Returns the counts of the summary of a copy: copied, present, reduced, forgotten, older.
fn counts(events: &[Value]) -> [u64; 5] {
    let summary = events.last().expect("a summary");
    ["copied", "present", "reduced", "forgotten", "older"]
        .map(|name| summary[format!("{name}_count")].as_u64().expect("a number"))
}

#[test]
fn copies_restore_equal_and_are_made_once() {
    let sandbox = Sandbox::with_source();
    let first = sandbox.backup("source");
    fs::write(sandbox.path("source/new file"), "something new").expect("it is written");
    let second = sandbox.backup("source");
    let planned = copy(&sandbox, &["--dry-run"]);
    let summary = planned.last().expect("a summary");
    assert_eq!((&summary["copied_count"], &summary["dry_run"]), (&2.into(), &true.into()));
    let copied = copy(&sandbox, &[]);
    let summary = copied.last().expect("a summary");
    assert_eq!((&summary["copied_count"], &summary["present_count"]), (&2.into(), &0.into()));
    assert!(summary["new_bytes"].as_u64() > Some(0), "{summary}");
    let again = copy(&sandbox, &[]);
    let summary = again.last().expect("a summary");
    assert_eq!((&summary["copied_count"], &summary["present_count"]), (&0.into(), &2.into()));
    assert_eq!(summary["stored_bytes"], 0, "{summary}");

    let of_other = |arguments: &[&str]| of_other(&sandbox, arguments);
    let listed = of_other(&["snapshots", "--json"]).well().events();
    let originals: Vec<_> = listed.iter().map(|event| &event["origin"]["snapshot"]).collect();
    assert_eq!(originals, [first.as_str(), second.as_str()], "the originals");
    let shown = of_other(&["snapshots"]).well();
    assert!(shown.text().contains(&format!("(copy of {})", &second[..8])), "{}", shown.text());
    of_other(&["check", "--read-data"]).well();
    // The id of the original names the copy.
    of_other(&["restore", &second, "--to", "from-copy"]).well();
    let restored = describe(&restored(&sandbox, "from-copy"));
    assert_eq!(
        restored,
        describe(&sandbox.path("source")),
        "the same files with the same metadata"
    );
}

#[test]
fn copy_refuses_bad_sources_with_a_remedy() {
    let sandbox = Sandbox::with_source();
    let repo = sandbox.path("repo");
    let copy = |from: &std::path::Path| {
        let mut command = sandbox.command(["copy", "--from"]);
        run(command.arg(from))
    };
    copy(&repo).ended(2, &["same repository", "--from names the repository to read"]);
    copy(&sandbox.path("absent")).ended(10, &["--from", "no repository found", "check --from"]);
    let mut init = sandbox.command(["init", "--key-file", "locked.key"]);
    run(init.env("CUTPOINT_REPO", sandbox.path("locked"))).well();
    copy(&sandbox.path("locked")).ended(12, &["--from", "--from-passphrase-file"]);
}

/// Starts a server that refuses every request. Returns its address and the requests.
fn refusing_server() -> (String, Arc<Mutex<String>>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address").to_string();
    let requests = Arc::new(Mutex::new(String::new()));
    let heard = requests.clone();
    std::thread::spawn(move || {
        for connection in listener.incoming() {
            let Ok(mut connection) = connection else { continue };
            let mut request = Vec::new();
            let mut buffer = [0; 1024];
            while !request.windows(4).any(|end| end == b"\r\n\r\n") {
                match connection.read(&mut buffer) {
                    Ok(len) if len > 0 => request.extend_from_slice(&buffer[..len]),
                    _ => break,
                }
            }
            heard.lock().expect("no panic").push_str(&String::from_utf8_lossy(&request));
            let answer =
                b"HTTP/1.1 401 Unauthorized\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
            connection.write_all(answer).ok();
        }
    });
    (address, requests)
}

/// The account of the target does not reach the server of the source.
#[test]
fn source_server_gets_only_its_own_account() {
    let sandbox = Sandbox::with_source();
    let requests_with = |arguments: &[&str], variables: &[(&str, &str)]| {
        let (address, requests) = refusing_server();
        let mut command = sandbox.command(arguments);
        command.arg(format!("rest:http://{address}/a/"));
        command.envs([("CUTPOINT_REST_USER", "me"), ("CUTPOINT_REST_PASSWORD", "xyzzy")]);
        command
            .env("CUTPOINT_REPO", sandbox.path(if arguments[0] == "init" { "n" } else { "repo" }));
        run(command.envs(variables.iter().copied())).ended(2, &["401"]);
        let requests = requests.lock().expect("no panic").to_ascii_lowercase();
        assert!(requests.contains("/a/"), "{requests}");
        requests
    };
    let own = [("CUTPOINT_FROM_REST_USER", "it"), ("CUTPOINT_FROM_REST_PASSWORD", "secret")];
    for arguments in [&["copy", "--from"][..], &["init", "--like"]] {
        let requests = requests_with(arguments, &[]);
        assert!(!requests.contains("authorization"), "{requests}");
        let requests = requests_with(arguments, &own);
        // The base64 form of `it:secret`.
        assert!(requests.contains("basic axq6c2vjcmv0"), "{requests}");
    }
}

/// An error of `--from` does not show the password in the address.
#[test]
fn errors_of_the_source_hide_its_password() {
    let sandbox = Sandbox::with_source();
    let (address, _) = refusing_server();
    for place in [format!("rest:http://me:xyzzy@{address}/a/"), "http://me:xyzzy@nas/a".to_owned()]
    {
        let failed = sandbox.run(["copy", "--from", &place]).ended(2, &["--from", "me:***@"]);
        assert!(!failed.stderr.contains("xyzzy"), "{}", failed.stderr);
    }
}

#[test]
fn rewrite_removes_a_path_and_can_be_undone() {
    let sandbox = Sandbox::with_source();
    fs::create_dir(sandbox.path("source/secrets")).expect("a folder");
    fs::write(sandbox.path("source/secrets/word"), "xyzzy").expect("a file");
    let old = sandbox.backup("source");
    let rewrite = |options: &[&str]| {
        sandbox.json(["rewrite", "--exclude", "secrets/"].iter().chain(options)).pop()
    };
    let summary = rewrite(&["--dry-run"]).expect("a summary");
    assert_eq!(
        (&summary["rewritten_count"], &summary["excluded_file_count"]),
        (&1.into(), &1.into())
    );
    assert_eq!(sandbox.json(["snapshots"]).len(), 1, "a dry run changes nothing");
    let summary = rewrite(&[]).expect("a summary");
    assert_eq!((&summary["rewritten_count"], &summary["forgotten_count"]), (&1.into(), &0.into()));
    let summary = rewrite(&["--forget"]).expect("a summary");
    assert_eq!(
        (&summary["rewritten_count"], &summary["forgotten_count"]),
        (&0.into(), &1.into()),
        "what was rewritten before is only forgotten"
    );
    let listed = sandbox.json(["snapshots"]);
    assert_eq!(listed.len(), 1, "the new one");
    assert_ne!(listed[0]["id"], old.as_str(), "not the old one");
    let files = sandbox.run(["ls", "latest", "-R"]).well();
    assert!(!files.text().contains("secrets"), "{}", files.text());
    sandbox.run(["check", "--read-data"]).well();
    sandbox.run(["forget", "--undo", "--last"]).well();
    assert_eq!(sandbox.json(["snapshots"]).len(), 2, "the old one is back");
    sandbox.run(["rewrite", "--exclude", "["]).ended(2, &["--exclude"]);
}

/// A rewrite that left out more than is asked now does not replace the snapshot.
#[test]
fn rewrite_after_one_of_more_patterns_keeps_the_other_files() {
    let sandbox = Sandbox::with_source();
    fs::write(sandbox.path("source/disk.iso"), "an image").expect("a file");
    fs::write(sandbox.path("source/note.txt"), "a note").expect("a file");
    let old = sandbox.backup("source");
    let both = ["rewrite", &old, "--exclude", "*.iso", "--exclude", "*.txt"];
    sandbox.run(both).well();
    let summary = sandbox.json(["rewrite", &old, "--exclude", "*.iso", "--forget"]).pop();
    let summary = summary.expect("a summary");
    assert_eq!(
        (&summary["rewritten_count"], &summary["forgotten_count"]),
        (&1.into(), &1.into()),
        "{summary}"
    );
    let with_note = sandbox.json(["snapshots"]).into_iter().filter(|listed| {
        let id = listed["id"].as_str().expect("an id");
        let files = sandbox.run(["ls", "-R", id]).well();
        assert!(!files.text().contains("disk.iso"), "{}", files.text());
        files.text().contains("note.txt")
    });
    assert_eq!(with_note.count(), 1, "the new snapshot keeps the note");
    // Now each of both is found.
    sandbox.run(["forget", "--undo", "--last"]).well();
    for exclude in [&both[2..4], &both[2..]] {
        let again = [&["rewrite", &*old][..], exclude].concat();
        let summary = sandbox.json(again).pop().expect("a summary");
        assert_eq!(summary["rewritten_count"], 0, "{summary}");
    }
}

/// Odd names, times, attributes, access control lists, devices, links and holes are those of a
/// restore of the original.
#[test]
fn copies_keep_all_metadata() {
    let sandbox = Sandbox::with_source();
    let source = sandbox.path("source");
    add_extremes(&source);
    sandbox.backup("source");
    let copied = copy(&sandbox, &[]);
    assert_eq!(counts(&copied), [1, 0, 0, 0, 0]);
    sandbox.run(["restore", "latest", "--to", "original"]).well();
    of_other(&sandbox, &["restore", "latest", "--to", "copied"]).well();
    let (original, copied) = (restored(&sandbox, "original"), restored(&sandbox, "copied"));
    let described = describe(&copied);
    assert_eq!(described, describe(&original), "as the original is restored");
    assert_eq!(described, describe(&source), "as at the source");
    assert_eq!(attributes(&copied), attributes(&source), "the attributes");
    let blocks = |folder: &Path| {
        use std::os::unix::fs::MetadataExt;
        fs::metadata(folder.join("sparse")).expect("metadata").blocks()
    };
    assert!(blocks(&copied) <= blocks(&source), "the hole stays a hole");
}

/// The second of two snapshots with little difference adds little, although chunks differ in cut
/// and key from those of the source.
#[test]
fn second_copy_stores_what_is_new() {
    let sandbox = Sandbox::with_repository();
    fs::create_dir(sandbox.path("source")).expect("made");
    for number in 0..8 {
        let bytes = SplitMix64::bytes(number, 1_000_000);
        fs::write(sandbox.path("source").join(number.to_string()), bytes).expect("written");
    }
    sandbox.backup("source");
    let first = copy(&sandbox, &[]);
    let mut bytes = SplitMix64::bytes(3, 1_000_000);
    bytes.splice(500_000..500_000, *b"a few bytes more");
    fs::write(sandbox.path("source/3"), bytes).expect("written");
    sandbox.backup("source");
    let second = copy(&sandbox, &[]);
    assert_eq!((counts(&first), counts(&second)), ([1, 0, 0, 0, 0], [1, 1, 0, 0, 0]));
    let number = |events: &[Value], name: &str| {
        events.last().expect("a summary")[name].as_u64().expect("a number")
    };
    assert_eq!(number(&first, "read_bytes"), 8_000_000);
    assert_eq!(number(&second, "read_bytes"), 1_000_016, "the changed file");
    let (all, added) = (number(&first, "stored_bytes"), number(&second, "stored_bytes"));
    assert!(added < all / 40, "{added} bytes are stored, after {all}");
}

/// What was forgotten or rewritten in the target does not come back, unless that is requested.
#[test]
fn forgotten_and_rewritten_copies_stay_away() {
    let sandbox = Sandbox::with_source();
    fs::write(sandbox.path("source/secret"), "xyzzy").expect("a file");
    let first = sandbox.backup("source");
    sandbox.backup("source");
    assert_eq!(counts(&copy(&sandbox, &[])), [2, 0, 0, 0, 0], "the first copy");
    of_other(&sandbox, &["rewrite", "--exclude", "secret", "--forget", &first]).well();
    let again = run(&mut copy_command(&sandbox, &[]));
    let again = again.ended(0, &["1 snapshot not copied again", "`cutpoint rewrite`", "--again"]);
    assert!(again.stderr.contains("Copied 0 snapshots"), "{}", again.stderr);
    assert_eq!(counts(&copy(&sandbox, &[])), [0, 1, 1, 0, 0]);
    let shown = of_other(&sandbox, &["snapshots"]).well();
    assert!(
        shown.text().contains(&format!("(copy of parts of {}", &first[..8])),
        "{}",
        shown.text()
    );
    // A prune takes away the old copy, but not the knowledge.
    of_other(&sandbox, &["prune", "--exclusive", "--yes"]).well();
    assert_eq!(counts(&copy(&sandbox, &[])), [0, 1, 1, 0, 0]);
    let listed = of_other(&sandbox, &["ls", "-R", &first]).well();
    assert!(listed.text().contains("hello"), "the id of the original: {}", listed.text());
    assert!(!listed.text().contains("secret"), "not in the rewritten copy: {}", listed.text());
    assert!(of_other(&sandbox, &["ls", "-R", "latest"]).well().text().contains("secret"));

    of_other(&sandbox, &["forget", "latest"]).well();
    let again = run(&mut copy_command(&sandbox, &[]));
    again.ended(0, &["because the copies were forgotten here; --again"]);
    assert_eq!(counts(&copy(&sandbox, &[])), [0, 0, 1, 1, 0]);
    assert_eq!(counts(&copy(&sandbox, &["--again"])), [2, 0, 0, 0, 0], "on request");
    assert_eq!(counts(&copy(&sandbox, &["--again"])), [0, 2, 0, 0, 0], "once");
    of_other(&sandbox, &["check", "--read-data"]).well();
}

/// Nothing is known of a copy that a prune has removed, but its snapshot is older than the newest
/// copy.
#[test]
fn pruned_copies_stay_away_with_only_newer() {
    let sandbox = Sandbox::with_source();
    sandbox.backup("source");
    sandbox.backup("source");
    copy(&sandbox, &[]);
    of_other(&sandbox, &["forget", "--keep-last", "1"]).well();
    of_other(&sandbox, &["prune", "--exclusive", "--yes"]).well();
    sandbox.backup("source");
    let planned = run(&mut copy_command(&sandbox, &["--dry-run"]));
    planned.ended(0, &["1 snapshot older than the newest copy", "--only-newer keeps them"]);
    assert_eq!(counts(&copy(&sandbox, &["--only-newer"])), [1, 1, 0, 0, 1], "the third");
    assert_eq!(counts(&copy(&sandbox, &[])), [1, 2, 0, 0, 0], "the first comes back");
}

/// Damages the stored data of `folder` that `is_meant` chooses by name.
fn damage_data(folder: &Path, is_meant: impl Fn(&str) -> bool) {
    let mut folders = vec![folder.join("data")];
    let mut count = 0;
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).expect("listed").flatten() {
            if entry.path().is_dir() {
                folders.push(entry.path());
            } else if is_meant(&entry.file_name().to_string_lossy()) {
                flip(&entry.path(), 200);
                count += 1;
            }
        }
    }
    assert!(count > 0, "something is damaged");
}

/// Makes a repository with two snapshots of two files, and copies them.
fn with_two_copies() -> (Sandbox, Vec<String>) {
    let sandbox = Sandbox::with_repository();
    fs::create_dir(sandbox.path("source")).expect("made");
    for number in 1..3 {
        let path = sandbox.path("source").join(format!("file {number}"));
        fs::write(path, SplitMix64::bytes(number, 1_000_000)).expect("written");
        sandbox.backup("source");
    }
    assert_eq!(counts(&copy(&sandbox, &[])), [2, 0, 0, 0, 0], "the first copy");
    let listed = of_other(&sandbox, &["snapshots", "--json"]).well().events();
    let ids = listed.iter().map(|event| event["id"].as_str().expect("an id").to_owned()).collect();
    (sandbox, ids)
}

fn assert_other_restores(sandbox: &Sandbox, to: &str) {
    of_other(sandbox, &["restore", "latest", "--to", to]).well();
    let (back, source) = (restored(sandbox, to), sandbox.path("source"));
    for name in ["file 1", "file 2"] {
        let read = |folder: &Path| fs::read(folder.join(name)).expect("a file");
        assert!(read(&back) == read(&source), "{name} has the bytes of the source");
    }
}

/// A copy whose data is known to be damaged is made again, and reads what is lost.
#[test]
fn damaged_copies_are_made_again() {
    let (sandbox, ids) = with_two_copies();
    // The data of the second copy alone: the second file.
    damage_data(&sandbox.path("other"), |name| name.contains(&ids[1]));
    assert_eq!(counts(&copy(&sandbox, &[])), [0, 2, 0, 0, 0], "nothing is known yet");
    let checked = of_other(&sandbox, &["check", "--read-data"]).ended(1, &[]);
    let said = format!("{}{}", checked.text(), checked.stderr);
    assert!(said.contains("(of copies: `cutpoint copy`)"), "{said}");
    let planned = run(copy_command(&sandbox, &["--dry-run"]).arg("--verbose"));
    planned.ended(0, &["1 snapshot again, because the copies lack files or have damaged data"]);
    let again = copy(&sandbox, &[]);
    assert_eq!(counts(&again), [1, 1, 0, 0, 0], "the damaged one");
    let read_bytes = &again.last().expect("a summary")["read_bytes"];
    assert_eq!(*read_bytes, 1_000_000, "what is lost");
    assert_eq!(counts(&copy(&sandbox, &[])), [0, 2, 0, 0, 0], "once");
    of_other(&sandbox, &["check", "--read-data"]).well();
    assert_other_restores(&sandbox, "back");
    // The new copy replaces the old one in every list.
    of_other(&sandbox, &["forget", "--keep-last", "1"]).well();
    assert_other_restores(&sandbox, "kept");
}

/// After a repair, the rest of a copy is listed, and the copy is made again.
#[test]
fn repaired_copies_are_made_again() {
    let (sandbox, ids) = with_two_copies();
    damage_data(&sandbox.path("other"), |name| name.contains(&ids[1]));
    of_other(&sandbox, &["repair", "snapshots", "--read-data", "--forget"]);
    let listed = of_other(&sandbox, &["snapshots", "--json"]).well().events();
    assert!(listed.iter().all(|event| event["id"] != *ids[1]), "forgotten: {listed:?}");
    assert_eq!(counts(&copy(&sandbox, &[])), [1, 1, 0, 0, 0], "the repaired one");
    assert_eq!(counts(&copy(&sandbox, &[])), [0, 2, 0, 0, 0], "once");
    assert_other_restores(&sandbox, "back");
}

/// Of several forms of a snapshot, the last one is `latest` and the one that rules keep.
#[test]
fn later_form_of_a_snapshot_follows_the_earlier_one() {
    let sandbox = Sandbox::with_source();
    // Chance would decide by the random identifiers.
    for number in 0..4 {
        let name = format!("secret {number}");
        fs::write(sandbox.path("source").join(&name), "xyzzy").expect("a file");
        let id = sandbox.backup("source");
        sandbox.run(["rewrite", "--exclude", &name, &id]).well();
        let has = |run: Run| run.well().text().contains(&name);
        assert!(!has(sandbox.run(["ls", "-R", "latest"])), "the rewritten one");
        sandbox.run(["forget", "--keep-last", "1"]).well();
        assert!(!has(sandbox.run(["ls", "-R", "latest"])), "the rewritten one is kept");
        sandbox.run(["forget", "--undo", "--last"]).well();
        // In a target, both forms have the same order.
        copy(&sandbox, &[]);
        assert!(!has(of_other(&sandbox, &["ls", "-R", "latest"])), "the copy");
        of_other(&sandbox, &["rewrite", "--exclude", "hello*", "--forget", "latest"]).well();
        let some = of_other(&sandbox, &["ls", "-R", "latest"]).well();
        assert!(!some.text().contains("hello"), "the rewritten copy: {}", some.text());
        copy(&sandbox, &["--again"]);
        let all = of_other(&sandbox, &["ls", "-R", "latest"]).well();
        assert!(all.text().contains("hello"), "the complete copy: {}", all.text());
        fs::remove_file(sandbox.path("source").join(&name)).expect("removed");
    }
}

/// A snapshot that fails is not left out for good.
#[test]
fn only_newer_stops_at_a_failure() {
    let sandbox = Sandbox::with_source();
    let first = sandbox.backup("source");
    fs::write(sandbox.path("source/more"), SplitMix64::bytes(3, 100_000)).expect("a file");
    let second = sandbox.backup("source");
    fs::write(sandbox.path("source/last"), SplitMix64::bytes(4, 100_000)).expect("a file");
    sandbox.backup("source");
    // A folder of which the second snapshot has nothing.
    fs::create_dir(sandbox.path("apart")).expect("made");
    fs::write(sandbox.path("apart/file"), SplitMix64::bytes(5, 100_000)).expect("a file");
    sandbox.run(["backup", "apart"]).well();
    let other_paths = copy(&sandbox, &["--only-newer", &first]);
    assert_eq!(counts(&other_paths), [1, 0, 0, 0, 0], "the first");
    let hidden: Vec<_> = walk(&sandbox.path("repo"), &second);
    let away = sandbox.path("away");
    fs::create_dir(&away).expect("made");
    for (number, path) in hidden.iter().enumerate() {
        fs::rename(path, away.join(number.to_string())).expect("moved");
    }
    let failed = run(copy_command(&sandbox, &["--only-newer"]).arg("--json")).events();
    let summary = failed.last().expect("a summary");
    assert_eq!(counts(&failed)[..2], [1, 1], "the other paths alone: {summary}");
    assert_eq!(summary["failed_count"], 2, "{summary}");
    for (number, path) in hidden.iter().enumerate() {
        fs::rename(away.join(number.to_string()), path).expect("moved back");
    }
    assert_eq!(counts(&copy(&sandbox, &["--only-newer"])), [2, 2, 0, 0, 0], "both follow");
}

/// Returns the containers of metadata that the run with this ticket has put.
fn walk(repository: &Path, ticket: &str) -> Vec<PathBuf> {
    let mut folders = vec![repository.join("meta")];
    let mut found = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).expect("listed").flatten() {
            match entry.path().is_dir() {
                true => folders.push(entry.path()),
                false if entry.file_name().to_string_lossy().contains(ticket) => {
                    found.push(entry.path());
                }
                false => {}
            }
        }
    }
    assert!(!found.is_empty(), "containers of {ticket}");
    found
}

/// Containers of the source are damaged: a copy names each file that is lost, and has the others.
#[test]
fn damage_at_the_source_is_named_and_the_rest_copied() {
    let sandbox = Sandbox::with_repository();
    fs::create_dir(sandbox.path("source")).expect("made");
    let write = |number: u64| {
        let path = sandbox.path("source").join(format!("file {number}"));
        fs::write(path, SplitMix64::bytes(number, 1_000_000)).expect("written");
        sandbox.backup("source")
    };
    let ids = [write(1), write(2)];
    for entry in fs::read_dir(sandbox.path("repo/data")).expect("listed").flatten() {
        for object in fs::read_dir(entry.path()).into_iter().flatten().flatten() {
            if object.file_name().to_string_lossy().contains(&ids[0]) {
                flip(&object.path(), 200);
            }
        }
        if entry.file_name().to_string_lossy().contains(&ids[0]) {
            flip(&entry.path(), 200);
        }
    }
    let lost = format!("{}:{}", &ids[0][..8], sandbox.path("source/file 1").display());
    let texts = [&lost, "not copied", "without 1 that cannot be read", "Copied 2 snapshots"];
    run(&mut copy_command(&sandbox, &[])).ended(1, &texts);
    of_other(&sandbox, &["check", "--read-data"]).well();
    of_other(&sandbox, &["restore", "latest", "--to", "back"]).ended(0, &[]);
    let back = restored(&sandbox, "back");
    assert!(!back.join("file 1").exists(), "no part of the lost file");
    let found = fs::read(back.join("file 2")).expect("the other file");
    assert!(found == SplitMix64::bytes(2, 1_000_000), "the bytes of the other file");
    // The copies are tried again each night, and not made anew as long as nothing more can be read.
    for _ in 0..2 {
        let again = run(copy_command(&sandbox, &[]).arg("--json")).ended(1, &[]).events();
        assert_eq!(counts(&again), [0, 0, 0, 0, 0]);
        let summary = again.last().expect("a summary");
        assert_eq!((&summary["unchanged_count"], &summary["stored_bytes"]), (&2.into(), &0.into()));
    }
    // Once a backup has healed the source, they are.
    sandbox.run(["check", "--read-data"]).ended(1, &[]);
    sandbox.backup("source");
    let healed = copy(&sandbox, &[]);
    assert_eq!(counts(&healed), [3, 0, 0, 0, 0]);
    assert_eq!(counts(&copy(&sandbox, &[])), [0, 3, 0, 0, 0], "all are complete");
    // The id of the original names the complete one of two copies.
    of_other(&sandbox, &["restore", &ids[0], "--to", "healed"]).well();
    let found = fs::read(restored(&sandbox, "healed").join("file 1")).expect("the healed file");
    assert!(found == SplitMix64::bytes(1, 1_000_000), "the bytes of the healed file");
}

/// Copies from an object storage, as another account.
#[test]
fn copy_reads_from_s3() {
    let sandbox = Sandbox::with_source();
    sandbox.backup("source");
    let server = Server::start(sandbox.path("repo"), sandbox.path("repo"), Lie::None);
    let init = ["init", "--encryption", "none"];
    run(sandbox.command(init).env("CUTPOINT_REPO", sandbox.path("near"))).well();
    let mut command = sandbox.command(["copy", "--from", "s3://bucket/repo"]);
    command.args(["--from-s3-endpoint", server.address(), "--from-s3-region", "us-east-1"]);
    command.env("CUTPOINT_REPO", sandbox.path("near"));
    command.env("AWS_ACCESS_KEY_ID", "a").env("AWS_SECRET_ACCESS_KEY", "b");
    run(&mut command).ended(0, &["Copied 1 snapshot"]);
    let mut restore = sandbox.command(["restore", "latest", "--to", "back"]);
    run(restore.env("CUTPOINT_REPO", sandbox.path("near"))).well();
    assert_eq!(describe(&restored(&sandbox, "back")), describe(&sandbox.path("source")));
}

/// Makes two backups, of random files of 60 and of 120 MB, and starts to copy them. Returns once the
/// first copy is complete and a part of the other is stored.
fn start_long_copy(sandbox: &Sandbox) -> Child {
    fs::create_dir(sandbox.path("source")).expect("made");
    for number in 0..12 {
        let path = sandbox.path("source").join(number.to_string());
        fs::write(path, SplitMix64::bytes(number, 10_000_000)).expect("written");
        if number == 5 {
            sandbox.backup("source");
        }
    }
    sandbox.backup("source");
    let mut command = copy_command(sandbox, &[]);
    command.stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the program starts");
    let began = Instant::now();
    let other = sandbox.path("other");
    let count = || fs::read_dir(other.join("commits")).map_or(0, Iterator::count);
    let before = count();
    while count() == before || folder_len(&other) < 85_000_000 {
        assert!(child.try_wait().expect("it is asked").is_none(), "it is still at work");
        assert!(began.elapsed() < Duration::from_secs(60), "it stores something");
        std::thread::sleep(Duration::from_millis(2));
    }
    child
}

/// Returns the total size of the files below a folder, some of which may vanish meanwhile.
fn folder_len(folder: &Path) -> u64 {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let lens = entries.map(|entry| match entry.file_type() {
        Ok(kind) if kind.is_dir() => folder_len(&entry.path()),
        _ => entry.metadata().map_or(0, |metadata| metadata.len()),
    });
    lens.sum()
}

#[test]
fn killed_copy_continues() {
    let sandbox = Sandbox::with_repository();
    let mut child = start_long_copy(&sandbox);
    child.kill().expect("it can be ended");
    child.wait().expect("it ends");
    let listed = of_other(&sandbox, &["snapshots", "--json"]).well();
    assert_eq!(listed.events().len(), 1, "the first copy");
    let resumed = copy(&sandbox, &[]);
    assert_eq!(counts(&resumed), [1, 1, 0, 0, 0]);
    let summary = resumed.last().expect("a summary");
    assert_eq!(summary["read_bytes"], 60_000_000, "what the first copy has is not read");
    assert!(folder_len(&sandbox.path("other")) < 190_000_000, "as much as the protocol allows");
    assert_eq!(counts(&copy(&sandbox, &[])), [0, 2, 0, 0, 0]);
    of_other(&sandbox, &["check", "--read-data"]).well();
    of_other(&sandbox, &["restore", "latest", "--to", "back"]).well();
    assert_eq!(describe(&restored(&sandbox, "back")), describe(&sandbox.path("source")));
}

#[test]
fn interrupted_copy_says_what_is_kept() {
    let sandbox = Sandbox::with_repository();
    let child = start_long_copy(&sandbox);
    let sent = Command::new("kill").args(["-s", "INT", &child.id().to_string()]).status();
    assert!(sent.is_ok_and(|status| status.success()), "the signal is sent");
    let output = child.wait_with_output().expect("it ends");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(130), "{said}");
    assert!(said.contains("copy: interrupted"), "{said}");
    assert!(!said.contains("backup"), "{said}");
    assert!(said.contains("1 of 2 snapshots copied"), "{said}");
    assert!(said.contains("data stored so far is reused"), "{said}");
    let resumed = copy(&sandbox, &[]);
    let new = resumed.last().expect("a summary")["new_bytes"].as_u64().expect("a number");
    assert!(new < 45_000_000, "{new} bytes are stored, although some were there");
}

/// Programs get events of the progress and of each snapshot; a log gets lines without carriage
/// returns.
#[test]
fn copy_reports_its_progress() {
    let sandbox = Sandbox::with_source();
    fs::write(sandbox.path("source/large"), SplitMix64::bytes(1, 60_000_000)).expect("written");
    let first = sandbox.backup("source");
    let second = sandbox.backup("source");
    let planned = copy(&sandbox, &["--dry-run"]);
    let of_type = |events: &[Value], name: &str| -> Vec<Value> {
        events.iter().filter(|event| event["type"] == name).cloned().collect()
    };
    let planned = of_type(&planned, "saved");
    assert_eq!(planned.len(), 2, "one event a snapshot");
    assert!(planned[0]["saved"].is_null(), "nothing is saved: {}", planned[0]);
    let events = copy(&sandbox, &[]);
    let saved = of_type(&events, "saved");
    let ids: Vec<_> = saved.iter().map(|event| event["snapshot"].clone()).collect();
    assert_eq!(ids, [first.as_str(), second.as_str()], "oldest first");
    for (planned, saved) in planned.iter().zip(&saved) {
        for name in ["read_file_count", "read_bytes", "lacking_count"] {
            assert_eq!(planned[name], saved[name], "{name} as planned");
        }
    }
    let progress = of_type(&events, "progress");
    let last = progress.last().expect("progress");
    assert_eq!(last["expected_read_bytes"], planned[0]["read_bytes"], "the expected work: {last}");
    fs::remove_dir_all(sandbox.path("other")).expect("removed");
    let run = run(&mut copy_command(&sandbox, &[])).well();
    assert!(!run.stderr.contains('\r'), "a log: {:?}", run.stderr);
    assert_eq!(run.stderr.matches("saved as").count(), 2, "{}", run.stderr);
}
