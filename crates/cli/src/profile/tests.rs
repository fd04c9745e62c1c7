//! The keys of profiles, their documentation, and the messages about wrong ones.

use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use clap::CommandFactory;

use super::keys::{KEYS, Kind};
use super::settings::{argument, is_switch};
use super::*;

/// The options of `backup`, `forget`, `prune` and `check` that a profile does not have: others of
/// its keys decide them, or a run without a user has no use for them.
const LEFT_OUT: [(&str, &[&str]); 3] = [
    (
        "backup",
        &[
            "changed-blocks",
            "dry-run",
            "files-from",
            "files-from0",
            "init",
            "parent",
            "recovery-kit",
            "stdin",
            "stdin-filename",
            "stdin-from-command",
            "stdin-tar",
        ],
    ),
    ("forget", &["allow-empty", "dry-run", "exclusive", "last", "undo", "yes"]),
    ("prune", &["dry-run", "exclusive", "yes"]),
];

/// The meanings of the keys that are no options.
const MEANINGS: [(&str, &str); 7] = [
    ("sources", "Files and folders to save"),
    (
        "check",
        "Check the repository after each backup: `true`, or the part of the data to read: `\"5%\"`, `\"10GiB\"`, `\"all\"`",
    ),
    ("report", "File for the report of each run, as `--report`"),
    ("metrics", "File for the metrics of the last run, as `--metrics`"),
    ("before", "Commands to execute first. If one fails, nothing is saved"),
    ("after", "Commands to execute at the end, unless `before` has failed"),
    ("on-failure", "Commands to execute last if the exit code is not 0"),
];

/// Returns the table of all keys for the documentation.
fn reference() -> String {
    let layout = Args::command();
    let mut text = String::new();
    let mut table = "none";
    for key in &KEYS {
        if key.table != table {
            table = key.table;
            let title = match table {
                "" => "In front of all tables:".to_owned(),
                table => format!("In `[{table}]`:"),
            };
            write!(text, "\n{title}\n\n| key | value | meaning |\n| --- | --- | --- |\n").ok();
        }
        let argument = argument(key, &layout);
        let own = MEANINGS.iter().find(|(name, _)| *name == key.name);
        let meaning = match (own, argument) {
            (Some((_, meaning)), _) => (*meaning).to_owned(),
            (None, Some(argument)) => argument.get_help().expect("a help text").to_string(),
            (None, None) => panic!("{} has no meaning", key.name),
        };
        let is_list = argument.is_some_and(|it| matches!(it.get_action(), clap::ArgAction::Append));
        let value = match key.kind {
            _ if argument.is_some_and(is_switch) => "`true` or `false`",
            Kind::Commands => "command, or list",
            Kind::Portion => "part, or `true`",
            Kind::OwnPath if key.name == "sources" => "path, or list",
            Kind::Path if is_list => "path, or list",
            Kind::Path | Kind::OwnPath => "path",
            Kind::Place => "place",
            Kind::Pattern => "pattern, or list",
            Kind::Plain if is_list => "text, or list",
            Kind::Plain => "text or number",
        };
        let meaning = meaning.replace("; repeatable", "").replace('|', "\\|");
        writeln!(text, "| `{}` | {value} | {meaning} |", key.name).ok();
    }
    text
}

#[test]
fn page_of_profiles_lists_every_key() {
    const BEGIN: &str = "<!-- keys: written by the test of the profiles -->\n";
    const END: &str = "\n<!-- end of keys -->";
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../book/src/reference/profiles.md");
    let page = fs::read_to_string(&path).expect("the page is there");
    let (head, rest) = page.split_once(BEGIN).expect("the begin of the keys");
    let (listed, tail) = rest.split_once(END).expect("the end of the keys");
    let expected = reference();
    if std::env::var_os("CUTPOINT_WRITE_GUIDE").is_some() {
        fs::write(&path, format!("{head}{BEGIN}{expected}{END}{tail}")).expect("written");
    } else {
        assert_eq!(listed, expected, "CUTPOINT_WRITE_GUIDE=1 writes the page");
    }
}

#[test]
fn every_option_is_a_key_or_left_out() {
    let layout = Args::command();
    for (table, left_out) in LEFT_OUT {
        let command = layout.find_subcommand(table).expect("a command");
        for option in command.get_arguments().filter_map(clap::Arg::get_long) {
            let is_key = keys::find(table, option).is_some();
            assert_ne!(is_key, left_out.contains(&option), "[{table}] {option}");
        }
    }
    for key in KEYS.iter().filter(|key| key.is_option()) {
        assert!(argument(key, &layout).is_some(), "{} is an option of {:?}", key.name, key.table);
    }
}

/// Loads a profile of this text.
fn load(text: &str) -> Result<Profile> {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("home.toml");
    fs::write(&file, text).expect("written");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).expect("set");
    Profile::load("home", folder.path())
}

/// Returns the message about the text of a profile, and its remedy.
#[track_caller]
fn refused(text: &str) -> (String, String) {
    let error = load(text).expect_err("the profile is wrong");
    let failure: &Failure = error.downcast_ref().expect("a failure");
    let message = failure.to_string();
    let message = message.split_once("home.toml: ").map_or(&*message, |(_, rest)| rest);
    (message.to_owned(), failure.remedy().unwrap_or_default().to_owned())
}

const START: &str = "repository = \"/r\"\nsources = [\"/s\"]\n";

#[test]
fn unknown_key_is_refused_with_line_and_nearest_key() {
    let (message, remedy) = refused(&format!("{START}\n[backup]\nexlude = [\"*.iso\"]\n"));
    assert_eq!(message, "line 5: [backup] exlude: unknown key");
    assert!(remedy.starts_with("use exclude if that was meant"), "{remedy}");
    let (message, remedy) = refused("repositry = \"/r\"\n");
    assert_eq!(message, "line 1: repositry: unknown key");
    assert!(remedy.starts_with("use repository if"), "{remedy}");
    let (_, remedy) = refused(&format!("{START}exclude = []\n"));
    assert_eq!(remedy, "exclude stands in the table [backup]");
    let (_, remedy) = refused(&format!("{START}[backups]\nexclude = []\n"));
    assert!(remedy.starts_with("use backup if"), "{remedy}");
    let (message, remedy) = refused(&format!("{START}passphrase = \"open\"\n"));
    assert_eq!(message, "line 3: passphrase: unknown key");
    assert!(remedy.contains("a profile holds no secret"), "{remedy}");
}

#[test]
fn wrong_value_is_refused_with_line() {
    for (line, message) in [
        ("check = \"a bit\"", "line 3: check: "),
        ("check = 5", "line 3: check: 5 is a number (expected a string)"),
        ("key-file = \"k\"", "line 3: key-file: \"k\" is relative (expected an absolute path"),
        ("[backup]\nexclude-caches = \"yes\"", "line 4: exclude-caches: \"yes\" is a string"),
        ("[backup]\nexclude-larger-than = \"big\"", "line 4: exclude-larger-than: "),
        ("[backup]\nhost = [\"a\"]", "line 4: host: a list is not expected"),
        ("[forget]\nkeep-daily = 0", "line 4: keep-daily: 0 is out of range"),
        ("[forget]\nkeep-within = \"soon\"", "line 4: keep-within: "),
        ("[prune]\nunused-max = \"5\"", "line 4: unused-max: "),
        ("[forget]\n", "[forget] has no rule"),
        ("key-file = \"/k\"\npassphrase-file = \"/p\"", "line "),
        ("sources = [\"/t\"]", "line 3: not valid TOML: duplicate key"),
        ("check = 5%", "line 3: not valid TOML: "),
    ] {
        let (found, remedy) = refused(&format!("{START}{line}\n"));
        assert!(found.starts_with(message), "{line}: {found}");
        assert!(!remedy.is_empty(), "{line}: {found}");
    }
    assert_eq!(refused("sources = [\"/s\"]").0, "repository: missing or empty");
    assert_eq!(refused("repository = \"/r\"\nsources = []").0, "sources: missing or empty");
}

/// Returns the arguments of the part that `choose` accepts.
fn part<'a, T>(profile: &'a Profile, choose: impl Fn(&'a Command) -> Option<T>) -> T {
    profile.parts.iter().find_map(|part| choose(&part.command)).expect("the part is there")
}

#[test]
fn keys_become_options() {
    let text = format!(
        "{START}check = \"5%\"\nno-cache = true\n[backup]\nexclude = [\"*.iso\", \"-x\"]\n\
         exclude-caches = true\ngit-ignore = false\ntag = \"night\"\nthreads = 2\n\
         [forget]\nkeep-daily = 7\nkeep-tag = [\"a\", \"b\"]\ngroup-by = [\"host\", \"paths\"]\n\
         [prune]\nsettle = \"1h\"\n[hooks]\nbefore = \"true\"\n"
    );
    let profile = load(&text).expect("a profile");
    let names: Vec<_> = profile.parts.iter().map(|part| part.global.no_cache).collect();
    assert_eq!(names, [true; 4], "common options are those of every part");
    let backup = part(&profile, |command| match command {
        Command::Backup(backup) => Some(backup),
        _ => None,
    });
    assert_eq!(backup.exclusion.exclude, ["*.iso", "-x"], "a list");
    assert_eq!((backup.exclusion.exclude_caches, backup.exclusion.git_ignore), (true, false));
    assert_eq!((backup.tags.as_slice(), backup.threads.count()), (&["night".to_owned()][..], 2));
    let forget = part(&profile, |command| match command {
        Command::Forget(forget) => Some(forget),
        _ => None,
    });
    assert_eq!(forget.keep.policy().tags, ["a", "b"], "rules");
    assert_eq!(forget.group_by.len(), 2, "a list with commas on the command line");
    let own = BackupOptions::default().host;
    assert_eq!(forget.selection.host.as_deref(), Some(&*own), "the snapshots of this host");
    assert_eq!(forget.selection.paths, [Path::new("/s")], "with these sources");
    let text = format!("{START}[forget]\nkeep-last = 1\ntag = \"x\"\n");
    let profile = load(&text).expect("a profile");
    let forget = part(&profile, |command| match command {
        Command::Forget(forget) => Some(forget),
        _ => None,
    });
    let selection = &forget.selection;
    assert!(selection.host.is_none() && selection.paths.is_empty(), "as the profile says");
    assert_eq!(profile.parts.len(), 2, "neither prune nor check");
}

#[test]
fn profile_that_others_can_write_to_is_refused() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("home.toml");
    fs::write(&file, START).expect("written");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o664)).expect("set");
    let error = Profile::load("home", folder.path()).expect_err("the group can write");
    assert!(error.to_string().contains("other users can write to it (mode 0664)"), "{error}");
    let error = Profile::load("../home", folder.path()).expect_err("a path");
    assert!(error.to_string().contains("is not the name of a profile"), "{error}");
}
