//! Help as a user asks for it. The tests of `args/help.rs` read every page at every width.

use crate::sandbox::Sandbox;

#[test]
fn topics_and_commands_have_pages() {
    let sandbox = Sandbox::new();
    let pages: [(&[&str], &str); 5] = [
        (&["help", "options"], "--verbose"),
        (&["help", "exit-codes"], "  130  interrupted"),
        (&["help", "tune"], "Usage: cutpoint-lab tune"),
        (&["run", "--help"], "Usage: cutpoint-lab run"),
        (&["--help"], "Your data:"),
    ];
    for (args, text) in pages {
        let help = sandbox.run(args.iter().copied()).well();
        assert!(help.text().contains(text), "{args:?}: {text:?} is missing");
    }
}

#[test]
fn unknown_topic_is_refused_with_code_2() {
    let sandbox = Sandbox::new();
    let told = ["help nothing: no such command or topic", "`cutpoint-lab --help`"];
    sandbox.run(["help", "nothing"]).ended(2, &told);
}
