//! `key`: the keys of a repository, and the secrecy of its secrets.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use cutpoint_repository::crypto::{HEADER_LEN, Header};
use cutpoint_repository::repo::KDF_TRIALS_MAX;
use cutpoint_repository::{CipherSuite, ObjectName};
use serde_json::Value;

use crate::rollback::elsewhere;
use crate::sandbox::{Run, Sandbox, make_source, run};

const PASSPHRASE: &str = "correct horse battery";
const OTHER: &str = "staple of another colour";

/// Creates a repository that PASSPHRASE opens, with a snapshot in it.
fn start() -> Sandbox {
    let sandbox = Sandbox::new();
    make_source(&sandbox.path("source"));
    fs::write(sandbox.path("phrase"), PASSPHRASE).expect("written");
    fs::write(sandbox.path("other"), OTHER).expect("written");
    for name in ["phrase", "other"] {
        let private = fs::Permissions::from_mode(0o600);
        fs::set_permissions(sandbox.path(name), private).expect("set");
    }
    by_phrase(&sandbox, &["init"]).well();
    by_phrase(&sandbox, &["backup", "source"]).well();
    sandbox
}

fn by(sandbox: &Sandbox, file: &str, arguments: &[&str]) -> Run {
    let mut command = sandbox.command(arguments);
    run(command.args(["--passphrase-file", file]))
}

fn by_phrase(sandbox: &Sandbox, arguments: &[&str]) -> Run {
    by(sandbox, "phrase", arguments)
}

/// Returns the keys in the output for programs.
fn keys(sandbox: &Sandbox, file: &str) -> Vec<Value> {
    by(sandbox, file, &["key", "list", "--json"]).well().events()
}

fn shown(key: &Value) -> String {
    key["id"].as_str().expect("an id")[..8].to_owned()
}

#[test]
fn keys_are_listed_added_and_removed() {
    let sandbox = start();
    by_phrase(
        &sandbox,
        &["key", "add", "--new-passphrase-file", "other", "--label", "desk\x1b[2J"],
    )
    .ended(0, &["Added key", "opens the repository"]);
    by_phrase(&sandbox, &["key", "add", "--new-key-file", "made", "--label", "server"])
        .ended(0, &["Created key file made."]);
    let mode = fs::metadata(sandbox.path("made")).expect("the key file").permissions().mode();
    assert_eq!(mode & 0o777, 0o600, "for its owner only");

    let listed = keys(&sandbox, "phrase");
    let methods: Vec<&Value> = listed.iter().map(|key| &key["method"]).collect();
    assert_eq!(methods, ["passphrase", "passphrase", "key_file"], "in the order of their times");
    let used: Vec<&Value> = listed.iter().map(|key| &key["in_use"]).collect();
    assert_eq!(used, [true, false, false], "the first was used");
    assert!(listed.iter().all(|key| key["opens"] == true && key["copy_count"] == 2), "{listed:?}");
    let text = by(&sandbox, "other", &["key", "list"]).well();
    let lines: Vec<&str> = text.text().lines().collect();
    assert_eq!(lines.len(), 4, "a headline and three keys: {lines:?}");
    assert!(lines[2].contains("in use") && lines[2].ends_with("desk\\x1b[2J"), "{}", lines[2]);
    assert!(lines[3].contains("key file") && lines[3].ends_with("server"), "{}", lines[3]);

    // A key file that all users can read causes a warning.
    fs::set_permissions(sandbox.path("made"), fs::Permissions::from_mode(0o644)).expect("set");
    sandbox
        .run(["snapshots", "--key-file", "made"])
        .ended(0, &["warning: made: accessible to every user of this machine", "mode 0644"]);

    // Removal by the first digits. Neither the key in use nor the last key can be removed.
    let [first, second, third] = [0, 1, 2].map(|at| shown(&listed[at]));
    by_phrase(&sandbox, &["key", "remove", "abc"]).ended(2, &["at least 4 digits", "key list"]);
    let told =
        format!("cutpoint: --key-id: key {0}: not found\n  `cutpoint key list`", "0".repeat(32));
    by_phrase(&sandbox, &["snapshots", "--key-id", &"0".repeat(32)]).ended(12, &[&told]);
    let of_file = listed[2]["id"].as_str().expect("an id");
    by_phrase(&sandbox, &["snapshots", "--key-id", of_file]).ended(12, &["is not a passphrase"]);
    by_phrase(&sandbox, &["key", "remove", "zzzzzzzz"]).ended(2, &["key `zzzzzzzz`: not found"]);
    by_phrase(&sandbox, &["key", "remove", &first]).ended(2, &[": in use", "--force"]);
    by_phrase(&sandbox, &["key", "remove", &second])
        .ended(0, &["both copies", "still gives access to the present data", "key rotate"]);
    let id = listed[1]["id"].as_str().expect("an id");
    for copy in ["", ".copy"] {
        assert!(!sandbox.path(format!("repo/keys/{id}{copy}")).exists(), "gone");
    }
    by(&sandbox, "other", &["snapshots"]).ended(12, &["wrong passphrase"]);
    by_phrase(&sandbox, &["key", "remove", &first, "--force"]).well();
    by_phrase(&sandbox, &["snapshots"])
        .ended(12, &["no key of the repository is a passphrase", "--key-file FILE"]);
    sandbox
        .run(["key", "remove", &third, "--force", "--key-file", "made"])
        .ended(2, &["the last key that opens the repository"]);
    sandbox.run(["restore", "latest", "--to", "back", "--key-file", "made"]).well();
}

/// An attacker with write access to the storage plants keys that sort before the user's own, more
/// of them than are tried. A machine that has opened the repository before tries its last key
/// first.
#[test]
fn key_that_opened_last_time_is_tried_before_planted_ones() {
    let sandbox = start();
    let own = fs::read_dir(sandbox.path("repo/keys")).expect("it is read").next();
    let own = fs::read(own.expect("a key").expect("an entry").path()).expect("it is read");
    for number in 0..=u8::try_from(KDF_TRIALS_MAX).expect("it is small") {
        let id = [&[0; 15][..], &[number]].concat().try_into().expect("16 bytes");
        let name = ObjectName::Key { id, copy: false };
        let header = Header {
            kind: name.kind().code(),
            suite: CipherSuite::Aes256Gcm,
            epoch: 0,
            name: name.header_bytes(),
            salt: [1; 16],
            commitment: [2; 16],
        };
        let mut bytes = own.clone();
        bytes[..HEADER_LEN].copy_from_slice(&header.encode());
        // Argon2id with 8 KiB, one pass and one lane keeps the test fast.
        for (field, value) in [8_u32, 1, 1].into_iter().enumerate() {
            bytes[HEADER_LEN + 4 + 4 * field..][..4].copy_from_slice(&value.to_le_bytes());
        }
        fs::write(sandbox.path("repo").join(name.to_string()), bytes).expect("written");
    }
    by_phrase(&sandbox, &["snapshots"]).well();
    elsewhere(&sandbox, &["snapshots", "--passphrase-file", "phrase"])
        .ended(12, &["--key-id", "64 keys tried"]);
}

#[test]
fn passphrase_is_changed() {
    let sandbox = start();
    let mut command = sandbox.command(["key", "passwd", "--passphrase-file", "phrase"]);
    run(command.env("CUTPOINT_NEW_PASSPHRASE", OTHER))
        .ended(0, &["Replaced key", "which opens the repository", "until a new epoch"]);
    by_phrase(&sandbox, &["snapshots"]).ended(12, &[]);
    by(&sandbox, "other", &["snapshots"]).well();
    assert_eq!(keys(&sandbox, "other").len(), 1, "the old one is gone");
    by(&sandbox, "other", &["key", "passwd"]).ended(2, &["no secret given for the new key"]);
    let mut command = sandbox.command(["key", "passwd", "--passphrase-file", "other"]);
    command.args(["--new-passphrase-command", "exit 3"]);
    run(&mut command).ended(12, &["passphrase command "]);
    by(&sandbox, "other", &["snapshots"]).well();
}

#[test]
fn unencrypted_repository_has_no_keys_to_change() {
    let sandbox = Sandbox::with_repository();
    let list = sandbox.run(["key", "list"]).well();
    assert!(list.text().contains("nothing"), "{}", list.text());
    sandbox
        .run(["key", "add", "--new-key-file", "k"])
        .ended(2, &["only to an encrypted repository"]);
    sandbox.run(["key", "rotate"]).ended(2, &["requires an encrypted repository"]);
}

#[test]
fn recovery_kit_is_verified_and_used() {
    let sandbox = start();
    by_phrase(&sandbox, &["key", "add", "--new-recovery-kit", "kit", "--label", "in the safe"])
        .ended(0, &["Wrote recovery kit kit; a test confirmed that it opens the repository."]);
    let mode = fs::metadata(sandbox.path("kit")).expect("the kit").permissions().mode();
    assert_eq!(mode & 0o777, 0o600, "for its owner only");
    by_phrase(&sandbox, &["key", "add", "--new-recovery-kit", "kit"]).ended(2, &["exists already"]);
    let shown = by_phrase(&sandbox, &["key", "add", "--new-recovery-kit", "-"]).well();
    let kit = fs::read_to_string(sandbox.path("kit")).expect("the kit");
    assert_eq!(shown.text(), kit, "the same at standard output");
    by_phrase(&sandbox, &["key", "add", "--new-recovery-kit", "-", "--json"])
        .ended(2, &["cannot be combined with --json"]);

    let list = sandbox.run(["key", "list", "--key-file", "kit", "--json"]).well().events();
    let kits: Vec<&Value> = list.iter().filter(|key| key["method"] == "recovery_kit").collect();
    assert_eq!(kits.len(), 2, "two were made: {list:?}");
    assert!(kits.iter().any(|kit| kit["label"] == "in the safe"), "{kits:?}");
    assert!(kits.iter().all(|kit| kit["opens"] == true), "kits of the current epoch: {kits:?}");
    // The passphrase is lost. A new key is added, and the old one is removed.
    let mut command = sandbox.command(["key", "passwd", "--key-file", "kit"]);
    run(command.env("CUTPOINT_NEW_PASSPHRASE", OTHER)).ended(2, &["no key in use"]);
    let mut command = sandbox.command(["key", "add", "--key-file", "kit"]);
    run(command.env("CUTPOINT_NEW_PASSPHRASE", OTHER)).well();
    by(&sandbox, "other", &["snapshots"]).well();
    sandbox
        .run(["key", "rotate", "--key-file", "kit"])
        .ended(2, &["cannot be updated for a new epoch"]);
    sandbox
        .run(["key", "add", "--key-file", "kit", "--new-key-file", "kit"])
        .ended(2, &["kit: a recovery kit"]);

    // All of keys/ is lost, including the copies.
    fs::remove_dir_all(sandbox.path("repo/keys")).expect("the keys are lost");
    by(&sandbox, "other", &["snapshots"]).ended(12, &["recovery kit"]);
    sandbox.run(["snapshots", "--key-file", "kit"]).well();
}

#[test]
fn rotation_begins_an_epoch() {
    let sandbox = start();
    by_phrase(&sandbox, &["key", "add", "--new-passphrase-file", "other", "--label", "desk"])
        .well();
    by_phrase(&sandbox, &["key", "add", "--new-key-file", "made"]).well();
    by_phrase(&sandbox, &["key", "add", "--new-recovery-kit", "old kit"]).well();
    by_phrase(&sandbox, &["key", "rotate"])
        .ended(2, &["would no longer open the repository", "(desk)", "--remove-others"]);
    by_phrase(&sandbox, &["key", "rotate", "--keep-key-file", "made", "--new-recovery-kit", "k"])
        .ended(2, &["would no longer open the repository"]);
    assert!(!sandbox.path("k").exists(), "no kit of nothing");
    let rotate = ["key", "rotate", "--keep-key-file", "made", "--remove-others"];
    by_phrase(&sandbox, &[&rotate[..], &["--new-recovery-kit", "kit"]].concat())
        .ended(0, &["Epoch 2 has begun", "Wrote recovery kit kit;"]);
    by(&sandbox, "other", &["snapshots"]).ended(12, &["wrong passphrase"]);
    sandbox.run(["snapshots", "--key-file", "old kit"]).ended(
        12,
        &["is at key epoch 2 (expected at most 1, the newest epoch of this key)\n", "key add"],
    );
    sandbox.run(["snapshots", "--key-file", "kit"]).well();
    let saved = by_phrase(&sandbox, &["backup", "source", "--json"]).well().events();
    let summary = saved.last().expect("a summary");
    assert_eq!(summary["new_chunk_count"], 0, "duplicates are found: {summary}");
    assert!(
        summary["parent"].is_null(),
        "it compares with no snapshot of an older epoch: {summary}"
    );
    let listed = by_phrase(&sandbox, &["snapshots", "--json"]).well().events();
    for target in ["latest", listed[0]["id"].as_str().expect("the first one")] {
        sandbox.run(["restore", target, "--to", target, "--key-file", "made"]).well();
    }
    by_phrase(&sandbox, &["check", "--read-data"]).ended(0, &["No problems found"]);
    let rotated = by_phrase(&sandbox, &[&rotate[..], &["--json"]].concat()).well().events();
    let summary = rotated.last().expect("a summary");
    assert_eq!((&summary["command"], &summary["epoch"]), (&"key".into(), &3.into()), "{summary}");
}

/// Returns every form in which a secret of this repository could appear.
fn forms(sandbox: &Sandbox) -> Vec<(String, Vec<u8>)> {
    let mut forms = vec![
        ("the passphrase".to_owned(), PASSPHRASE.as_bytes().to_vec()),
        ("the other passphrase".to_owned(), OTHER.as_bytes().to_vec()),
    ];
    let mut add = |name: &str, hex: &str| {
        let bytes: Vec<u8> = (0..hex.len() / 2)
            .map(|at| u8::from_str_radix(&hex[2 * at..2 * at + 2], 16).expect("digits"))
            .collect();
        let numbers: Vec<String> = bytes.iter().map(u8::to_string).collect();
        let pairs: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        let groups: Vec<&str> = (0..hex.len() / 4).map(|at| &hex[4 * at..4 * at + 4]).collect();
        for (form, text) in [
            ("as digits", hex.to_owned()),
            ("as large digits", hex.to_uppercase()),
            ("as groups", groups[..4].join(" ")),
            ("as bytes in digits", pairs[..6].join(", ")),
            ("as numbers", numbers[..6].join(", ")),
        ] {
            forms.push((format!("{name}, {form}"), text.into_bytes()));
        }
        forms.push((format!("{name}, as it is"), bytes));
    };
    let file = fs::read_to_string(sandbox.path("made")).expect("the key file");
    add("the key file", file.trim().strip_prefix("cutpoint-key-v1 ").expect("its word"));
    let kit = fs::read_to_string(sandbox.path("kit")).expect("the kit");
    for line in kit.lines().filter(|line| line.starts_with("epoch ") && line.contains('=')) {
        let (digits, _) = line.split_once('=').expect("a checksum");
        let words: Vec<&str> = digits.split_whitespace().skip(2).collect();
        add(&format!("the kit's {}", &line[..9]), &words.concat());
    }
    assert_eq!(forms.len(), 2 + 6 * 5, "a key file and two halves of two secrets");
    forms
}

fn assert_silent(forms: &[(String, Vec<u8>)], about: &str, bytes: &[u8]) {
    for (name, form) in forms {
        let is_told = bytes.windows(form.len()).any(|window| window == form);
        assert!(!is_told, "{about} tells {name}");
    }
}

/// Runs all commands that open a repository, with maximum verbosity and with each kind of secret,
/// successfully and failing. Then searches everything that they have printed and left behind.
#[test]
fn secrets_are_never_printed() {
    let sandbox = start();
    by_phrase(&sandbox, &["key", "add", "--new-key-file", "made", "--label", "x"]).well();
    by_phrase(&sandbox, &["key", "add", "--new-recovery-kit", "kit"]).well();
    let forms = forms(&sandbox);
    let key = keys(&sandbox, "phrase")[0]["id"].as_str().expect("an id").to_owned();
    let object = format!("keys/{key}");
    let commands: [&[&str]; 15] = [
        &["snapshots"],
        &["backup", "source", "--force-read"],
        &["restore", "latest", "--to", "back", "--overwrite", "replace"],
        &["ls", "latest", "-R", "-l"],
        &["cat", "latest:/nowhere"],
        &["dump", "latest"],
        &["stats"],
        &["check", "--read-data"],
        &["config", "--compression-level", "2"],
        &["debug", "--list"],
        &["debug", &object],
        &["debug", "config/00000000000000000000"],
        &["key", "list"],
        &["key", "remove", "0000000000"],
        &["key", "rotate"],
    ];
    let secrets: [&[&str]; 6] = [
        &["--passphrase-file", "phrase"],
        &["--passphrase-command", "cat phrase"],
        &["--key-file", "made"],
        &["--key-file", "kit"],
        // Two secrets that open nothing.
        &["--passphrase-file", "other"],
        &["--key-file", "phrase"],
    ];
    let mut runs = 0;
    for (number, arguments) in commands.into_iter().enumerate() {
        // Each command runs with two of the secrets, and each secret with some of the commands.
        for secret in [secrets[number % 4], secrets[(number * 5 + 1) % 6]] {
            for loud in ["-vv", "--json"] {
                let mut command = sandbox.command(arguments);
                let run = run(command.args(secret).arg(loud));
                let about = format!("{arguments:?} {secret:?} {loud}");
                assert_silent(&forms, &about, &run.stdout);
                assert_silent(&forms, &about, run.stderr.as_bytes());
                runs += 1;
            }
        }
    }
    assert_eq!(runs, 60, "runs");
    // The files on the disk: the repository, the cache, and the remembered state.
    let mut files = 0;
    for folder in ["repo", "home"] {
        files += look_into(&sandbox.path(folder), &forms);
    }
    assert!(files > 20, "only {files} files were looked at");
    // The test would detect a secret.
    let told = forms.iter().find(|(name, _)| name.ends_with("as digits")).expect("a form");
    let caught = std::panic::catch_unwind(|| assert_silent(&forms, "x", &told.1));
    assert!(caught.is_err(), "a secret that is told is seen");
}

fn look_into(folder: &Path, forms: &[(String, Vec<u8>)]) -> usize {
    let mut files = 0;
    for entry in fs::read_dir(folder).expect("the folder is read") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            files += look_into(&path, forms);
        } else {
            let bytes = fs::read(&path).expect("the file is read");
            let about = String::from_utf8_lossy(path.as_os_str().as_bytes()).into_owned();
            assert_silent(forms, &about, &bytes);
            files += 1;
        }
    }
    files
}
