//! `run` and `schedule`: profiles, hooks, reports and metrics; and key files of machines.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::sandbox::{Run, Sandbox, make_source, run};
use crate::schema;

/// Creates a sandbox with a repository, a folder `source`, and the profile `home`, with `more` at
/// its end. In `more`, `@` is the folder of the sandbox.
pub(crate) fn sandbox(more: &str) -> Sandbox {
    let sandbox = Sandbox::with_source();
    write_profile(&sandbox, "home", more);
    sandbox
}

pub(crate) fn write_profile(sandbox: &Sandbox, name: &str, more: &str) -> PathBuf {
    let folder = sandbox.path("home/.config/cutpoint");
    fs::create_dir_all(&folder).expect("a folder");
    let file = folder.join(format!("{name}.toml"));
    let text = format!("repository = \"@/repo\"\nsources = [\"@/source\"]\n{more}\n");
    let text = text.replace('@', sandbox.path("").to_str().expect("UTF-8").trim_end_matches('/'));
    fs::write(&file, text).expect("written");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).expect("set");
    file
}

/// Returns a command as a service or cron starts it: without any variables but `HOME`, in `/`.
fn bare(sandbox: &Sandbox, arguments: &[&str]) -> Command {
    let mut command = sandbox.command(arguments);
    command.env_clear().env("HOME", sandbox.path("home")).current_dir("/");
    command.env("PATH", "/usr/bin:/bin");
    command
}

fn summary(run: &Run) -> Value {
    run.events().pop().expect("a summary")
}

fn part<'a>(summary: &'a Value, name: &str) -> &'a Value {
    let parts = summary["parts"].as_array().expect("parts");
    parts.iter().find(|part| part["part"] == name).unwrap_or_else(|| panic!("{name}: {summary}"))
}

pub(crate) fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

const ALL: &str = "check = \"100%\"\n[backup]\nexclude = [\"sub/\"]\ntag = \"night\"\n[forget]\nkeep-last = 1\n[prune]\nsettle = \"0s\"";

#[test]
fn run_does_all_parts_of_a_profile() {
    let sandbox = sandbox(ALL);
    let first = run(&mut bare(&sandbox, &["run", "home"]));
    let texts = ["home: backup", "home: prune", "success: backup success, forget success, prune"];
    first.ended(0, &texts);
    let second = run(&mut bare(&sandbox, &["run", "home", "--json"])).well();
    let end = summary(&second);
    assert_eq!(end["exit_code"], 0, "{end}");
    let commands: Vec<_> = second.events().iter().map(|event| event["command"].clone()).collect();
    let commands: Vec<_> = commands.iter().filter_map(Value::as_str).collect();
    assert_eq!(commands, ["backup", "forget", "prune", "check", "run"], "a summary each");
    assert_eq!(part(&end, "forget")["summary"]["forgotten_count"], 1, "the first snapshot");
    let check = &part(&end, "check")["summary"];
    assert_eq!(check["read_bytes"], check["container_bytes"], "all data was read: {check}");
    let snapshots = sandbox.json(["snapshots"]);
    assert_eq!(snapshots.len(), 1, "one is kept");
    assert_eq!(snapshots[0]["id"], end["snapshot"], "the newest");
    assert_eq!(snapshots[0]["tags"][0], "night", "a tag");
    let ls = sandbox.run(["ls", "latest", "-R"]).well();
    assert!(!ls.text().contains("/sub/"), "excluded: {}", ls.text());
}

/// Another profile, or another host, may use the same repository.
#[test]
fn rules_leave_snapshots_of_others_alone() {
    let sandbox = sandbox("[forget]\nkeep-last = 1");
    sandbox.run(["backup", "source", "--host", "other"]).well();
    sandbox.run(["backup", "source/sub"]).well();
    sandbox.run(["backup", "source/sub"]).well();
    for _ in 0..3 {
        sandbox.run(["run", "home"]).well();
    }
    assert_eq!(sandbox.json(["snapshots"]).len(), 4, "two of them were forgotten");
    // A source behind a link is recorded as it is named.
    symlink(sandbox.path("source"), sandbox.path("link")).expect("a link");
    let file = write_profile(&sandbox, "linked", "[forget]\nkeep-last = 1");
    let text = read(&file).replace("/source\"", "/link/\"");
    fs::write(&file, text).expect("written");
    for _ in 0..2 {
        sandbox.run(["run", "linked"]).well();
    }
    assert_eq!(sandbox.json(["snapshots"]).len(), 5, "one of them was forgotten");
}

/// A profile of more sources, and backups by hand, may have the sources of a profile, too.
#[test]
fn rules_leave_snapshots_of_more_sources_and_without_the_tags_alone() {
    let sandbox = sandbox("[backup]\ntag = [\"night\", \"home\"]\n[forget]\nkeep-last = 1");
    let all = sandbox.backup_of(&["source", "home"]);
    let by_hand = sandbox.backup_of(&["source", "--tag", "manual"]);
    let one_tag = sandbox.backup_of(&["source", "--tag", "night"]);
    for _ in 0..2 {
        sandbox.run(["run", "home"]).well();
    }
    let listed = sandbox.json(["snapshots"]);
    let ids: Vec<_> = listed.iter().filter_map(|event| event["id"].as_str()).collect();
    assert_eq!(ids.len(), 4, "one of two of the profile was forgotten: {ids:?}");
    assert_eq!(ids[..3], [&*all, &*by_hand, &*one_tag], "the others stay");
    // Without tags, the profile is the only user of its sources.
    write_profile(&sandbox, "home", "[forget]\nkeep-last = 1");
    sandbox.run(["run", "home"]).well();
    let listed = sandbox.json(["snapshots"]);
    let ids: Vec<_> = listed.iter().filter_map(|event| event["id"].as_str()).collect();
    assert_eq!((ids.len(), ids[0]), (2, &*all), "that of two sources stays: {ids:?}");
}

#[test]
fn dry_run_changes_nothing() {
    let hooks = "[hooks]\nbefore = \"touch @/hooked\"\non-failure = \"false\"";
    let sandbox = sandbox(&format!("metrics = \"@/m.prom\"\n{ALL}\n{hooks}"));
    sandbox.run(["backup", "source", "--tag", "night"]).well();
    sandbox.run(["backup", "source", "--tag", "night", "--force-read"]).well();
    let state = || {
        let names = |path: &str| {
            let listed = Command::new("find").arg(sandbox.path(path)).output().expect("find runs");
            String::from_utf8(listed.stdout).expect("UTF-8")
        };
        (names("repo"), names("home/.local"))
    };
    let before = state();
    let report = sandbox.path("r.json");
    let mut command = sandbox.command(["run", "home", "--dry-run", "--report"]);
    let dry = run(command.arg(&report));
    let texts = [
        "before: would execute: touch",
        "Dry run: nothing was stored",
        "Would forget 1 snapshot, keep 1",
        "Would check the repository and read data",
        "on-failure: would execute: false",
        "home: dry run: before planned, backup success",
    ];
    dry.ended(0, &texts);
    assert_eq!(state(), before, "nothing was written");
    for name in ["hooked", "m.prom", "r.json"] {
        assert!(!sandbox.path(name).exists(), "{name}");
    }
    let end = summary(&sandbox.run(["run", "home", "--dry-run", "--json"]).well());
    assert_eq!((&end["dry_run"], &end["snapshot"]), (&Value::Bool(true), &Value::Null), "{end}");
    assert_eq!(part(&end, "check")["state"], "planned", "{end}");
}

/// Before its first run, a profile has no snapshot in a repository that others use.
#[test]
fn dry_run_of_a_new_profile_has_no_warning() {
    let sandbox = sandbox("[backup]\ntag = \"night\"\n[forget]\ntag = \"night\"\nkeep-last = 1");
    write_profile(&sandbox, "own", "[forget]\nkeep-last = 1");
    fs::create_dir(sandbox.path("other")).expect("made");
    sandbox.backup("other");
    for name in ["home", "own"] {
        let dry = sandbox.run(["run", name, "--dry-run"]);
        assert!(!dry.stderr.contains("warning"), "{}", dry.stderr);
        dry.ended(0, &["Would forget 0 snapshots", "backup success, forget success"]);
    }
}

#[test]
fn hooks_get_variables_and_report() {
    let hooks = "[hooks]\n\
        before = [\"env > @/before\", \"echo said by a hook\"]\n\
        after = \"env > @/after; cat > @/after.json\"\n\
        on-failure = \"touch @/failed\"";
    let sandbox = sandbox(hooks);
    let mut command = bare(&sandbox, &["run", "home", "--json"]);
    let run = run(command.env("CUTPOINT_NEW_PASSPHRASE", "secret")).well();
    assert!(run.stderr.contains("said by a hook"), "output of hooks: {}", run.stderr);
    let end = summary(&run);
    let variables = |name: &str| -> BTreeMap<String, String> {
        let text = read(&sandbox.path(name));
        let pairs = text.lines().filter_map(|line| line.split_once('='));
        pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
    };
    let (before, after) = (variables("before"), variables("after"));
    assert_eq!(before["CUTPOINT_HOOK"], "before");
    assert_eq!(before["CUTPOINT_PROFILE"], "home");
    assert_eq!(before["CUTPOINT_REPO"], sandbox.path("repo").display().to_string());
    assert_eq!(end["run_id"], before["CUTPOINT_RUN_ID"], "one id");
    assert_eq!(before["CUTPOINT_RUN_ID"], after["CUTPOINT_RUN_ID"], "one id");
    assert!(!before.contains_key("CUTPOINT_NEW_PASSPHRASE"), "no secret is passed on");
    assert_eq!(after["CUTPOINT_EXIT_CODE"], "0");
    assert_eq!(end["snapshot"], after["CUTPOINT_SNAPSHOT"]);
    assert_eq!(after["CUTPOINT_SUMMARY"], "home: success: before success, backup success");
    let report: Value = serde_json::from_str(&read(&sandbox.path("after.json"))).expect("JSON");
    schema::validate(&report).expect("the report is an event");
    assert_eq!(report["snapshot"], end["snapshot"], "the report so far");
    assert!(!sandbox.path("failed").exists(), "nothing has failed");
}

#[test]
fn failing_before_stops_the_run() {
    let hooks = "[forget]\nkeep-last = 1\n[hooks]\nbefore = [\"exit 3\", \"touch @/second\"]\n\
        after = \"touch @/after\"\non-failure = \"echo $CUTPOINT_EXIT_CODE > @/failed\"";
    let sandbox = sandbox(hooks);
    let report = sandbox.path("report.json");
    let mut command = sandbox.command(["run", "home", "--report"]);
    let run = run(command.arg(&report));
    run.ended(2, &["hook before: failed (exit status: 3): exit 3", "backup skipped"]);
    assert_eq!(read(&sandbox.path("failed")), "2\n", "on-failure knows the exit code");
    assert!(!sandbox.path("second").exists() && !sandbox.path("after").exists(), "stopped");
    assert_eq!(sandbox.json(["snapshots"]).len(), 0, "nothing was saved");
    let report: Value = serde_json::from_str(&read(&report)).expect("JSON");
    schema::validate(&report).expect("the report is an event");
    assert_eq!(report["exit_code"], 2, "{report}");
    assert_eq!(part(&report, "forget")["state"], "skipped", "{report}");
}

#[test]
fn failed_backup_skips_forget_and_runs_after() {
    let hooks = "[forget]\nkeep-last = 1\n[hooks]\nafter = \"touch @/after\"\n\
        on-failure = \"echo $CUTPOINT_SUMMARY > @/failed\"";
    let sandbox = sandbox(hooks);
    fs::rename(sandbox.path("repo"), sandbox.path("gone")).expect("renamed");
    sandbox.run(["run", "home"]).ended(10, &["no repository found", "forget skipped"]);
    assert!(sandbox.path("after").exists(), "what `before` has done is undone");
    let failed = read(&sandbox.path("failed"));
    assert_eq!(failed, "home: failed: backup failed (10), forget skipped, after success\n");
}

#[test]
fn exit_code_is_the_worst_of_all_parts() {
    let hooks = "check = true\n[forget]\nkeep-last = 1\n[hooks]\nafter = \"false\"";
    let sandbox = sandbox(hooks);
    let file = write_profile(&sandbox, "partial", hooks);
    let text = read(&file).replace("/source\"", "/source\", \"/nonexistent\"");
    fs::write(&file, text.replace("after = \"false\"", "")).expect("written");
    let run = sandbox.run(["run", "partial", "--json"]);
    assert_eq!(run.code, Some(1), "a source is missing");
    let end = summary(&run);
    assert_eq!(part(&end, "backup")["exit_code"], 1, "{end}");
    assert_eq!(part(&end, "forget")["exit_code"], 0, "parts count their own problems: {end}");
    let messages = part(&end, "backup")["messages"].to_string();
    assert!(messages.contains("/nonexistent"), "{messages}");
    let end = summary(&sandbox.run(["run", "home", "--json"]).ended(2, &[]));
    assert_eq!(part(&end, "after")["exit_code"], 2, "{end}");
    assert_eq!(part(&end, "check")["exit_code"], 0, "{end}");
}

/// Returns the values of metrics by name, after a strict check of their form.
fn metrics(text: &str) -> BTreeMap<String, f64> {
    let mut values = BTreeMap::new();
    let mut lines = text.lines();
    assert!(text.ends_with('\n'), "the last line is complete");
    while let Some(help) = lines.next() {
        let (name, about) =
            help.strip_prefix("# HELP ").and_then(|it| it.split_once(' ')).expect("help first");
        assert!(!about.is_empty() && !about.contains('\\'), "{help}");
        let is_name = |byte: u8| byte.is_ascii_lowercase() || byte == b'_';
        assert!(name.starts_with("cutpoint_") && name.bytes().all(is_name), "{name}");
        assert_eq!(lines.next(), Some(&*format!("# TYPE {name} gauge")), "the type follows");
        let sample = lines.next().expect("a sample follows");
        let (labels, value) = sample.rsplit_once(' ').expect("a value");
        assert!(labels.starts_with(&format!("{name}{{profile=\"")), "{labels}");
        assert!(labels.ends_with("\"}"), "{labels}");
        let value: f64 = value.parse().expect("a number");
        assert!(values.insert(name.to_owned(), value).is_none(), "{name} occurs twice");
    }
    values
}

#[test]
fn metrics_survive_a_failed_run() {
    let sandbox = sandbox("metrics = \"@/home.prom\"\ncheck = true");
    let file = sandbox.path("home.prom");
    sandbox.run(["run", "home"]).well();
    assert_eq!(fs::metadata(&file).expect("there").mode() & 0o777, 0o644, "collectors read it");
    let first = metrics(&read(&file));
    let of = |values: &BTreeMap<String, f64>, name: &str| values[&format!("cutpoint_{name}")];
    assert_eq!(of(&first, "run_exit_code"), 0.0);
    assert!(of(&first, "backup_source_bytes") > 1e6, "{first:?}");
    assert!(of(&first, "backup_stored_bytes") > 0.0, "{first:?}");
    let success = of(&first, "run_last_success_timestamp_seconds");
    assert_eq!(success, of(&first, "run_timestamp_seconds"), "it has just succeeded");
    // What was never read is unread since its put.
    let since = of(&first, "oldest_unread_timestamp_seconds");
    assert!((since - success).abs() < 60.0, "{since} and {success}");
    assert!(of(&first, "oldest_unread_age_seconds") < 60.0, "{first:?}");
    fs::rename(sandbox.path("repo"), sandbox.path("gone")).expect("renamed");
    sandbox.run(["run", "home"]).ended(10, &[]);
    let second = metrics(&read(&file));
    assert_eq!(of(&second, "run_exit_code"), 10.0);
    assert!(of(&second, "run_timestamp_seconds") > success, "{second:?}");
    for name in ["run_last_success_timestamp_seconds", "run_last_backup_timestamp_seconds"] {
        assert_eq!(of(&second, name), success, "{name} stays");
    }
    assert_eq!(of(&second, "oldest_unread_timestamp_seconds"), since, "as last known");
    assert!(!second.contains_key("cutpoint_backup_source_bytes"), "nothing was saved: {second:?}");
}

#[test]
fn check_of_data_makes_its_age_small() {
    let sandbox = sandbox("metrics = \"@/home.prom\"");
    sandbox.run(["run", "home"]).well();
    let old = filetime_back(&sandbox.path("repo"));
    sandbox.run(["run", "home"]).well();
    let since =
        || metrics(&read(&sandbox.path("home.prom")))["cutpoint_oldest_unread_timestamp_seconds"];
    assert!((since() - old).abs() < 2.0, "{} and {old}", since());
    sandbox.run(["check", "--read-data"]).well();
    sandbox.run(["run", "home"]).well();
    assert!(since() > old + 1000.0, "everything was read a moment ago: {}", since());
}

/// Makes all files below `folder` ten days old. Returns their time, in seconds since 1970.
fn filetime_back(folder: &Path) -> f64 {
    let status = Command::new("find")
        .arg(folder)
        .args(["-type", "f", "-exec", "touch", "-d", "10 days ago", "{}", "+"])
        .status();
    assert!(status.is_ok_and(|status| status.success()), "the times are set");
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("now");
    now.as_secs_f64() - 10.0 * 86400.0
}

#[test]
fn metrics_file_of_another_profile_is_not_replaced() {
    let sandbox = sandbox("metrics = \"@/one.prom\"");
    write_profile(&sandbox, "work", "metrics = \"@/one.prom\"");
    sandbox.run(["run", "home"]).well();
    let before = read(&sandbox.path("one.prom"));
    sandbox.run(["run", "work"]).ended(1, &["has metrics of another profile or program"]);
    assert_eq!(read(&sandbox.path("one.prom")), before, "kept");
}

#[test]
fn report_is_written_for_a_broken_profile() {
    let sandbox = sandbox("kepp-daily = 7");
    let report = sandbox.path("report.json");
    let mut command = sandbox.command(["run", "home", "--report"]);
    let texts = ["home.toml: line 3: kepp-daily: unknown key", "unknown key"];
    run(command.arg(&report)).ended(2, &texts);
    let report: Value = serde_json::from_str(&read(&report)).expect("JSON");
    schema::validate(&report).expect("the report is an event");
    let messages = part(&report, "profile")["messages"].to_string();
    assert!(report["exit_code"] == 2 && messages.contains("kepp-daily"), "{report}");
}

#[test]
fn recent_backup_is_not_repeated() {
    let sandbox = sandbox("");
    let run = || sandbox.run(["run", "home", "--if-older-than", "20h", "--json"]).well();
    assert_eq!(summary(&run())["skipped"], false, "there is none");
    let second = summary(&run());
    assert_eq!(second["skipped"], true, "{second}");
    assert_eq!(sandbox.json(["snapshots"]).len(), 1, "one backup");
    let text = sandbox.run(["run", "home", "--if-older-than", "20h"]);
    text.ended(0, &["nothing to do: the last backup began at"]);
    std::thread::sleep(Duration::from_millis(1100));
    sandbox.run(["run", "home", "--if-older-than", "1s"]).well();
    assert_eq!(sandbox.json(["snapshots"]).len(), 2, "older than a second");
    // A run that has saved nothing does not count.
    fs::rename(sandbox.path("repo"), sandbox.path("gone")).expect("renamed");
    std::thread::sleep(Duration::from_millis(1100));
    sandbox.run(["run", "home", "--if-older-than", "1s"]).ended(10, &[]);
    fs::rename(sandbox.path("gone"), sandbox.path("repo")).expect("renamed");
    sandbox.run(["run", "home", "--if-older-than", "1s"]).well();
    assert_eq!(sandbox.json(["snapshots"]).len(), 3, "the failed run is repeated");
}

#[test]
fn runs_of_a_profile_do_not_overlap() {
    let sandbox = sandbox("[hooks]\nbefore = \"touch @/begun; sleep 30\"");
    let mut first = sandbox.command(["run", "home"]).spawn().expect("it starts");
    let limit = Instant::now() + Duration::from_secs(30);
    while !sandbox.path("begun").exists() && Instant::now() < limit {
        std::thread::sleep(Duration::from_millis(20));
    }
    sandbox.run(["run", "home"]).ended(15, &["another run of this profile is at work"]);
    sandbox.run(["run", "home", "--if-older-than", "1h"]).ended(0, &["nothing to do"]);
    write_profile(&sandbox, "work", "");
    sandbox.run(["run", "work"]).well();
    // A signal ends the hook and the run.
    let began = Instant::now();
    let id = first.id().to_string();
    Command::new("kill").arg(&id).status().expect("kill runs");
    let status = first.wait().expect("it ends");
    assert_eq!(status.code(), Some(130), "interrupted");
    assert!(began.elapsed() < Duration::from_secs(20), "the hook was ended, too");
}

#[test]
fn profiles_are_listed() {
    let sandbox = Sandbox::with_source();
    sandbox.run(["run"]).ended(0, &["No profiles in", "`cutpoint help profiles` shows one"]);
    write_profile(&sandbox, "home", "");
    write_profile(&sandbox, "work", "");
    sandbox.run(["run", "home"]).well();
    let list = sandbox.run(["run"]).well();
    let lines: Vec<_> = list.text().lines().map(str::to_owned).collect();
    let place = sandbox.path("repo").display().to_string();
    assert_eq!(lines.len(), 3, "{lines:?}");
    assert!(lines[1].starts_with("home ") && lines[1].ends_with(&place), "{}", lines[1]);
    assert!(lines[2].starts_with("work     never"), "{}", lines[2]);
    let events = sandbox.json(["run"]);
    assert_eq!(events[0]["profile"], "home");
    assert!(events[0]["last_success"].is_string() && events[1]["last_success"].is_null());
    write_profile(&sandbox, "broken", "x = 1");
    let list = sandbox.run(["run"]).ended(1, &["broken.toml: line 3: x: unknown key"]);
    assert_eq!(list.text().lines().count(), 3, "the others are listed");
    sandbox.run(["run", "hone"]).ended(2, &["no profile hone", "use home if that was meant"]);
    sandbox.run(["run", "--dry-run"]).ended(2, &["NAME"]);
}

#[test]
fn folder_of_profiles_is_chosen() {
    let sandbox = sandbox("");
    fs::create_dir(sandbox.path("xdg")).expect("a folder");
    fs::rename(sandbox.path("home/.config/cutpoint"), sandbox.path("xdg/cutpoint")).expect("moved");
    sandbox.run(["run", "home"]).ended(2, &["no profile home"]);
    let mut command = sandbox.command(["run", "home"]);
    run(command.env("XDG_CONFIG_HOME", sandbox.path("xdg"))).well();
    let mut command = sandbox.command(["run", "home"]);
    run(command.env("CUTPOINT_CONFIG", sandbox.path("xdg/cutpoint"))).well();
    sandbox.run(["run", "home", "--config", "xdg/cutpoint"]).well();
    let mut command = sandbox.command(["run", "home"]);
    command.env("CUTPOINT_CONFIG", "").env("XDG_CONFIG_HOME", sandbox.path("xdg"));
    run(&mut command).well();
    let mut command = bare(&sandbox, &["run", "home", "--config"]);
    run(command.arg(sandbox.path("xdg/cutpoint")).env_remove("HOME"))
        .ended(0, &["HOME is not set"]);
}

#[test]
fn options_that_the_profile_decides_are_refused() {
    let sandbox = sandbox("");
    sandbox.run(["run", "home", "--repo", "elsewhere"]).ended(2, &["--repo: cannot be used with"]);
    sandbox.run(["run", "home", "--key-file", "k"]).ended(2, &["--key-file: cannot be used with"]);
    let mut command = sandbox.command(["run", "home"]);
    run(command.env("CUTPOINT_REPO", "/elsewhere")).well();
}

#[test]
fn quiet_run_prints_only_problems() {
    let sandbox = sandbox("check = true\n[forget]\nkeep-last = 1\n[prune]");
    fs::remove_file(sandbox.path("source/pipe")).expect("removed");
    let quiet = run(&mut bare(&sandbox, &["run", "home", "--quiet"])).well();
    assert_eq!((quiet.text(), quiet.stderr.as_str()), ("", ""), "cron sends no mail");
}

#[test]
fn key_file_of_the_machine_is_made_and_used() {
    let sandbox = Sandbox::new();
    make_source(&sandbox.path("source"));
    let key = sandbox.path("home/.config/cutpoint/machine.key");
    let init = sandbox.run(["init", "--for-machine"]);
    let said = ["Created key file", "Keep a copy of it, or a recovery kit, away from this machine"];
    init.ended(0, &said);
    let about = fs::metadata(&key).expect("the file is there");
    assert_eq!(about.mode() & 0o777, 0o600, "for the owner alone");
    let folder = fs::metadata(key.parent().expect("a folder")).expect("there");
    assert_eq!(folder.mode() & 0o777, 0o700, "its folder");
    write_profile(&sandbox, "home", "key-file = \"~/.config/cutpoint/machine.key\"");
    run(&mut bare(&sandbox, &["run", "home"])).well();
    // The next repository has the same key.
    let before = read(&key);
    sandbox.run(["init", "--for-machine", "--repo", "second"]).ended(0, &["Created repository"]);
    assert_eq!(read(&key), before, "kept");
    sandbox
        .run(["init", "--for-machine", "--key-file", "k", "--repo", "third"])
        .ended(2, &["--for-machine: cannot be used with another secret"]);
    fs::write(sandbox.path("phrase"), "words").expect("written");
    let private = fs::Permissions::from_mode(0o600);
    fs::set_permissions(sandbox.path("phrase"), private).expect("set");
    let phrase = ["--passphrase-file", "phrase", "--repo", "fourth"];
    sandbox.run(["init"].iter().chain(&phrase)).well();
    let add = sandbox.run(["key", "add", "--for-machine"].iter().chain(&phrase));
    add.ended(0, &["Added key", "opens the repository without a question"]);
    let mut list = sandbox.command(["key", "list", "--repo", "fourth", "--key-file"]);
    run(list.arg(&key)).well();
}

#[test]
fn cron_lines_survive_spaces_and_percent_signs() {
    let sandbox = sandbox("");
    let folder = sandbox.path("it's 50% %h");
    fs::rename(sandbox.path("home/.config/cutpoint"), &folder).expect("moved");
    let mut command = sandbox.command(["schedule", "home", "--cron", "--at", "mon,thu 22:15"]);
    command.arg("--config").arg(&folder).env("XDG_STATE_HOME", sandbox.path("st ate"));
    let lines = run(&mut command).ended(0, &["crontab -e"]);
    let lines: Vec<_> = lines.text().lines().map(str::to_owned).collect();
    assert_eq!(lines.len(), 3, "{lines:?}");
    let home = sandbox.path("home").display().to_string();
    let begin = format!("15 22 * * 1,4 HOME={home} XDG_STATE_HOME='");
    assert!(lines[0].starts_with(&begin), "{}", lines[0]);
    assert!(lines[2].starts_with("45 * * * * ") && lines[2].ends_with("--if-older-than 97h"));
    // As cron reads a line: the fields, then the command, in which only \% is a percent sign.
    for (line, code) in [(&lines[0], 0), (&lines[2], 0)] {
        let command = line.splitn(6, ' ').nth(5).expect("a command");
        assert!(!command.replace("\\%", "").contains('%'), "{command}");
        let mut shell = Command::new("/bin/sh");
        shell.args(["-c", &command.replace("\\%", "%")]).env_clear().current_dir("/");
        // Cron knows the user, but not the HOME with which the schedule was made.
        shell.env("HOME", "/nonexistent").env("PATH", "/usr/bin:/bin");
        run(&mut shell).ended(code, &[]);
    }
    assert_eq!(sandbox.json(["snapshots"]).len(), 1, "the second line has nothing to do");
    let mut command = sandbox.command(["schedule", "home", "--cron", "--at", "Mon..Fri 12:00"]);
    command.arg("--config").arg(&folder);
    run(&mut command).ended(2, &["is an expression of systemd", "use a form such as"]);
}

#[test]
fn units_are_printed_or_written() {
    let sandbox = sandbox("");
    let printed = sandbox.run(["schedule", "home", "--systemd"]).ended(0, &["daemon-reload"]);
    let text = printed.text();
    for line in [
        "OnCalendar=*-*-* 02:30:00",
        "Persistent=true",
        "Type=oneshot",
        "Nice=10",
        "WantedBy=timers.target",
    ] {
        assert!(text.lines().any(|found| found == line), "{line}: {text}");
    }
    fs::create_dir(sandbox.path("units")).expect("a folder");
    let mut command = sandbox.command(["schedule", "home", "--systemd", "--to", "units"]);
    let written = run(command.args(["--at", "hourly :20"])).ended(0, &["Wrote units"]);
    assert_eq!(written.text(), "", "nothing is printed");
    let timer = read(&sandbox.path("units/cutpoint-home.timer"));
    assert!(timer.contains("OnCalendar=*-*-* *:20:00\n"), "{timer}");
    let service = read(&sandbox.path("units/cutpoint-home.service"));
    assert!(text.contains(&service), "the same service: {service}");
    let events = sandbox.json(["schedule", "home", "--systemd"]);
    assert_eq!(events[0]["files"][0]["text"], *service, "for programs");
    sandbox.run(["schedule", "home"]).ended(2, &[]);
    sandbox.run(["schedule", "none", "--cron"]).ended(2, &["no profile none"]);
    sandbox
        .run(["schedule", "home", "--systemd", "--at", "daily 25:00"])
        .ended(2, &["--at: \"daily 25:00\" is not a time"]);
    sandbox
        .run(["schedule", "home", "--systemd", "--to", "nowhere"])
        .ended(2, &["nowhere: the folder does not exist"]);
}

/// Returns the values of the recipes of the page whose line begins with `start`.
fn recipe(start: &str) -> String {
    let page =
        read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../book/src/reference/profiles.md"));
    let mut lines = page.lines().filter(|line| line.starts_with(start));
    let line = lines.next().unwrap_or_else(|| panic!("{start}: no such recipe"));
    line.to_owned()
}

#[test]
fn recipe_for_mail_sends_the_report() {
    let recipe = recipe("on-failure = '(echo ");
    let sandbox = sandbox("");
    fs::write(sandbox.path("sendmail"), "#!/bin/sh\ncat > ${0%/*}/mail\n").expect("written");
    let executable = fs::Permissions::from_mode(0o755);
    fs::set_permissions(sandbox.path("sendmail"), executable).expect("set");
    let stub = sandbox.path("sendmail").display().to_string();
    let recipe = recipe.replace("/usr/sbin/sendmail", &stub);
    write_profile(
        &sandbox,
        "home",
        &format!("[hooks]\nafter = \"false\"\n{}", recipe.replace('@', "AT")),
    );
    sandbox.run(["run", "home"]).ended(2, &["on-failure success"]);
    let mail = read(&sandbox.path("mail"));
    let (head, body) = mail.split_once("\n\n").expect("a body");
    let expected = "To: meATexample.org\nSubject: home: failed: backup success, after failed (2)";
    assert_eq!(head, expected);
    let report: Value = serde_json::from_str(body).expect("JSON");
    assert_eq!(report["exit_code"], 2, "{report}");
}

#[test]
fn recipe_for_a_web_hook_posts_the_report() {
    if Command::new("curl").arg("--version").output().is_err() {
        cutpoint_testing::skipped("curl is not installed: the recipe for web hooks was not tried");
        return;
    }
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}/backup", listener.local_addr().expect("an address"));
    let server = std::thread::spawn(move || {
        let (stream, _) = listener.accept().expect("a request");
        let mut reader = std::io::BufReader::new(stream);
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            std::io::BufRead::read_line(&mut reader, &mut head).expect("a line");
        }
        let of_length = |line: &str| {
            let (name, value) = line.split_once(": ")?;
            name.eq_ignore_ascii_case("content-length").then(|| value.parse().expect("a number"))
        };
        let mut body = vec![0; head.lines().find_map(of_length).expect("a length")];
        std::io::Read::read_exact(&mut reader, &mut body).expect("the body");
        let answer = b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n";
        std::io::Write::write_all(reader.get_mut(), answer).expect("answered");
        (head, body)
    });
    let recipe = recipe("after = 'curl ").replace("https://hooks.example.org/backup", &url);
    let sandbox = sandbox("");
    // The body is named by an @, which stands for the folder in profiles of these tests.
    let file = write_profile(&sandbox, "home", "[hooks]\n");
    fs::write(&file, read(&file) + &recipe).expect("written");
    sandbox.run(["run", "home"]).ended(0, &["after success"]);
    let (head, body) = server.join().expect("no panic");
    assert!(head.starts_with("POST /backup ") && head.contains("application/json"), "{head}");
    let report: Value = serde_json::from_slice(&body).expect("JSON");
    schema::validate(&report).expect("the report is an event");
    assert!(report["snapshot"].is_string(), "{report}");
}
