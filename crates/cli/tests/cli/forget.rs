//! Snapshots that are forgotten, put back, held and tagged.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cutpoint_repository::format::commit::Outcome;
use cutpoint_repository::format::prune::Prune;
use cutpoint_repository::write::prune_log::{AppendResult, append};
use cutpoint_repository::{CommitResult, Purpose, Repository, Snapshot, TicketId, Unlock, Writer};
use cutpoint_storage::{Local, System};

use crate::sandbox::{Sandbox, run};

const HOUR_NS: i64 = 3600 * 1_000_000_000;
/// 2026-01-01, 00:00 UTC.
const BEGIN_NS: i64 = 1_767_225_600 * 1_000_000_000;

fn begin(sandbox: &Sandbox, purpose: Purpose) -> Writer {
    let storage = Local::open(&sandbox.path("repo")).expect("the folder is there");
    let repository = Repository::open(Arc::new(storage), Arc::new(System), &Unlock::Nothing);
    Writer::begin(Arc::new(repository.expect("it opens")), purpose).expect("it begins")
}

/// Makes an empty snapshot `hours` after the beginning. Returns its id.
fn snapshot_at(sandbox: &Sandbox, host: &str, hours: i64, tags: &[&str]) -> String {
    let mut writer = begin(sandbox, Purpose::Backup);
    let snapshot = Snapshot {
        host: host.to_owned(),
        sources: vec![b"/home".to_vec()],
        started_ns: BEGIN_NS + hours * HOUR_NS,
        finished_ns: BEGIN_NS + hours * HOUR_NS,
        tags: tags.iter().map(|&tag| tag.to_owned()).collect(),
        ..Snapshot::empty()
    };
    let outcome = Outcome::Snapshot(Box::new(snapshot));
    let committed = writer.commit(outcome, Vec::new(), &BTreeSet::new()).expect("it commits");
    assert_eq!(committed, CommitResult::Done, "nobody ended it");
    writer.ticket().to_string()
}

/// Commits a prune that takes this snapshot and condemns nothing.
fn take(sandbox: &Sandbox, id: &str) {
    let mut writer = begin(sandbox, Purpose::Prune);
    let forgotten = vec![TicketId::parse(id).expect("an id")];
    let record = Prune { taken: forgotten, ..Prune::default() };
    let view = writer.view().clone();
    let appended = append(&mut writer, &view, record, &BTreeSet::new(), |_, _, _| Ok(None));
    assert!(matches!(appended, Ok(AppendResult::Done(_))), "{appended:?}");
}

/// Returns the listed ids.
fn ids(sandbox: &Sandbox, options: &[&str]) -> Vec<String> {
    let events = sandbox.json(["snapshots"].iter().chain(options));
    events.iter().map(|event| event["id"].as_str().expect("an id").to_owned()).collect()
}

#[test]
fn dry_run_shows_a_table() {
    let sandbox = Sandbox::with_repository();
    let at = |hours, tags: &[&str]| snapshot_at(&sandbox, "one", hours, tags);
    let all = [at(0, &[]), at(23, &["kept"]), at(30, &[]), at(34, &[]), at(1_525_248, &[])];
    let other = snapshot_at(&sandbox, "two", 1, &[]);
    let arguments = ["forget", "--keep-daily", "2", "--keep-last", "1", "--keep-tag", "kept"];
    let short: Vec<&str> = all.iter().map(|id| &id[..8]).collect();
    let other_short = &other[..8];
    let table = |rows: &[&str; 5]| {
        let mut lines = vec!["host one, path /home:".to_owned()];
        lines.extend(short.iter().zip(rows).map(|(id, row)| format!("  {id}  {row}")));
        lines.push("host two, path /home:".to_owned());
        lines
    };
    let lines = |options: &[&str], zone: &str| {
        let mut command = sandbox.command(arguments);
        let run = run(command.args(options).env("TZ", zone)).well();
        let text = run.text().lines().filter(|line| !line.starts_with("  ID "));
        (text.map(str::to_owned).collect::<Vec<_>>(), run.stderr)
    };
    let (in_utc, said) = lines(&["--utc", "--dry-run"], "TST-14");
    let mut expected = table(&[
        "2026-01-01 00:00:00 +00:00  forget",
        "2026-01-01 23:00:00 +00:00  keep    daily 2, tag kept    [kept]",
        "2026-01-02 06:00:00 +00:00  forget",
        "2026-01-02 10:00:00 +00:00  keep    last 1, daily 1",
        "2200-01-01 00:00:00 +00:00  keep    dated in the future",
    ]);
    expected.push(format!("  {other_short}  2026-01-01 01:00:00 +00:00  keep    last 1, daily 1"));
    assert_eq!(in_utc, expected, "{said}");
    assert!(said.contains("Would forget 2 snapshots, keep 4."), "{said}");
    // In a time zone 14 hours ahead of UTC, the day is a different one.
    let (local, _) = lines(&["-n"], "TST-14");
    assert!(local[2].contains("2026-01-02 13:00:00 +14:00  keep    tag kept"), "{}", local[2]);
    assert!(local[3].contains("2026-01-02 20:00:00 +14:00  keep    daily 2"), "{}", local[3]);
    assert!(
        local[4].contains("2026-01-03 00:00:00 +14:00  keep    last 1, daily 1"),
        "{}",
        local[4]
    );
    assert_eq!(ids(&sandbox, &[]).len(), 6, "nothing was forgotten");
    assert_eq!(ids(&sandbox, &["--path", "/home"]).len(), 6, "by path");
    assert_eq!(ids(&sandbox, &["--path", "/root"]).len(), 0, "by another path");
    // The same rules without the dry run.
    let (done, said) = lines(&["--utc"], "TST-14");
    assert_eq!(done, in_utc, "the same table");
    assert!(said.contains("Forgot 2 snapshots, kept 4."), "{said}");
    let forgotten: BTreeSet<String> = ids(&sandbox, &["--forgotten"]).into_iter().collect();
    assert_eq!(forgotten, [all[0].clone(), all[2].clone()].into(), "those without a rule");
    let (again, said) = lines(&["--utc"], "TST-14");
    assert_eq!(again.len(), 6, "what is left");
    assert!(said.contains("Forgot 0 snapshots, kept 4."), "{said}");
}

#[test]
fn forget_can_be_undone() {
    let sandbox = Sandbox::with_repository();
    let all: Vec<String> = (0..4).map(|hours| snapshot_at(&sandbox, "h", hours, &[])).collect();
    sandbox.run(["forget", &all[0][..8]]).ended(0, &["Forgot 1 snapshot, kept 3."]);
    sandbox.run(["forget", "--keep-last", "1"]).ended(0, &["Forgot 2 snapshots, kept 1."]);
    sandbox
        .run(["ls", &all[1]])
        .ended(2, &[": forgotten", &format!("cutpoint forget --undo {}", &all[1][..8])]);
    sandbox.run(["forget", &all[1]]).ended(2, &[": forgotten"]);
    sandbox.run(["forget", "--undo", &all[1][..6]]).ended(0, &["Brought back 1 snapshot"]);
    sandbox.run(["forget", "--undo", &all[1]]).ended(2, &["not forgotten"]);
    assert_eq!(ids(&sandbox, &[]), [all[1].clone(), all[3].clone()], "it is back, alone");
    let undone = sandbox.json(["forget", "--undo", "--last"]);
    assert_eq!(undone[0]["restored_count"], 1, "the other of the last forget");
    assert_eq!(undone[0]["restored"], serde_json::json!([all[2]]), "its ID");
    assert_eq!(undone[0]["kept_count"], 3, "all that are listed now");
    assert_eq!(ids(&sandbox, &["--forgotten"]), [all[0].clone()], "of the forget before");
    take(&sandbox, &all[0]);
    let short = &all[0][..8];
    sandbox
        .run(["forget", "--undo", short])
        .ended(2, &[&format!("snapshot {short}: already removed by prune")]);
    sandbox.run(["hold", short]).ended(2, &["already removed by prune"]);
    sandbox.run(["ls", short]).ended(2, &["removed for good", "cutpoint snapshots"]);
    sandbox.run(["forget", "--undo", "--last"]).ended(2, &["a prune has removed all"]);
    // Of two snapshots that were forgotten together, a prune takes one.
    sandbox.run(["forget", &all[1], &all[2]]).well();
    take(&sandbox, &all[1]);
    sandbox
        .run(["forget", "--undo", "--last"])
        .ended(1, &["removed by a prune", &format!("Brought back 1 snapshot: {}", &all[2][..8])]);
    assert_eq!(ids(&sandbox, &[]), [all[2].clone(), all[3].clone()], "what is left");
}

/// Ids are random, so an order by id would be another one in every repository.
#[test]
fn undone_snapshots_are_listed_oldest_first() {
    let sandbox = Sandbox::with_repository();
    let all: Vec<String> = (0..6).map(|hours| snapshot_at(&sandbox, "h", hours, &[])).collect();
    let newest_first: Vec<&str> = all.iter().rev().map(String::as_str).collect();
    let run = |options: &[&str]| sandbox.run([options, newest_first.as_slice()].concat());
    let short: Vec<&str> = all.iter().map(|id| &id[..8]).collect();
    let expected = format!("Brought back 6 snapshots: {}.", short.join(" "));
    run(&["forget"]).well();
    sandbox.run(["forget", "--undo", "--last"]).ended(0, &[&expected]);
    run(&["forget"]).well();
    run(&["forget", "--undo"]).ended(0, &[&expected]);
    // `hold` names the forgotten ones in this order, too.
    run(&["forget"]).well();
    let held = run(&["hold"]).well();
    let named = held.stderr.lines().filter_map(|line| line.split_once(" is forgotten;"));
    assert_eq!(named.map(|(id, _)| id).collect::<Vec<_>>(), short, "{}", held.stderr);
}

/// A commit that cannot be read any more may have been a forget. The snapshot is listed again then,
/// and a rule would keep it in place of an intact one.
#[test]
fn rules_need_every_commit() {
    let sandbox = Sandbox::with_repository();
    let all: Vec<String> = (0..3).map(|hours| snapshot_at(&sandbox, "h", hours, &[])).collect();
    let commits = || -> BTreeSet<PathBuf> {
        let folder = fs::read_dir(sandbox.path("repo/commits")).expect("the folder is there");
        folder.map(|entry| entry.expect("it is read").path()).collect()
    };
    let before = commits();
    sandbox.run(["forget", &all[2]]).ended(0, &["Forgot 1 snapshot, kept 2."]);
    let new: Vec<PathBuf> = commits().difference(&before).cloned().collect();
    let [forget] = &*new else { panic!("one commit was made: {new:?}") };
    let ticket = forget.file_name().and_then(|name| name.to_str()).expect("a ticket");
    let name = format!("commits/{ticket}");
    let whole = fs::read(forget).expect("it is read");

    let mut damaged = whole.clone();
    let middle = damaged.len() / 2;
    damaged[middle] ^= 1;
    overwrite(forget, &damaged);
    sandbox.run(["snapshots"]).ended(1, &[&name]);
    for options in [&["--keep-last", "1"][..], &["--keep-last", "1", "--dry-run"]] {
        sandbox
            .run(["forget"].iter().chain(options))
            .ended(11, &[&name, "cannot be read", "nothing is deleted", "`cutpoint check`"]);
    }
    // A snapshot that is named can be forgotten all the same.
    sandbox.run(["forget", &all[0]]).ended(1, &[&name, "Forgot 1 snapshot"]);

    // A later commit may have seen the forget, so its deletion is noticed.
    overwrite(forget, &whole);
    snapshot_at(&sandbox, "other", 9, &[]);
    fs::remove_file(forget).expect("it is removed");
    sandbox.run(["forget", "--keep-last", "1"]).ended(11, &[&name, "missing", "repair snapshots"]);

    fs::write(forget, whole).expect("it is written");
    sandbox.run(["forget", "--keep-last", "1"]).ended(0, &["Forgot 0 snapshots, kept 2."]);
    let listed: BTreeSet<String> = ids(&sandbox, &["--host", "h"]).into_iter().collect();
    assert_eq!(listed, [all[1].clone()].into(), "the last that was not forgotten");
}

fn overwrite(path: &Path, bytes: &[u8]) {
    fs::remove_file(path).expect("it is removed");
    fs::write(path, bytes).expect("it is written");
}

#[test]
fn held_snapshots_stay() {
    let sandbox = Sandbox::with_repository();
    let all: Vec<String> = (0..3).map(|hours| snapshot_at(&sandbox, "h", hours, &[])).collect();
    let short = &all[0][..8];
    sandbox.run(["hold", short]).ended(0, &["Held 1 snapshot."]);
    let events = sandbox.json(["snapshots"]);
    let held: Vec<_> = events.iter().map(|event| event["held"].as_bool()).collect();
    assert_eq!(held, [Some(true), Some(false), Some(false)], "as JSON");
    let text = sandbox.run(["snapshots"]).well();
    assert!(text.text().lines().nth(1).is_some_and(|line| line.ends_with("(held)")), "as text");
    sandbox
        .run(["forget", short, &all[1]])
        .ended(2, &[": held", &format!("cutpoint hold --release {short}")]);
    sandbox.run(["forget", "--keep-last", "1"]).ended(0, &["Forgot 1 snapshot, kept 2."]);
    assert_eq!(ids(&sandbox, &[]), [all[0].clone(), all[2].clone()], "the held one stays");
    // A forgotten snapshot can be held. `latest` is one that is not forgotten.
    sandbox.run(["hold", &all[1]]).ended(0, &["is forgotten; `cutpoint forget --undo"]);
    assert_eq!(sandbox.json(["hold", "latest"])[0]["held_count"], 1, "latest");
    let released = sandbox.json(["hold", "--release", short, "latest"]);
    assert_eq!(released[0]["released_count"], 2, "released");
    sandbox.run(["hold", "--release", short]).ended(0, &["Released 0 snapshots; 1 unchanged."]);
    sandbox
        .run(["hold", "abcdef"])
        .ended(2, &["snapshot `abcdef`: not found", "cutpoint snapshots"]);
    sandbox.run(["forget", "--keep-last", "1"]).ended(0, &["Forgot 1 snapshot, kept 1."]);
}

#[test]
fn tags_change() {
    let sandbox = Sandbox::with_repository();
    let (first, second) =
        (snapshot_at(&sandbox, "h", 0, &["old"]), snapshot_at(&sandbox, "h", 1, &[]));
    let tags = |id: &str| {
        let events = sandbox.json(["snapshots"]);
        let event = events.iter().find(|event| event["id"] == id).expect("it is listed").clone();
        let tags = event["tags"].as_array().expect("tags").iter();
        let tags: Vec<&str> = tags.map(|tag| tag.as_str().expect("text")).collect();
        format!("{} / {}", tags.join(" "), event["description"].as_str().expect("text"))
    };
    sandbox.run(["tag", &first, "--add", "a", "--add", "b", "--remove", "old"]).well();
    assert_eq!(tags(&first), "a b / ", "added and removed");
    let summary = sandbox.json(["tag", &first, "latest", "--add", "a"]);
    assert_eq!(summary[0]["changed_count"], 1, "the other had it");
    assert_eq!(summary[0]["unchanged_count"], 1, "this one");
    sandbox.run(["tag", &second[..8], "--description", "a text", "--set", "c"]).well();
    assert_eq!(tags(&second), "c / a text", "set");
    sandbox.run(["tag", &second, "--clear", "--description", ""]).well();
    assert_eq!(tags(&second), " / ", "cleared");
    assert_eq!(ids(&sandbox, &["--tag", "b"]), [&*first], "found by it");
    sandbox.run(["forget", "--keep-tag", "b"]).ended(0, &["Forgot 1 snapshot"]);
    assert_eq!(ids(&sandbox, &[]), [&*first], "kept by it");
    sandbox.run(["tag", &first]).ended(2, &["no change given", "--add"]);
    sandbox.run(["tag", &first, "--add", ""]).ended(2, &["cannot be empty", "--clear"]);
    sandbox.run(["tag", &second, "--add", "x"]).ended(2, &[": forgotten"]);
}

#[test]
fn json_reports_each_snapshot() {
    let sandbox = Sandbox::with_repository();
    let all: Vec<String> = (0..2).map(|hours| snapshot_at(&sandbox, "h", hours, &["t"])).collect();
    let events = sandbox.json(["forget", "--keep-last", "1", "--group-by", "tags", "--dry-run"]);
    let verdicts: Vec<_> = events
        .iter()
        .filter(|event| event["type"] == "verdict")
        .map(|event| (event["id"].as_str(), event["kept"].as_bool(), event["rules"].to_string()))
        .collect();
    let expected = [
        (Some(&*all[0]), Some(false), "[]".to_owned()),
        (Some(&*all[1]), Some(true), "[\"last 1\"]".to_owned()),
    ];
    assert_eq!(verdicts, expected, "verdicts");
    let summary = events.last().expect("a summary");
    assert_eq!(summary["dry_run"], true, "{summary}");
    assert_eq!((&summary["kept_count"], &summary["forgotten_count"]), (&1.into(), &1.into()));
    assert_eq!(ids(&sandbox, &[]), all, "nothing was done");
    let dry = sandbox.json(["forget", "--dry-run", &all[0]]);
    assert_eq!(dry[0]["forgotten_count"], 1, "by name");
    assert_eq!(ids(&sandbox, &[]), all, "nothing was done");
}

#[test]
fn contradictory_options_are_refused() {
    let sandbox = Sandbox::with_repository();
    let id = snapshot_at(&sandbox, "h", 0, &[]);
    let refused: [(&[&str], &[&str]); 10] = [
        (&[], &["no rule and no snapshot given", "--keep-last"]),
        (&["--keep-last", "0"], &["--keep-last: 0 is out of range"]),
        (&["--keep-within", "3x"], &["unknown unit \"x\""]),
        (&["--keep-tag", "t"], &["keep none of the 1 snapshot of host h", "--allow-empty"]),
        (&["--keep-tag", "t", "-n"], &["keep none", "--allow-empty"]),
        (&["--undo"], &["--undo: no snapshot given", "--last"]),
        (&["--undo", "--last"], &["no snapshot is forgotten"]),
        (&["--undo", "latest"], &["`latest` is never a forgotten snapshot", "--last"]),
        (&["--undo", "--last", "--keep-last", "1"], &["--undo: cannot be combined with rules"]),
        (&["--allow-empty", &id], &["require rules"]),
    ];
    for (arguments, texts) in refused {
        sandbox.run(["forget"].iter().chain(arguments)).ended(2, texts);
    }
    sandbox.run(["forget", &id, "--keep-last", "1"]).ended(2, &["cannot be combined"]);
    sandbox
        .run(["forget", "--keep-last", "1", "--host", "another"])
        .ended(0, &["no snapshot is selected", "Forgot 0 snapshots"]);
    assert_eq!(ids(&sandbox, &[]), [id], "nothing was forgotten");
    sandbox.run(["forget", "--keep-tag", "t", "--allow-empty"]).ended(0, &["Forgot 1 snapshot"]);
    sandbox.run(["snapshots"]).ended(0, &["No snapshots."]);
    sandbox.run(["forget", "--keep-last", "1"]).ended(0, &["Forgot 0 snapshots, kept 0."]);
}

#[test]
fn undone_forget_is_not_taken_for_pruned() {
    let sandbox = Sandbox::with_repository();
    let all: Vec<String> = (0..3).map(|hours| snapshot_at(&sandbox, "h", hours, &[])).collect();
    sandbox.run(["forget", &all[0]]).well();
    take(&sandbox, &all[0]);
    sandbox.run(["forget", &all[1]]).well();
    sandbox.run(["forget", "--undo", &all[1]]).well();
    sandbox.run(["forget", "--undo", "--last"]).ended(
        2,
        &["the last forget is already undone, and a prune has removed all snapshots of the one before"],
    );
}
