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
