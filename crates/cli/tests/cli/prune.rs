//! Freeing the space that no snapshot needs.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use cutpoint_testing::SplitMix64;

use crate::sandbox::{Sandbox, describe, run_with_input};
use crate::schema;

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

fn container_count(sandbox: &Sandbox, kind: &str) -> u64 {
    let folders = std::fs::read_dir(sandbox.path("repo").join(kind)).expect("a folder").flatten();
    folders.map(|folder| std::fs::read_dir(folder.path()).expect("a folder").count() as u64).sum()
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
fn prune_of_a_sole_client_frees_space_at_once() {
    let (sandbox, _) = start();
    let before = data_bytes(&sandbox);
    let run = sandbox.run(["prune"]).well();
    assert!(
        run.stderr.contains("Deleted ") && !run.stderr.contains("next prune"),
        "{}",
        run.stderr
    );
    assert!(data_bytes(&sandbox) + 1_000_000 < before, "the file that is gone still takes room");
    sandbox.run(["forget", "--undo", "--last"]).ended(2, &["prune"]);
    sandbox.run(["check", "--read-data"]).well();
    let checked = sandbox.json(["check"]);
    let counted = checked.last().expect("a summary")["container_count"].as_u64();
    let existing = container_count(&sandbox, "data") + container_count(&sandbox, "meta");
    assert_eq!(counted, Some(existing), "deleted containers count");
    sandbox.run(["restore", "latest:", "--to", "back"]).well();
    let source = sandbox.path("source");
    let back = sandbox.path("back").join(source.strip_prefix("/").expect("an absolute path"));
    assert_eq!(describe(&back), describe(&source), "what came back");
}

#[test]
fn prune_that_condemns_no_data_promises_no_space() {
    let sandbox = Sandbox::with_source();
    sandbox.backup("source");
    sandbox.backup("source");
    sandbox.run(["forget", "--keep-last", "1"]).well();
    let run = sandbox.run(["prune", "--settle", "1h"]).well();
    assert!(run.stderr.contains("Frees 0 B"), "{}", run.stderr);
    assert!(!run.stderr.contains("will be freed"), "{}", run.stderr);
}

#[test]
fn demanded_delay_is_kept_and_its_end_is_told() {
    let (sandbox, _) = start();
    let before = data_bytes(&sandbox);
    let run = sandbox.run(["prune", "--settle", "1h"]).well();
    let told = ["will be freed by the next prune after", "by --settle"];
    assert!(told.iter().all(|text| run.stderr.contains(text)), "{}", run.stderr);
    assert!(data_bytes(&sandbox) >= before, "it is too early");
    let events = sandbox.json(["prune", "--settle", "0"]);
    let summary = events.last().expect("a summary");
    assert!(summary["deleted_bytes"].as_u64() > Some(0), "{summary}");
    assert_eq!(summary["waiting"], false, "{summary}");
}

#[test]
fn client_with_lagging_listings_delays_every_prune() {
    let (sandbox, _) = start();
    let before = data_bytes(&sandbox);
    // As a client puts it that writes by a network share.
    std::fs::write(sandbox.path("repo/tickets/lagging"), "").expect("written");
    let run = sandbox.run(["prune"]).well();
    let told = "because listings of some client may lag";
    assert!(run.stderr.contains(told), "{}", run.stderr);
    assert!(data_bytes(&sandbox) >= before, "the other client may not have seen the record");
    sandbox.run(["check"]).well();
}

/// Starts a backup of standard input, and waits until it has begun.
fn running_backup(sandbox: &Sandbox) -> Child {
    let tickets = || std::fs::read_dir(sandbox.path("repo/tickets")).expect("a folder").count();
    let before = tickets();
    let mut command = sandbox.command(["backup", "--stdin", "--stdin-filename", "bulk"]);
    let child = command.stdin(Stdio::piped()).stderr(Stdio::null()).stdout(Stdio::null());
    let child = child.spawn().expect("the program starts");
    let began = Instant::now();
    while tickets() == before {
        assert!(began.elapsed() < Duration::from_secs(60), "it begins");
        std::thread::sleep(Duration::from_millis(20));
    }
    // Its view is made.
    std::thread::sleep(Duration::from_millis(500));
    child
}

/// The backup finds its bytes in a container that the prune condemns meanwhile.
#[test]
fn data_that_a_running_backup_may_need_stays_until_it_has_ended() {
    let (sandbox, _) = start();
    let before = data_bytes(&sandbox);
    let mut backup = running_backup(&sandbox);
    let run = sandbox.run(["prune"]).well();
    let told = "will be freed by the next prune once these clients have ended, at the latest about";
    assert!(run.stderr.contains(told), "{}", run.stderr);
    assert!(data_bytes(&sandbox) >= before, "the backup may need it");
    let mut command = sandbox.command(["prune", "--wait", "--json"]);
    let mut waiting = command.stdout(Stdio::piped()).spawn().expect("the program starts");
    let mut lines = BufReader::new(waiting.stdout.take().expect("a pipe")).lines();
    let mut events = lines.by_ref().map(|line| line.expect("text")).map(|line| {
        let event: serde_json::Value = serde_json::from_str(&line).expect("JSON");
        schema::validate(&event).unwrap_or_else(|error| panic!("{line}: {error}"));
        event
    });
    let event = events.find(|event| event["type"] == "waiting").expect("the wait is told");
    assert_eq!(event["reason"], "writers", "{event}");
    assert!(event["until"].is_string() && event["writers"][0]["host"].is_string(), "{event}");
    let mut stdin = backup.stdin.take().expect("a pipe");
    stdin.write_all(&SplitMix64::bytes(1, 2_000_000)).expect("it reads");
    drop(stdin);
    assert!(backup.wait().expect("it ends").success(), "it was not ended");
    let summary = events.last().expect("a summary");
    assert_eq!(summary["waiting"], false, "{summary}");
    assert!(waiting.wait().expect("it ends").success(), "it was not ended");
    sandbox.run(["check", "--read-data"]).well();
    let restored = sandbox.run(["cat", "latest:/bulk"]).well().stdout;
    assert!(restored == SplitMix64::bytes(1, 2_000_000), "what came back");
}

/// Backups begin and end while prunes free space at once.
#[test]
fn backups_lose_nothing_to_prunes_that_free_at_once() {
    let (sandbox, _) = start();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let prunes = scope.spawn(|| {
            let mut deleted_bytes = 0;
            while !is_over.load(Ordering::SeqCst) {
                let run = sandbox.run(["prune", "--json", "--unused-max", "0%"]);
                assert!(matches!(run.code, Some(0 | 15)), "{}", run.stderr);
                let summary = run.events().pop().expect("a summary");
                deleted_bytes += summary["deleted_bytes"].as_u64().unwrap_or(0);
            }
            deleted_bytes
        });
        for round in 0..6 {
            // Bytes that the round before has saved, and its prune may have condemned.
            let bytes = SplitMix64::bytes(1, 1_000_000 + 100_000 * (round % 2));
            let arguments = ["backup", "--stdin", "--stdin-filename", "bulk", "--json"];
            let run = run_with_input(&mut sandbox.command(arguments), &bytes).well();
            let summary = run.events().pop().expect("a summary");
            let id = summary["snapshot"].as_str().expect("an id").to_owned();
            let restored = sandbox.run(["cat", &format!("{id}:/bulk")]).well().stdout;
            assert!(restored == bytes, "round {round}: what came back");
            sandbox.run(["forget", &id]).well();
        }
        is_over.store(true, Ordering::SeqCst);
        assert!(prunes.join().expect("it ends") > 0, "space was freed");
    });
    sandbox.run(["prune"]).well();
    sandbox.run(["check", "--read-data"]).well();
}

/// R3, from outside: all containers move, and are deleted, while a reader is in the middle of a file.
#[test]
fn reader_finds_chunks_that_were_moved_and_deleted_at_once() {
    let sandbox = Sandbox::with_source();
    let bytes = SplitMix64::bytes(7, 48_000_000);
    std::fs::write(sandbox.path("source/bulk"), &bytes).expect("written");
    sandbox.backup("source");
    let path = sandbox.path("source/bulk");
    let name = format!("latest:{}", path.to_str().expect("text"));
    let mut command = sandbox.command(["cat", &name]);
    let mut reader = command.stdout(Stdio::piped()).spawn().expect("the program starts");
    let mut stdout = reader.stdout.take().expect("a pipe");
    let mut restored = vec![0; 100_000];
    stdout.read_exact(&mut restored).expect("the first bytes");
    let events = sandbox.json(["optimize", "--all"]);
    let summary = events.last().expect("a summary");
    assert!(summary["deleted_bytes"].as_u64() > Some(40_000_000), "{summary}");
    stdout.read_to_end(&mut restored).expect("the other bytes");
    assert!(reader.wait().expect("it ends").success(), "the reader has found all chunks");
    assert!(restored == bytes, "what came back");
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
