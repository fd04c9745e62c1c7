//! Help as a user asks for it. `crates/cli/src/args/help/tests.rs` reads every page at every width.

use crate::sandbox::{Sandbox, run};

#[test]
fn topics_and_commands_have_pages() {
    let sandbox = Sandbox::new();
    let pages: [(&[&str], &str); 6] = [
        (&["help", "options"], "--passphrase-command <COMMAND>"),
        (&["help", "exit-codes"], "  130  interrupted"),
        (&["help", "secrets"], "CUTPOINT_PASSPHRASE"),
        (&["help", "key", "rotate"], "Usage: cutpoint key rotate"),
        (&["key", "rotate", "--help"], "Usage: cutpoint key rotate"),
        (&["--help"], "Every day:"),
    ];
    for (args, text) in pages {
        let help = sandbox.run(args.iter().copied()).well();
        assert!(help.text().contains(text), "{args:?}: {text:?} is missing");
    }
}

#[test]
fn unknown_topic_is_refused_with_code_2() {
    let sandbox = Sandbox::new();
    let told = ["help nothing: no such command or topic", "`cutpoint --help`"];
    sandbox.run(["help", "nothing"]).ended(2, &told);
}

#[test]
fn help_is_as_wide_as_the_columns_but_at_most_100() {
    let sandbox = Sandbox::new();
    for (columns, width_max) in [("60", 60), ("80", 80), ("200", 100)] {
        let help = run(sandbox.command(["forget", "--help"]).env("COLUMNS", columns)).well();
        let width = help.text().lines().map(str::len).max().unwrap_or_default();
        assert!((width_max - 9..=width_max).contains(&width), "{columns} columns: {width}");
    }
}

/// A script that uses the short form with one command can use it with all.
#[test]
fn short_options_of_dry_runs_and_confirmations_are_the_same_everywhere() {
    let sandbox = Sandbox::new();
    let help = sandbox.run(["help"]).well();
    let names = help.text().lines().filter_map(|line| line.strip_prefix("  ")?.split_once("  "));
    let mut short_count = 0;
    for (name, _) in names.filter(|(name, _)| name.bytes().all(|byte| byte.is_ascii_lowercase())) {
        // Topics have no options.
        let page = sandbox.run([name, "--help"]);
        for line in page.text().lines().map(str::trim) {
            assert!(!["--dry-run", "--yes"].contains(&line), "{name}: {line} has no short form");
            short_count += usize::from(["-n, --dry-run", "-y, --yes"].contains(&line));
        }
    }
    assert!(short_count > 8, "{short_count}");
}
