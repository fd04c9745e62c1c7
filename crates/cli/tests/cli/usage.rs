//! Wrong arguments are reported in the form of every other failure.

use std::fs::{self, File};

use crate::sandbox::{Sandbox, run};

/// A number of threads that the system cannot start ended the process by a signal.
#[test]
fn number_of_threads_out_of_range_is_refused() {
    let sandbox = Sandbox::with_source();
    let told = ["cutpoint: --threads: 100000 is out of range (expected 1 to 1024)\n", "--help"];
    let commands: [&[&str]; 7] = [
        &["backup", "source"],
        &["restore", "latest", "--to", "back"],
        &["check", "--read-data"],
        &["repair", "objects"],
        &["repair", "data"],
        &["repair", "snapshots"],
        &["estimate", "source"],
    ];
    for command in commands {
        sandbox.run(command.iter().chain(&["--threads", "100000"])).ended(2, &told);
    }
    let told = ["--threads: 100000 is out of range (expected 0 to 1024)"];
    sandbox.run(["cut", "source/big", "--threads", "100000"]).ended(2, &told);
    for threads in ["1", "1024"] {
        sandbox.run(["backup", "source", "--threads", threads]).well();
        sandbox.run(["check", "--read-data", "--threads", threads]).well();
        sandbox.run(["restore", "latest", "--to", threads, "--threads", threads]).well();
        sandbox.run(["estimate", "source", "--threads", threads]).well();
    }
}

#[test]
fn wrong_arguments_are_reported_like_other_failures() {
    let sandbox = Sandbox::new();
    let cases: [(&[&str], &str); 16] = [
        (&["frobnicate"], "frobnicate: unknown command\n"),
        (&["backup"], "<PATH>...: missing\n"),
        (&["key", "remove"], "<KEY>: missing\n"),
        (&["schedule", "home"], "--systemd or --cron: missing\n"),
        (&["restore", "latest"], "--to <TARGET>: missing\n"),
        (&["ls", "latest", "--recursiv"], "--recursiv: unknown option\n  use --recursive if"),
        (&["doctor", "x"], "x: unexpected argument\n"),
        (&["prune", "-n", "--wait"], "--dry-run: cannot be used with --wait\n"),
        (&["config", "--mode", "x"], "--mode: unknown value \"x\" (expected fast, default, max or"),
        (&["forget", "--keep-last", "-1"], "--keep-last: -1 is out of range (expected a number"),
        (&["check", "--kdf-limit", "0"], "--kdf-limit: 0 is out of range (expected 1 to 64)\n"),
        (&["check", "--key-id", "0"], "--key-id: \"0\" is not the ID of a key (expected 32"),
        (&["init", "--region-size", "8M"], "--region-size: 8 MiB is out of range (expected 16 KiB"),
        (&["init", "--parity", "200%"], "--parity: 200% is out of range (expected 0% to 100%)\n"),
        (&["optimize", "--compression-level", "x"], "\"x\" is not a whole number (expected 1 to"),
        (
            &["estimate", ".", "--sample", "--sample-seed", "-1"],
            "--sample-seed: -1 is out of range",
        ),
    ];
    for (arguments, told) in cases {
        let ended = sandbox.run(arguments).ended(2, &[told, "--help` explains the arguments"]);
        assert!(ended.stderr.starts_with("cutpoint: "), "{arguments:?}: {}", ended.stderr);
        let events = sandbox.run(arguments.iter().chain(&["--json"])).ended(2, &[told]).events();
        assert_eq!(events.len(), 1, "{arguments:?}: one event");
        assert_eq!(events[0]["type"], "error", "{arguments:?}");
        assert_eq!(events[0]["exit_code"], 2, "{arguments:?}");
    }
    let none = sandbox.run(["--json"]).ended(2, &["cutpoint: no command given\n"]);
    assert_eq!(none.events()[0]["message"], "no command given");
    let script = sandbox.run(["completions", "bash", "--json"]);
    assert_eq!(script.ended(2, &["has no --json"]).events().len(), 1, "no script");
}

/// Such a pattern was accepted, and excluded nothing.
#[test]
fn invalid_pattern_is_refused_with_its_place() {
    let sandbox = Sandbox::with_source();
    let help = "\n  `cutpoint help patterns` explains the patterns\n";
    for (pattern, problem) in [
        ("[a", "character class without ]"),
        ("a[", "character class without ]"),
        ("**/[b", "character class without ]"),
        ("\\", "\\ without a character after it"),
        ("[z-a]", "invalid range"),
    ] {
        for command in ["backup", "estimate"] {
            let told = format!("cutpoint: --exclude: pattern {pattern}: {problem}");
            sandbox.run([command, "source", "--exclude", pattern]).ended(2, &[&told, help]);
            fs::write(sandbox.path("patterns"), format!("# a comment\n{pattern}\n")).expect("made");
            let told =
                format!("cutpoint: exclude file patterns: line 2: pattern {pattern}: {problem}");
            sandbox.run([command, "source", "--exclude-file", "patterns"]).ended(2, &[&told, help]);
        }
    }
    sandbox.run(["backup", "source", "--exclude", "\\[x", "--exclude", "[ab]*"]).well();
}

#[test]
fn full_standard_output_is_reported_for_help_too() {
    let Ok(full) = File::options().write(true).open("/dev/full") else {
        return cutpoint_testing::skipped("there is no /dev/full");
    };
    let sandbox = Sandbox::new();
    for arguments in [&["--version"][..], &["--help"], &["backup", "-h"]] {
        let mut command = sandbox.command(arguments);
        command.stdout(full.try_clone().expect("a second handle"));
        let output = command.stderr(std::process::Stdio::piped()).spawn().expect("it starts");
        let output = output.wait_with_output().expect("it ends");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(14), "{arguments:?}: {said}");
        assert!(said.starts_with("cutpoint: standard output: "), "{arguments:?}: {said}");
    }
    run(&mut sandbox.command(["--version"])).well();
}

#[test]
fn backup_refuses_empty_tags_and_hosts() {
    let sandbox = Sandbox::with_source();
    sandbox.run(["backup", "source", "--tag", ""]).ended(2, &["a tag cannot be empty\n  omit"]);
    sandbox.run(["backup", "source", "--host", ""]).ended(2, &["--host: the name cannot be empty"]);
    sandbox.run(["backup", "source", "--tag", "b", "--tag", "a", "--tag", "b"]).well();
    let listed = sandbox.json(["snapshots"]);
    assert_eq!(listed.len(), 1, "one backup");
    assert_eq!(listed[0]["tags"], serde_json::json!(["b", "a"]), "each tag once");
}

/// The sandbox lies in folders that are no source. Nothing is recorded of them but their names.
#[test]
fn folders_above_the_sources_have_no_time() {
    let sandbox = Sandbox::with_source();
    sandbox.backup("source");
    let listed = sandbox.json(["ls", "latest", "-R"]);
    let source = sandbox.path("source");
    for entry in &listed {
        let path = entry["path"].as_str().expect("a path");
        let is_above = source.starts_with(path) && source.to_str() != Some(path);
        assert_eq!(entry["modified"].is_null(), is_above, "{entry}");
    }
    let text = sandbox.run(["ls", "latest", "-l"]).well();
    assert!(!text.text().contains("1970") && text.text().contains(" - "), "{}", text.text());
}

/// The data is read only if the page can be written.
#[test]
fn page_that_cannot_be_written_ends_the_estimate_at_its_beginning() {
    let sandbox = Sandbox::with_source();
    let run = sandbox.run(["estimate", "source", "-v", "--html", "nowhere/page"]);
    let run = run.ended(2, &["nowhere/page: "]);
    assert!(run.text().is_empty() && !run.stderr.contains("reading"), "{}", run.stderr);
    fs::write(sandbox.path("page"), "a longer page".repeat(10_000)).expect("written");
    sandbox.run(["estimate", "source", "--html", "page"]).well();
    let page = fs::read_to_string(sandbox.path("page")).expect("a page");
    assert!(page.ends_with("</html>\n"), "nothing of the old page is left");
    fs::create_dir(sandbox.path("none")).expect("made");
    sandbox.run(["estimate", "none", "--html", "new"]).ended(2, &["no data found in 0 files"]);
    assert!(!sandbox.path("new").exists(), "no page, no file");
}
