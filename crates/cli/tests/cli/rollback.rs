//! The remembered state of a repository, and the treatment of an older one.

use std::fs;
use std::path::Path;

use crate::sandbox::{Run, Sandbox, make_source, run};

/// Copies a folder of plain files and folders, replacing `to`.
pub(crate) fn copy(from: &Path, to: &Path) {
    if to.exists() {
        fs::remove_dir_all(to).expect("the other goes");
    }
    fs::create_dir_all(to).expect("made");
    for entry in fs::read_dir(from).expect("it is read") {
        let path = entry.expect("an entry").path();
        let target = to.join(path.file_name().expect("a name"));
        if path.is_dir() {
            copy(&path, &target);
        } else {
            fs::copy(&path, &target).expect("copied");
        }
    }
}

/// Returns the remembered state of `sandbox` as text.
fn remembered(sandbox: &Sandbox) -> String {
    let folder = sandbox.path("home/.local/state/cutpoint");
    let files = fs::read_dir(folder).expect("it is read");
    let texts = files
        .map(|file| fs::read_to_string(file.expect("an entry").path()).expect("the file is read"));
    texts.collect()
}

/// Runs as another machine does, without the remembered state of this one.
pub(crate) fn elsewhere(sandbox: &Sandbox, arguments: &[&str]) -> Run {
    let mut command = sandbox.command(arguments);
    run(command.env("HOME", sandbox.path("other home")))
}

#[test]
fn older_copy_is_refused() {
    let sandbox = Sandbox::with_source();
    let first = sandbox.backup("source");
    copy(&sandbox.path("repo"), &sandbox.path("copy"));
    fs::write(sandbox.path("source/new"), "new").expect("written");
    let second = sandbox.backup("source");
    copy(&sandbox.path("copy"), &sandbox.path("repo"));
    let before = remembered(&sandbox);
    assert!(before.contains(&second), "{before}");

    let (there, gone) = (
        format!("Found: settings 0, key epoch 1, prune 0, snapshot {}", &first[..8]),
        format!("Expected: settings 0, key epoch 1, prune 0, snapshot {}", &second[..8]),
    );
    let texts = [gone.as_str(), there.as_str(), "--accept-rollback", "older than at its last use"];
    sandbox.run(["snapshots"]).ended(12, &texts);
    sandbox.run(["restore", "latest", "--to", "back"]).ended(12, &texts);
    assert!(!sandbox.path("back").exists(), "nothing was done");
    sandbox.run(["backup", "source"]).ended(12, &texts);
    sandbox.run(["config", "--compression-level", "1"]).ended(12, &texts);
    sandbox.run(["key", "list"]).ended(12, &texts);
    // A command that looks for damage reports the older state, and does not change the remembered
    // one.
    let told = ["problem: rollback: ", &gone, &there, "1 problem found"];
    sandbox.run(["check"]).ended(1, &told);
    assert_eq!(remembered(&sandbox), before, "it is remembered still");
    // Another machine that was never used here cannot know, and neither can a new one.
    elsewhere(&sandbox, &["snapshots"]).ended(0, &["First use of repository"]);

    sandbox
        .run(["snapshots", "--accept-rollback"])
        .ended(0, &["warning: ", &gone, "The present state is accepted"]);
    let after = remembered(&sandbox);
    assert!(after.contains(&first) && !after.contains(&second), "{after}");
    let quiet = sandbox.run(["snapshots"]).well();
    assert!(quiet.stderr.is_empty(), "{}", quiet.stderr);
    sandbox.backup("source");
    sandbox.run(["check", "--read-data"]).well();
}

#[test]
fn older_epoch_is_refused() {
    let sandbox = Sandbox::new();
    make_source(&sandbox.path("source"));
    sandbox.run(["init", "--key-file", "key"]).well();
    copy(&sandbox.path("repo"), &sandbox.path("copy"));
    sandbox.run(["key", "rotate", "--key-file", "key"]).well();
    copy(&sandbox.path("copy"), &sandbox.path("repo"));
    sandbox.run(["snapshots", "--key-file", "key"]).ended(
        12,
        &[
            "Expected: settings 1, key epoch 2",
            "Found: settings 0, key epoch 1",
            "--accept-rollback",
        ],
    );
    sandbox.run(["debug", "--list", "--key-file", "key"]).ended(1, &["problem: rollback: "]);
    sandbox.run(["config", "--key-file", "key", "--accept-rollback"]).well();
    sandbox.run(["backup", "source", "--key-file", "key"]).well();
}

/// Other clients continue, prunes take nothing here, and caches and the remembered state are
/// deleted. None of this is an older state.
#[test]
fn legitimate_changes_are_not_refused() {
    let sandbox = Sandbox::with_source();
    sandbox.backup("source");
    elsewhere(&sandbox, &["backup", "source", "--host", "b"]).well();
    elsewhere(&sandbox, &["config", "--compression-level", "1"]).well();
    let silent = |run: Run| {
        let run = run.well();
        assert!(!run.stderr.contains("on this machine"), "{}", run.stderr);
    };
    silent(sandbox.run(["snapshots"]));
    sandbox.backup("source");
    silent(elsewhere(&sandbox, &["snapshots"]));
    fs::remove_dir_all(sandbox.path("home/.cache")).expect("the cache goes");
    silent(sandbox.run(["backup", "source"]));
    // Nothing has changed, and the second run prints no message.
    let again = sandbox.run(["snapshots"]).well();
    assert!(again.stderr.is_empty(), "{}", again.stderr);

    // Without a remembered state, the repository counts as seen for the first time, with a note.
    let folder = sandbox.path("home/.local/state/cutpoint");
    fs::remove_dir_all(&folder).expect("it goes");
    sandbox.run(["snapshots"]).ended(0, &["First use of repository"]);
    let file = fs::read_dir(&folder).expect("it is read").next().expect("one").expect("an entry");
    for damage in ["{", "{\"version\":1}", "\0\0"] {
        fs::write(file.path(), damage).expect("written");
        sandbox.run(["snapshots"]).ended(0, &["is damaged and ignored"]);
        let again = sandbox.run(["snapshots"]).well();
        assert!(again.stderr.is_empty(), "it is remembered again: {}", again.stderr);
    }
}

#[test]
fn repository_in_place_of_another_is_reported() {
    let sandbox = Sandbox::new();
    make_source(&sandbox.path("source"));
    for encryption in ["aes256-gcm", "chacha20-poly1305"] {
        let made = ["init", "--key-file", "key", "--encryption", encryption];
        let made = sandbox.run(made).well();
        assert!(!made.stderr.contains("warning"), "{}", made.stderr);
        elsewhere(&sandbox, &["snapshots", "--key-file", "key"]).well();
        let saved = sandbox.run(["backup", "source", "--key-file", "key"]).well();
        assert!(!saved.stderr.contains("on this machine"), "{}", saved.stderr);
        fs::remove_dir_all(sandbox.path("repo")).expect("the repository goes");
    }
    // The other machine has used both, one after the other.
    sandbox.run(["init", "--encryption", "none"]).well();
    let known = sandbox.run(["snapshots"]).well();
    assert!(known.stderr.contains("No snapshots"), "{}", known.stderr);
    elsewhere(&sandbox, &["snapshots"]).ended(12, &["not encrypted, but the previous repository"]);
    // Another repository is put in its place.
    fs::remove_dir_all(sandbox.path("repo")).expect("the repository goes");
    elsewhere(&sandbox, &["init", "--key-file", "key"]).well();
    sandbox
        .run(["snapshots", "--key-file", "key"])
        .ended(0, &["warning: ", "the repository was", "at its last use on this machine"]);
    let again = sandbox.run(["snapshots", "--key-file", "key", "--quiet"]).well();
    assert!(again.stderr.is_empty(), "it is known now: {}", again.stderr);
}

#[test]
fn snapshot_deleted_from_the_middle_is_reported_by_every_listing() {
    let sandbox = Sandbox::with_source();
    let [_, middle, last] = [(); 3].map(|()| sandbox.backup("source"));
    let commit = format!("commits/{middle}");
    std::fs::rename(sandbox.path("repo").join(&commit), sandbox.path("kept")).expect("it goes");
    let texts = [commit.as_str(), "missing, although other clients have seen it"];
    let path = sandbox.path("source/hello");
    let path = path.to_str().expect("UTF-8");
    for arguments in [
        &["snapshots"][..],
        &["ls", "latest"],
        &["cat", "latest", path],
        &["dump", "latest", path],
        &["restore", "latest", "--to", "back"],
        &["stats"],
        &["tag", "latest", "--add", "word"],
        &["hold", "latest"],
        &["hold", "--release", "latest"],
        &["forget", "--dry-run", &last],
        &["backup", "source"],
    ] {
        sandbox.run(arguments).ended(1, &texts);
    }
    sandbox.run(["check"]).ended(1, &[&commit, "a later writer has seen it"]);
    // Commands that delete, or forget by rules, do nothing.
    sandbox.run(["forget", "--keep-last", "1"]).ended(11, &texts);
    for command in ["prune", "optimize"] {
        let run = sandbox.run([command]).ended(11, &texts);
        assert_eq!(run.stderr.matches(texts[1]).count(), 1, "told once: {}", run.stderr);
    }
    std::fs::rename(sandbox.path("kept"), sandbox.path("repo").join(&commit)).expect("it comes");
    for arguments in [&["snapshots"][..], &["backup", "source"], &["check"]] {
        sandbox.run(arguments).well();
    }
}

/// Commits appear and disappear while they are listed, which raises no alarm.
#[test]
fn listing_beside_concurrent_changes_raises_no_alarm() {
    let sandbox = Sandbox::with_repository();
    std::fs::create_dir(sandbox.path("source")).expect("made");
    std::fs::write(sandbox.path("source/file"), "a file").expect("written");
    for _ in 0..3 {
        sandbox.backup("source");
    }
    let is_done = std::sync::atomic::AtomicBool::new(false);
    let lists = std::thread::scope(|scope| {
        let lister = scope.spawn(|| {
            let mut lists = 0;
            while !is_done.load(std::sync::atomic::Ordering::Relaxed) {
                sandbox.run(["snapshots"]).well();
                lists += 1;
            }
            lists
        });
        let changer = scope.spawn(|| {
            for _ in 0..3 {
                sandbox.run(["backup", "source"]).well();
                sandbox.run(["forget", "--keep-last", "1"]).well();
                sandbox.run(["prune", "--settle", "0s"]).well();
                sandbox.run(["prune", "--settle", "0s"]).well();
            }
        });
        let changed = changer.join();
        is_done.store(true, std::sync::atomic::Ordering::Relaxed);
        changed.expect("it ends well");
        lister.join().expect("it ends well")
    });
    assert!(lists > 2, "it has listed: {lists}");
}

/// Another client takes the writer of a deleted commit for dead, and ends its ticket. A commit of
/// that name exists then, but is no snapshot.
#[test]
fn void_in_place_of_newest_snapshot_is_older_state() {
    let sandbox = Sandbox::with_source();
    let first = sandbox.backup("source");
    let newest = sandbox.backup("source");
    let commit = sandbox.path("repo/commits").join(&newest);
    fs::rename(&commit, sandbox.path("kept")).expect("it goes");
    let texts =
        ["older than at its last use", &newest[..8], "cutpoint snapshots --accept-rollback"];
    sandbox.run(["snapshots"]).ended(12, &texts);
    let told = sandbox.run(["snapshots", "--json"]).ended(12, &texts).events();
    assert_eq!(told.last().expect("an error")["kind"], "rolled_back", "the kind");
    // A command that deletes also checks first.
    for arguments in [&["prune"][..], &["prune", "--dry-run"], &["optimize"]] {
        sandbox.run(arguments).ended(12, &texts);
    }
    assert!(!commit.exists(), "nothing was done");
    elsewhere(&sandbox, &["prune"]).well();
    assert!(commit.exists(), "a void is in its place");
    for arguments in [
        &["snapshots"][..],
        &["restore", "latest", "--to", "back"],
        &["backup", "source"],
        &["config"],
        &["key", "list"],
        &["prune"],
        &["optimize"],
        &["repair", "objects"],
    ] {
        sandbox.run(arguments).ended(12, &texts);
    }
    sandbox.run(["check"]).ended(1, &["problem: rollback: ", texts[2]]);
    sandbox.run(["snapshots", "--accept-rollback"]).ended(0, &["The present state is accepted"]);
    let listed = sandbox.run(["snapshots"]).well();
    assert!(listed.text().contains(&first[..8]), "{}", listed.text());
    sandbox.run(["check"]).well();
}

#[test]
fn record_of_own_prune_is_remembered() {
    let sandbox = Sandbox::with_source();
    let first = sandbox.backup("source");
    sandbox.backup("source");
    sandbox.run(["forget", &first]).well();
    copy(&sandbox.path("repo"), &sandbox.path("copy"));
    sandbox.run(["prune"]).well();
    copy(&sandbox.path("copy"), &sandbox.path("repo"));
    let texts = ["Expected: settings 0, key epoch 1, prune 1", "key epoch 1, prune 0"];
    sandbox.run(["prune"]).ended(12, &texts);
    sandbox.run(["snapshots"]).ended(12, &texts);
}

/// Every command that accepts an older state remembers it.
#[test]
fn accepted_older_state_is_remembered_by_every_command() {
    let sandbox = Sandbox::with_source();
    sandbox.backup("source");
    copy(&sandbox.path("repo"), &sandbox.path("copy"));
    sandbox.run(["config", "--compression-level", "1"]).well();
    copy(&sandbox.path("home/.local/state"), &sandbox.path("state"));
    for arguments in [
        &["prune"][..],
        &["optimize"],
        &["repair", "index"],
        &["repair", "objects"],
        &["check"],
        &["debug", "--list"],
    ] {
        copy(&sandbox.path("copy"), &sandbox.path("repo"));
        copy(&sandbox.path("state"), &sandbox.path("home/.local/state"));
        sandbox.run(["snapshots"]).ended(12, &["Expected: settings 1"]);
        let accepted = [arguments, &["--accept-rollback"]].concat();
        sandbox.run(accepted).ended(0, &["The present state is accepted"]);
        let after = sandbox.run(["snapshots"]).well();
        assert!(after.stderr.is_empty(), "{arguments:?}: {}", after.stderr);
    }
}

/// A command that lists the repository twice reports the commit once.
#[test]
fn missing_commit_is_reported_once() {
    let sandbox = Sandbox::with_source();
    let [_, last] = [(); 2].map(|()| sandbox.backup("source"));
    sandbox.run(["tag", "latest", "--add", "word"]).well();
    fs::remove_file(sandbox.path("repo/commits").join(&last)).expect("it goes");
    let run = sandbox
        .run(["backup", "source", "--accept-rollback"])
        .ended(1, &["The present state is accepted"]);
    let told = run.stderr.matches(&format!("problem: commits/{last}")).count();
    assert_eq!(told, 1, "{}", run.stderr);
}
