//! The sources of secrets, and what they open.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, SystemTime};

use crate::sandbox::{Sandbox, make_source, run};

#[test]
fn passphrase_comes_from_any_source() {
    let sandbox = Sandbox::new();
    fs::write(sandbox.path("phrase"), "correct horse\n").expect("written");
    fs::write(sandbox.path("wrong"), "correct horses\n").expect("written");
    fs::write(sandbox.path("nothing"), "\n").expect("written");
    run(sandbox.command(["init"]).env("CUTPOINT_PASSPHRASE", "correct horse")).well();
    sandbox.run(["snapshots", "--passphrase-file", "phrase"]).well();
    sandbox.run(["snapshots", "--passphrase-command", "printf 'correct horse\\r\\n'"]).well();
    sandbox
        .run(["snapshots", "--passphrase-file", "wrong"])
        .ended(12, &["wrong passphrase", "CUTPOINT_PASSPHRASE"]);
    sandbox.run(["snapshots"]).ended(12, &["encrypted: a passphrase or key file is required"]);
    sandbox
        .run(["snapshots", "--passphrase-file", "nothing"])
        .ended(12, &["nothing: empty passphrase"]);
    sandbox
        .run(["snapshots", "--passphrase-command", "exit 3"])
        .ended(12, &["cutpoint: passphrase command ", ": failed (exit status: 3)"]);
    sandbox
        .run(["snapshots", "--passphrase-file", "nowhere"])
        .ended(2, &["passphrase file nowhere: not found"]);
    sandbox
        .run(["snapshots", "--passphrase-file", "phrase", "--key-file", "phrase"])
        .ended(2, &["cannot be used with"]);
}

#[test]
fn key_file_is_created_and_used() {
    let sandbox = Sandbox::new();
    sandbox.run(["init", "--key-file", "key"]).well();
    let mode = fs::metadata(sandbox.path("key")).expect("the key file").permissions().mode();
    assert_eq!(mode & 0o777, 0o600, "for its owner only");
    let key = fs::read_to_string(sandbox.path("key")).expect("the key file");
    assert!(key.starts_with("cutpoint-key-v1 "), "the word: {key}");
    sandbox.run(["snapshots", "--key-file", "key"]).well();
    // The same key opens another repository, and the file stays unchanged.
    sandbox.run(["init", "--key-file", "key", "--repo", "other"]).well();
    assert_eq!(fs::read_to_string(sandbox.path("key")).expect("the key file"), key, "unchanged");
    sandbox.run(["init", "--key-file", "third", "--repo", "third repo"]).well();
    sandbox.run(["snapshots", "--key-file", "third"]).ended(12, &["wrong key file"]);
    fs::write(sandbox.path("junk"), "junk").expect("written");
    sandbox
        .run(["snapshots", "--key-file", "junk"])
        .ended(12, &["junk: neither a key file nor a recovery kit"]);
    fs::write(sandbox.path("short"), &key[..40]).expect("written");
    sandbox.run(["snapshots", "--key-file", "short"]).ended(12, &["short: damaged key file"]);
    // Only `init` creates key files.
    sandbox.run(["snapshots", "--key-file", "no"]).ended(2, &["key file no: not found"]);
    assert!(!sandbox.path("no").exists(), "nothing was made");
}

#[test]
fn recovery_kit_opens_its_repository() {
    let sandbox = Sandbox::new();
    make_source(&sandbox.path("source"));
    let init = sandbox.run(["init", "--key-file", "key", "--recovery-kit", "kit"]).well();
    assert!(init.stdout.is_empty(), "nothing into a pipe: {}", init.text());
    let mode = fs::metadata(sandbox.path("kit")).expect("the kit").permissions().mode();
    assert_eq!(mode & 0o777, 0o600, "for its owner only");
    sandbox.run(["backup", "source", "--key-file", "key"]).well();
    fs::remove_file(sandbox.path("key")).expect("the key is lost");
    sandbox.run(["restore", "latest", "--to", "back", "--key-file", "kit"]).well();

    // A kit typed by hand, with a mistake.
    let kit = fs::read_to_string(sandbox.path("kit")).expect("the kit");
    let lines: Vec<&str> = kit.lines().filter(|line| line.contains(" = ")).collect();
    assert_eq!(lines.len(), 5, "repository, two halves of two secrets: {kit}");
    let typed = format!("Cutpoint Recovery Kit v1\n{}\n", lines.join("\n").to_uppercase());
    fs::write(sandbox.path("typed"), &typed).expect("written");
    sandbox.run(["snapshots", "--key-file", "typed"]).well();
    let at = typed.rfind(" = ").expect("a checksum") - 1;
    let other = if &typed[at..=at] == "0" { "1" } else { "0" };
    let mut slip = typed.clone();
    slip.replace_range(at..=at, other);
    fs::write(sandbox.path("slip"), slip).expect("written");
    sandbox.run(["snapshots", "--key-file", "slip"]).ended(12, &["slip: line 6: wrong checksum"]);

    // The kit of another repository, and a kit as the key of a new one.
    sandbox.run(["init", "--key-file", "k", "--recovery-kit", "kit2", "--repo", "other"]).well();
    sandbox.run(["snapshots", "--key-file", "kit2"]).ended(12, &[]);
    sandbox
        .run(["init", "--key-file", "kit", "--repo", "new"])
        .ended(2, &["kit: a recovery kit", "cannot be the key of a new repository"]);
    assert!(!sandbox.path("new").exists(), "nothing was made");
}

#[test]
fn failed_init_overwrites_and_leaves_nothing() {
    let sandbox = Sandbox::new();
    fs::write(sandbox.path("kit"), "precious").expect("written");
    sandbox
        .run(["init", "--key-file", "key", "--recovery-kit", "kit"])
        .ended(2, &["recovery kit kit: exists already"]);
    assert!(fs::read(sandbox.path("kit")).is_ok_and(|b| b == b"precious"), "it stays");
    assert!(!sandbox.path("key").exists(), "no key of nothing");
    sandbox
        .run(["init", "--recovery-kit", "kit2"])
        .ended(12, &["no passphrase and no key given", "--encryption none"]);
    assert!(!sandbox.path("kit2").exists(), "no kit of nothing");
}

#[test]
fn encryption_and_secrets_must_agree() {
    let sandbox = Sandbox::with_repository();
    sandbox.run(["snapshots"]).well();
    let mut command = sandbox.command(["snapshots"]);
    run(command.env("CUTPOINT_PASSPHRASE", "x"))
        .ended(12, &["unencrypted repository (expected an encrypted one, because a secret was given)\n  use --encryption none"]);
    let mut command = sandbox.command(["snapshots", "--encryption", "none"]);
    run(command.env("CUTPOINT_PASSPHRASE", "x")).well();
    sandbox
        .run(["init", "--repo", "new", "--encryption", "none", "--key-file", "key"])
        .ended(2, &["cannot be combined"]);
    sandbox
        .run(["snapshots", "--encryption", "aes256-gcm"])
        .ended(12, &["the encryption of the repository is none"]);
}

#[test]
fn unencrypted_replacement_is_refused() {
    let sandbox = Sandbox::new();
    sandbox.run(["init", "--key-file", "key"]).well();
    fs::remove_dir_all(sandbox.path("repo")).expect("the repository is taken away");
    fs::create_dir(sandbox.path("fake home")).expect("made");
    // Another repository is put in its place.
    let mut command = sandbox.command(["init", "--encryption", "none"]);
    run(command.env("HOME", sandbox.path("fake home"))).well();
    sandbox.run(["snapshots"]).ended(12, &["not encrypted, but the previous repository", "remove"]);
}

#[test]
fn older_settings_are_refused() {
    let sandbox = Sandbox::with_repository();
    sandbox.run(["config", "--compression-level", "5"]).well();
    for copy in ["", ".copy"] {
        let name = format!("repo/config/00000000000000000001{copy}");
        fs::remove_file(sandbox.path(name)).expect("the newer settings go");
    }
    sandbox.run(["snapshots"]).ended(
        12,
        &[
            "older than at its last use",
            "Expected: settings 1",
            "Found: settings 0",
            "--accept-rollback",
        ],
    );
    sandbox.run(["snapshots", "--accept-rollback"]).ended(0, &["Found: settings 0"]);
    sandbox.run(["snapshots"]).well();
}

#[test]
fn missing_snapshot_is_reported() {
    let sandbox = Sandbox::with_source();
    let id = sandbox.backup("source");
    fs::remove_file(sandbox.path(format!("repo/commits/{id}"))).expect("the commit goes");
    let told = format!("snapshot {}", &id[..8]);
    sandbox.run(["snapshots"]).ended(12, &["the newest snapshot of 1 host is missing", &told]);
    sandbox.run(["backup", "source"]).ended(12, &[&told, "Found:", "no snapshot"]);
    sandbox.run(["backup", "source", "--accept-rollback"]).ended(0, &[&told]);
    sandbox.run(["snapshots"]).well();
}

/// Files that a killed process has left beside the state are removed once no process can still be
/// writing them.
#[test]
fn stale_staged_state_is_removed() {
    let sandbox = Sandbox::with_source();
    let folder = sandbox.path("home/.local/state/cutpoint");
    let file = fs::read_dir(&folder).expect("it lists").next().expect("one").expect("it lists");
    let leave = |end: &str, age_s: u64| {
        let path = file.path().with_extension(end);
        let left = fs::File::create(&path).expect("made");
        let at = SystemTime::now() - Duration::from_secs(age_s);
        left.set_modified(at).expect("set");
        path
    };
    let stale = leave("json.4000000", 2 * 86_400);
    let recent = leave("json.4000001", 3_600);
    let foreign = leave("json.kept", 2 * 86_400);
    sandbox.run(["backup", "source"]).well();
    assert!(!stale.exists(), "nobody can still be writing this");
    assert!(recent.exists(), "somebody may be");
    assert!(foreign.exists(), "this is nothing of ours");
    assert!(file.path().exists(), "the state itself");
}

#[test]
fn secret_file_open_to_others_causes_a_warning() {
    let sandbox = Sandbox::new();
    sandbox.run(["init", "--key-file", "key"]).ended(0, &[]);
    let warned = |mode: u32| {
        let permissions = fs::Permissions::from_mode(mode);
        fs::set_permissions(sandbox.path("key"), permissions).expect("permissions");
        sandbox.run(["snapshots", "--key-file", "key"]).well().stderr
    };
    for mode in [0o600, 0o400, 0o700] {
        assert!(!warned(mode).contains("warning: key"), "{mode:o} is for its owner only");
    }
    for (mode, to) in [
        (0o640, "key: accessible to the group (mode 0640, expected 0600 or less)"),
        (0o620, "accessible to the group (mode 0620"),
        (0o604, "accessible to every user of this machine (mode 0604"),
    ] {
        let stderr = warned(mode);
        assert!(stderr.contains(to) && stderr.contains("`chmod 600 key`"), "{mode:o}: {stderr}");
    }
    fs::write(sandbox.path("phrase"), "correct horse\n").expect("written");
    let permissions = fs::Permissions::from_mode(0o660);
    fs::set_permissions(sandbox.path("phrase"), permissions).expect("permissions");
    let init = ["init", "--repo", "other", "--passphrase-file", "phrase"];
    sandbox.run(init).ended(0, &["phrase: accessible to the group (mode 0660"]);
}

/// The chunks of a repository like another one are comparable, and neither key opens the other.
#[test]
fn init_like_another_repository_shares_settings_and_no_key() {
    let sandbox = Sandbox::new();
    let cut = "fastcdc:avg=16k";
    sandbox.run(["init", "--key-file", "key1", "--cut", cut, "--region-size", "512k"]).well();
    let like = |more: &[&str]| {
        let words = ["init", "--repo", "repo2", "--key-file", "key2", "--like", "repo"];
        sandbox.run(words.iter().chain(more))
    };
    let not_made = || assert!(!sandbox.path("repo2").exists(), "nothing was made");
    like(&[]).ended(12, &["--like"]);
    sandbox
        .run(["init", "--repo", "repo2", "--encryption", "none", "--like", "nowhere"])
        .ended(10, &["nowhere: no repository found", "check --like"]);
    like(&["--like-key-file", "absent"]).ended(2, &["absent"]);
    like(&["--like-key-file", "key1", "--cut", cut]).ended(2, &["--cut"]);
    not_made();
    let encrypted = ["init", "--encryption", "none", "--repo", "repo2", "--like", "repo"];
    sandbox
        .run(encrypted.iter().chain(&["--like-key-file", "key1"]))
        .ended(2, &["either both repositories are encrypted, or neither is"]);
    not_made();
    like(&["--like-key-file", "key1", "--region-size", "1M"]).well();
    let setting = |name: &str, repo: &str, key: &str| {
        let settings = sandbox.json(["config", "--repo", repo, "--key-file", key]);
        let found = settings.iter().find(|setting| setting["name"] == name);
        found.unwrap_or_else(|| panic!("{settings:?}"))["value"].clone()
    };
    let both = |name| (setting(name, "repo", "key1"), setting(name, "repo2", "key2"));
    let (first, second) = both("cut");
    assert_eq!(first, second);
    assert_eq!(both("region_size_bytes"), ((512 << 10).into(), (1 << 20).into()));
    for (repo, key) in [("repo", "key2"), ("repo2", "key1")] {
        sandbox.run(["snapshots", "--repo", repo, "--key-file", key]).ended(12, &[]);
    }
    // The recovery kit of such a repository has all its secrets.
    sandbox
        .run(["key", "add", "--repo", "repo2", "--key-file", "key2", "--new-recovery-kit", "kit2"])
        .well();
    sandbox.run(["snapshots", "--repo", "repo2", "--key-file", "kit2"]).well();
}
