//! Freeing the space that no snapshot needs.

use std::process::Stdio;
use std::time::{Duration, Instant};

use cutpoint_testing::SplitMix64;

use crate::sandbox::{Sandbox, describe};

/// Creates two snapshots. The first one has a file that the second one lacks, and is forgotten.
fn start() -> (Sandbox, String) {
    let sandbox = Sandbox::with_source();
    let bulk = sandbox.path("source/bulk");
    std::fs::write(&bulk, SplitMix64::bytes(1, 2_000_000)).expect("written");
    sandbox.backup("source");
    std::fs::remove_file(&bulk).expect("removed");
    let kept = sandbox.backup("source");
    sandbox.run(["forget", "--keep-last", "1"]).well();
    (sandbox, kept)
}

fn data_bytes(sandbox: &Sandbox) -> u64 {
    let mut total = 0;
    for folder in std::fs::read_dir(sandbox.path("repo/data")).expect("a folder").flatten() {
        for object in std::fs::read_dir(folder.path()).expect("a folder").flatten() {
            total += object.metadata().expect("it is there").len();
        }
    }
    total
}

#[test]
fn dry_run_changes_nothing() {
    let (sandbox, _) = start();
    let before = describe(&sandbox.path("repo"));
    let run = sandbox.run(["prune", "--dry-run"]).well();
    let told = run.text();
    assert!(told.starts_with("Would remove 1 forgotten snapshot, keep 1.\n"), "{told}");
    assert!(told.contains("\nWould free "), "{told}");
    assert_eq!(run.stderr, "", "the plan is the result");
    assert_eq!(describe(&sandbox.path("repo")), before, "something was written");
}

#[test]
fn forgotten_data_is_freed_once_no_client_can_need_it() {
    let (sandbox, _) = start();
    let before = data_bytes(&sandbox);
    let run = sandbox.run(["prune"]).well();
    assert!(run.stderr.contains("will be freed by the next prune after"), "{}", run.stderr);
    assert!(data_bytes(&sandbox) >= before, "it is too early");
    let events = sandbox.json(["prune", "--settle", "0"]);
    let summary = events.last().expect("a summary");
    assert!(summary["deleted_bytes"].as_u64() > Some(0), "{summary}");
    assert_eq!(summary["waiting"], false, "{summary}");
    assert!(data_bytes(&sandbox) + 1_000_000 < before, "the file that is gone still takes room");
    sandbox.run(["forget", "--undo", "--last"]).ended(2, &["prune"]);
    sandbox.run(["check", "--read-data"]).well();
    sandbox.run(["restore", "latest:", "--to", "back"]).well();
    let source = sandbox.path("source");
    let back = sandbox.path("back").join(source.strip_prefix("/").expect("an absolute path"));
    assert_eq!(describe(&back), describe(&source), "what came back");
}

#[test]
fn exclusive_prune_frees_at_once() {
    let (sandbox, kept) = start();
    let before = data_bytes(&sandbox);
    let told = [
        "cutpoint: --exclusive: not confirmed, because there is no terminal\n",
        "  add --yes if no other client is active\n",
    ];
    sandbox.run(["prune", "--exclusive"]).ended(2, &told);
    sandbox.run(["optimize", "--exclusive"]).ended(2, &told);
    assert_eq!(data_bytes(&sandbox), before, "nothing was deleted");
    let events = sandbox.json(["prune", "--exclusive", "--yes"]);
    let summary = events.last().expect("a summary");
    assert_eq!(
        (&summary["prune_number"], &summary["removed_snapshot_count"]),
        (&1.into(), &1.into())
    );
    assert!(data_bytes(&sandbox) + 1_000_000 < before, "{summary}");
    let listed = sandbox.json(["snapshots"]);
    assert_eq!(listed.len(), 1, "{listed:?}");
    assert!(listed[0]["id"].as_str().is_some_and(|id| id.starts_with(&kept)), "{listed:?}");
    // The second time, there is nothing to do.
    let run = sandbox.run(["prune", "--exclusive", "--yes"]).well();
    assert!(run.stderr.contains("Nothing to condemn."), "{}", run.stderr);
}

/// A backup waits for its standard input, as if on another machine.
#[test]
fn exclusive_beside_another_client_is_refused() {
    let (sandbox, _) = start();
    let before = data_bytes(&sandbox);
    let mut command = sandbox.command(["backup", "--stdin", "--stdin-filename", "x"]);
    let child = command.stdin(Stdio::piped()).stderr(Stdio::null()).stdout(Stdio::null());
    let mut child = child.spawn().expect("the program starts");
    let tickets = sandbox.path("repo/tickets");
    let open_ticket = || {
        let names = |folder: &str| -> Vec<_> {
            let entries = std::fs::read_dir(sandbox.path("repo").join(folder)).expect("a folder");
            entries.flatten().map(|entry| entry.file_name()).collect()
        };
        let ended = names("commits");
        names("tickets").into_iter().find(|name| !ended.contains(name))
    };
    let began = Instant::now();
    let ticket = loop {
        if let Some(ticket) = open_ticket() {
            break ticket.to_string_lossy().into_owned();
        }
        assert!(began.elapsed() < Duration::from_secs(60), "it begins: {}", tickets.display());
        std::thread::sleep(Duration::from_millis(20));
    };
    for arguments in [&["prune", "--exclusive"][..], &["optimize", "--exclusive", "--yes"]] {
        let texts = [&ticket[..8], "other clients may be active", "min ago", "3 hours"];
        sandbox.run(arguments).ended(15, &texts);
    }
    assert_eq!(data_bytes(&sandbox), before, "nothing was deleted");
    drop(child.stdin.take());
    assert!(child.wait().expect("it ends").success(), "it was not ended");
    sandbox.run(["prune", "--exclusive", "--yes"]).well();
    assert!(data_bytes(&sandbox) < before, "nobody else is at work");
    sandbox.run(["prune", "--yes"]).ended(2, &["--exclusive"]);
}

#[test]
fn damaged_repository_is_not_pruned() {
    let (sandbox, kept) = start();
    let folder = std::fs::read_dir(sandbox.path("repo/commits")).expect("a folder");
    let own = folder.flatten().find(|each| each.file_name().to_string_lossy().starts_with(&kept));
    std::fs::remove_file(own.expect("its commit").path()).expect("removed");
    let before = data_bytes(&sandbox);
    sandbox
        .run(["prune", "--exclusive", "--yes", "--accept-rollback"])
        .ended(11, &["commits/", "repair"]);
    assert_eq!(data_bytes(&sandbox), before, "something was deleted");
}

#[test]
fn shares_and_times_are_parsed() {
    let sandbox = Sandbox::with_repository();
    let told = ["--unused-max: 101% is out of range (expected 0% to 100%)"];
    sandbox.run(["prune", "--unused-max", "101%"]).ended(2, &told);
    for wrong in [["--unused-max", "5"], ["--settle", "3x"]] {
        sandbox.run(["prune"].iter().chain(&wrong)).ended(2, &["expected a form such as"]);
    }
    sandbox
        .run(["prune", "--unused-max", "12.5%", "--rewrite-max", "10g", "--settle", "90s"])
        .well();
}
