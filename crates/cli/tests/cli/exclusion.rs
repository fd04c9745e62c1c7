//! The options of `backup` that leave files out or name them, and their agreement with `diff`.

use std::fs;
use std::path::Path;
use std::time::Duration;

use crate::sandbox::{Run, Sandbox, run, run_with_input};

/// Creates a sandbox with a repository and these files below `source`, each with its content.
fn sandbox(files: &[(&str, &str)]) -> Sandbox {
    let sandbox = Sandbox::with_repository();
    for (name, content) in files {
        write(&sandbox, name, content);
    }
    sandbox
}

fn write(sandbox: &Sandbox, name: &str, content: &str) {
    let path = sandbox.path("source").join(name);
    fs::create_dir_all(path.parent().expect("a folder")).expect("made");
    fs::write(path, content).expect("written");
}

/// Runs `backup source` with `options`.
fn backup(sandbox: &Sandbox, options: &[&str]) -> Run {
    sandbox.run([&["backup", "source"], options].concat())
}

/// Returns the paths of the newest snapshot below `source`; those of folders end with a slash.
fn saved(sandbox: &Sandbox) -> Vec<String> {
    let source = sandbox.path("source");
    let place = format!("latest:{}", source.display());
    let run = sandbox.run(["ls", &place, "-R"]).well();
    let above = format!("{}/", source.display());
    let below = |line: &str| {
        let line = line.trim_start_matches('/');
        line.strip_prefix(above.trim_start_matches('/')).map(str::to_owned)
    };
    run.text().lines().filter_map(below).collect()
}

/// A backup of everything, then one with `options` that saves `expected`. `diff` with the same
/// options finds nothing, neither against the first snapshot nor against the second.
#[track_caller]
fn saves(sandbox: &Sandbox, options: &[&str], expected: &[&str]) {
    backup(sandbox, &["--no-ignore-files"]).well();
    backup(sandbox, options).well();
    assert_eq!(saved(sandbox), expected, "{options:?}");
    for old in ["latest~1", "latest"] {
        let run = sandbox.run([&["diff", old, "./source"], options].concat()).well();
        assert_eq!(run.text(), "", "{old} {options:?}");
    }
}

#[test]
fn each_option_leaves_out_what_it_says() {
    let sandbox = sandbox(&[
        ("A.TMP", "1"),
        ("b.tmp", "22"),
        ("c", "333"),
        ("marked/.nobackup", ""),
        ("marked/deep/x", "4"),
        ("marked/y", "4"),
        ("other/.nobackup", "keep this"),
        ("other/z", "5"),
    ]);
    let all = ["A.TMP", "b.tmp", "c", "marked/", "marked/.nobackup", "marked/deep/"];
    let all = [&all[..], &["marked/deep/x", "marked/y", "other/", "other/.nobackup", "other/z"]];
    let all = all.concat();
    let without = |names: &[&str]| -> Vec<&str> {
        all.iter().filter(|name| !names.contains(name)).copied().collect()
    };
    saves(&sandbox, &["--exclude", "*.tmp"], &without(&["b.tmp"]));
    saves(&sandbox, &["--iexclude", "*.tmp"], &without(&["A.TMP", "b.tmp"]));
    saves(&sandbox, &["--exclude", "!a.tmp", "--iexclude", "*.tmp"], &without(&["A.TMP", "b.tmp"]));
    saves(&sandbox, &["--iexclude", "!A.tmp", "--exclude", "*.TMP"], &all);
    saves(&sandbox, &["--exclude-larger-than", "2"], &without(&["c", "other/.nobackup"]));
    saves(
        &sandbox,
        &["--exclude-if-present", ".nobackup"],
        &without(&["marked/deep/", "marked/deep/x", "marked/y", "other/z"]),
    );
    saves(&sandbox, &["--exclude-if-present", ".nobackup:keep"], &without(&["other/z"]));
    saves(&sandbox, &["--exclude-if-present", ".nobackup:remove"], &all);
    let run = sandbox.run(["backup", "source/c", "--exclude-larger-than", "1"]).well();
    assert!(run.stderr.contains("1 file"), "a named file is saved: {}", run.stderr);
}

#[test]
fn ignore_files_count_for_their_folders() {
    let sandbox = sandbox(&[
        (".cutpointignore", "# text\n*.o\n/top\ncache/\n"),
        ("a.o", ""),
        ("sub/.cutpointignore", "!keep.o\n/b"),
        ("sub/b", ""),
        ("sub/cache/x", ""),
        ("sub/deep/b", ""),
        ("sub/keep.o", ""),
        ("sub/top", ""),
        ("sub/x.o", ""),
        ("top", ""),
        ("zip/.gitignore", "*.zip\n"),
        ("zip/a.zip", ""),
    ]);
    let own = [".cutpointignore", "sub/", "sub/.cutpointignore", "sub/deep/", "sub/deep/b"];
    let rest = ["sub/keep.o", "sub/top", "zip/", "zip/.gitignore"];
    saves(&sandbox, &[], &[&own[..], &rest, &["zip/a.zip"]].concat());
    saves(&sandbox, &["--git-ignore"], &[&own[..], &rest].concat());
    let with_pattern = ["sub/top", "sub/x.o", "zip/", "zip/.gitignore", "zip/a.zip"];
    let with_pattern = [&own[..], &["sub/keep.o"], &with_pattern].concat();
    saves(&sandbox, &["--exclude", "!x.o"], &with_pattern);
    backup(&sandbox, &["--no-ignore-files"]).well();
    assert_eq!(saved(&sandbox).len(), 16, "everything");
    backup(&sandbox, &["--no-ignore-files", "--git-ignore"]).well();
    assert_eq!(saved(&sandbox).len(), 15, "without a.zip");
    // Names that are in the snapshot and not on the disk are excluded all the same.
    backup(&sandbox, &["--no-ignore-files"]).well();
    for name in ["a.o", "sub/b", "sub/x.o", "zip/a.zip"] {
        fs::remove_file(sandbox.path("source").join(name)).expect("removed");
    }
    let gone = sandbox.run(["diff", "latest", "./source"]).well();
    assert_eq!(gone.text().lines().count(), 1, "only what no pattern excludes: {}", gone.text());
    assert!(gone.text().ends_with("/zip/a.zip\n"), "{}", gone.text());
    let run = sandbox.run(["diff", "latest", "./source", "--git-ignore"]).well();
    assert_eq!(run.text(), "", "nothing");
}

#[test]
fn unusable_lines_of_ignore_files_are_named_and_skipped() {
    let sandbox = sandbox(&[
        (".cutpointignore", "\u{feff}a\r\n[b\n./c\nd\\\n*.x"),
        ("a", ""),
        ("b", ""),
        ("c", ""),
        ("d.x", ""),
        ("link/e", ""),
    ]);
    std::os::unix::fs::symlink("../.cutpointignore", sandbox.path("source/link/.cutpointignore"))
        .expect("linked");
    let run = backup(&sandbox, &[]).ended(0, &[]);
    let file = sandbox.path("source/.cutpointignore");
    let link = sandbox.path("source/link/.cutpointignore");
    let warnings: Vec<&str> =
        run.stderr.lines().filter(|line| line.starts_with("warning: ")).collect();
    let expected = [
        format!("warning: {}: line 2: pattern [b: character class without ]; ", file.display()),
        format!("warning: {}: line 3: pattern ./c: matches nothing, ", file.display()),
        format!("warning: {}: line 4: pattern d\\: \\ without a character ", file.display()),
        format!("warning: {}: not a regular file; its patterns are not used", link.display()),
    ];
    assert_eq!(warnings.len(), expected.len(), "{warnings:?}");
    for (warning, expected) in warnings.iter().zip(&expected) {
        assert!(warning.starts_with(expected), "{warning} is not {expected}");
    }
    let expected = [".cutpointignore", "b", "c", "link/", "link/.cutpointignore", "link/e"];
    assert_eq!(saved(&sandbox), expected, "the other lines count");
    let run = sandbox.run(["diff", "latest", "./source"]).ended(0, &["line 2: pattern [b"]);
    assert_eq!(run.text(), "", "nothing differs");
}

/// Other programs look for such a pattern in every folder.
#[test]
fn patterns_from_the_root_on_without_a_slash_are_reported_if_nothing_is_there() {
    let sandbox = sandbox(&[("a/b", "")]);
    let warning = "warning: --exclude a-/b: matches nothing, because there is no /a-; `**/a-/b`";
    backup(&sandbox, &["--exclude", "a-/b"]).ended(0, &[warning]);
    for pattern in ["/a-/b", "**/a-/b", "a-/", "tmp/x", "*-/b", "!a-/b"] {
        let run = backup(&sandbox, &["--exclude", pattern]).ended(0, &[]);
        assert!(!run.stderr.contains("warning"), "{pattern}: {}", run.stderr);
    }
}

#[test]
fn patterns_that_can_match_nothing_are_errors_on_the_command_line() {
    let sandbox = sandbox(&[("a", "")]);
    fs::write(sandbox.path("patterns"), "a\n[\n").expect("written");
    for (options, texts) in [
        (&["--exclude", "["][..], &["--exclude: pattern [: character class without ]"][..]),
        (&["--exclude", "./a"], &["--exclude: pattern ./a: matches nothing", "`.`"]),
        (&["--iexclude", "a/../b"], &["--iexclude: pattern a/../b: matches nothing", "`..`"]),
        (&["--exclude-file", "patterns"], &["exclude file patterns: line 2: pattern ["]),
        (&["--exclude-if-present", "a/b"], &["\"a/b\" is not the name of a file"]),
        (&["--exclude-larger-than", "x"], &["x"]),
    ] {
        backup(&sandbox, options).ended(2, texts);
    }
    assert!(sandbox.json(["snapshots"]).is_empty(), "no backup was made");
}

#[test]
fn excluded_names_are_listed_with_their_rules() {
    let sandbox = sandbox(&[
        (".cutpointignore", "ignored"),
        ("ignored", ""),
        ("large", "12345"),
        ("pattern/x", ""),
        ("tagged/TAG", ""),
        ("tagged/x", ""),
    ]);
    let options = ["--exclude", "pattern/", "--exclude-larger-than", "7"];
    let options = [&options[..], &["--exclude-if-present", "TAG"]].concat();
    write(&sandbox, "large", "12345678");
    let run = backup(&sandbox, &[&options[..], &["-vv"]].concat()).well();
    let source = format!("{}/", sandbox.path("source").display());
    let lines: Vec<String> = run
        .stderr
        .lines()
        .filter_map(|line| Some(line.strip_prefix("excluded     ")?.replace(&source, "")))
        .collect();
    let expected = ["ignored (ignore file)", "large (size)", "pattern (pattern)", "tagged/x (tag)"];
    assert_eq!(lines, expected, "{}", run.stderr);
    assert!(run.stderr.contains("4 names excluded"), "{}", run.stderr);
    let events = sandbox.json([&["backup", "source", "-nv"], &options[..]].concat());
    let rules: Vec<&str> = events.iter().filter_map(|event| event["rule"].as_str()).collect();
    assert_eq!(rules, ["ignore_file", "size", "pattern", "tag"]);
}

#[test]
fn paths_come_from_lists() {
    let sandbox = sandbox(&[("a", ""), ("b/c", ""), ("d", ""), ("e\nf", ""), ("#g", "")]);
    let names = |sandbox: &Sandbox| {
        let entries = sandbox.json(["ls", "latest", "-R"]);
        let files = entries.iter().filter(|entry| entry["kind"] == "file");
        let name =
            |path: &str| Path::new(path).file_name().map(|n| n.to_string_lossy().into_owned());
        files.filter_map(|entry| name(entry["path"].as_str()?)).collect::<Vec<String>>()
    };
    fs::write(sandbox.path("list"), "# a comment\nsource/a\n\nsource/b").expect("written");
    sandbox.run(["backup", "source/d", "--files-from", "list"]).well();
    assert_eq!(names(&sandbox), ["a", "c", "d"]);
    fs::write(sandbox.path("list0"), "source/e\nf\0./source/#g\0").expect("written");
    sandbox.run(["backup", "--files-from0", "list0"]).well();
    assert_eq!(names(&sandbox), ["#g", "e\nf"]);
    let mut command = sandbox.command(["backup", "--files-from", "-"]);
    run_with_input(&mut command, b"source/a\nsource/nowhere\n")
        .ended(1, &["source/nowhere: source skipped: not found", "incomplete"]);
    let mut command = sandbox.command(["backup", "--files-from", "-"]);
    run_with_input(&mut command, b"\n# nothing\n").ended(2, &["-: no paths in this list"]);
    run(&mut sandbox.command(["backup", "--files-from", "nowhere"]))
        .ended(2, &["list of paths nowhere: not found"]);
    sandbox.run(["backup", "--stdin", "--files-from", "list"]).ended(2, &["cannot be used with"]);
    // Lists of snapshots name the first of many sources.
    let many: Vec<String> = (10..30).map(|number| format!("source/many/{number}")).collect();
    fs::create_dir(sandbox.path("source/many")).expect("made");
    for path in &many {
        fs::write(sandbox.path(path), "").expect("written");
    }
    let mut command = sandbox.command(["backup", "--files-from", "-"]);
    run_with_input(&mut command, many.join("\n").as_bytes()).well();
    for arguments in [&["snapshots"][..], &["forget", "--keep-last", "1", "--dry-run"]] {
        let listed = sandbox.run(arguments).well();
        let listed = listed.text();
        assert!(listed.contains("source/many/19 and 10 more"), "{arguments:?}: {listed}");
        assert!(!listed.contains("source/many/20"), "{arguments:?}: {listed}");
    }
    let many: String = (0..30).map(|number| format!("none/{number}\n")).collect();
    let mut command = sandbox.command(["backup", "--files-from", "-"]);
    run_with_input(&mut command, many.as_bytes()).ended(2, &["and 10 more that cannot be read"]);
}

/// Otherwise, a path more in a list would make a backup of everything.
#[test]
fn files_of_other_sources_are_not_read_again() {
    let sandbox = sandbox(&[("a/x", "1"), ("b/y", "2"), ("c/z", "3")]);
    std::thread::sleep(Duration::from_millis(2100));
    let read_count = |paths: &[&str]| {
        let events = sandbox.json([&["backup"], paths].concat());
        events.last().expect("a summary")["read_file_count"].as_u64().expect("a number")
    };
    assert_eq!(read_count(&["source/a", "source/b"]), 2, "new");
    assert_eq!(read_count(&["source/c"]), 1, "new");
    assert_eq!(read_count(&["source/a", "source/b", "source/c"]), 0, "of both snapshots");
    assert_eq!(read_count(&["source/b", "source/a"]), 0, "in another order");
    let skipped = sandbox.json(["backup", "source/b/y", "source/b", "--skip-if-unchanged"]);
    let skipped = skipped.last().expect("a summary");
    assert!(skipped["snapshot"].is_string(), "no snapshot of these paths exists: {skipped}");
    assert_eq!(skipped["read_file_count"], 0, "{skipped}");
}
