//! `README.md` and the pages of `book/`: the program prints what these pages show.
//!
//! A block fenced as `console` has commands, each behind `$ `, and below each command the lines that
//! it prints. All blocks of a page run in order, in one shell and one home folder. A block fenced as
//! `console needs-NAME` needs a program or server ([`needs`]); where that is missing, the block is
//! reported as skipped. Commands that cannot run in a test are fenced as `sh` with the reason
//! (`needs-REASON`). Lines between `<!-- setup` and `-->` prepare a page. A line `...` stands for any
//! number of lines.
//!
//! With `CUTPOINT_WRITE_GUIDE=1` (`cargo xtask guide --write`) the test does not compare, but writes
//! what the commands print into the pages.
//!
//! Everything is compared: counts, bytes, shares, ratios, and the order of words and lines. The
//! randomness of the commands is fixed from outside ([`shell`]), since the secret of a repository
//! decides where its files are cut. The exceptions are values that cannot be the same in two runs or
//! on two machines:
//!
//! - the home folder, the name of the machine, ids, times and durations ([`names`]),
//! - measured speeds, the default cipher, and the width of columns ([`comparison`]),
//! - sizes from 1 KiB on, which may differ by a hundredth: what is stored includes the names of
//!   machine and user, process numbers and times ([`comparison`]).

mod comparison;
mod names;
mod needs;
mod page;
mod shell;

use std::collections::BTreeSet;

use comparison::agree;
use cutpoint_testing::markdown_below;
use names::{FIRST_TIME, Names};
use page::{check, follow, read};

/// Defines a test for each story, and the list of all pages. A story is one page or several that
/// follow each other.
macro_rules! stories {
    ($($name:ident: $($page:literal),+;)+) => {
        $(#[test] fn $name() { check(&[$($page),+]); })+
        const PAGES: &[&str] = &[$($($page),+),+];
    };
}

stories! {
    readme_shows_what_the_program_prints: "README.md";
    tutorial_shows_what_the_program_prints:
        "book/src/tutorial/first-backup.md",
        "book/src/tutorial/restore.md",
        "book/src/tutorial/every-night.md",
        "book/src/tutorial/space.md",
        "book/src/tutorial/check.md";
    install_shows_what_the_program_prints: "book/src/install.md";
    homes_show_what_the_program_prints: "book/src/howto/home.md";
    saved_things_show_what_the_program_prints: "book/src/howto/what-is-saved.md";
    postgresql_shows_what_the_program_prints: "book/src/howto/postgresql.md";
    mysql_shows_what_the_program_prints: "book/src/howto/mysql.md";
    other_commands_show_what_the_program_prints: "book/src/howto/commands.md";
    machines_in_images_show_what_the_program_prints: "book/src/howto/vms.md";
    containers_show_what_the_program_prints: "book/src/howto/containers.md";
    servers_show_what_the_program_prints: "book/src/howto/server.md";
    ransomware_shows_what_the_program_prints: "book/src/howto/ransomware.md";
    volumes_show_what_the_program_prints: "book/src/howto/volumes.md";
    nas_shows_what_the_program_prints: "book/src/howto/nas.md";
    s3_shows_what_the_program_prints: "book/src/howto/s3.md";
    rclone_shows_what_the_program_prints: "book/src/howto/rclone.md";
    many_machines_show_what_the_program_prints: "book/src/howto/machines.md";
    keys_show_what_the_program_prints: "book/src/howto/keys.md";
    copies_show_what_the_program_prints: "book/src/howto/copies.md";
    estimates_show_what_the_program_prints: "book/src/howto/estimate.md";
    imports_show_what_the_program_prints: "book/src/howto/moving.md";
    exit_codes_show_what_the_program_prints: "book/src/reference/exit-codes.md";
}

/// The pages whose command blocks are looked at: those of the book, and those of `docs/` that are
/// chapters of it.
fn pages_of_book() -> BTreeSet<String> {
    let root = page::path("");
    let names = markdown_below(&root.join("book/src")).into_iter().map(|path| {
        path.strip_prefix(&root).expect("below the root").to_string_lossy().into_owned()
    });
    let mut pages: BTreeSet<String> = names.collect();
    let summary = read("book/src/SUMMARY.md");
    let chapters = summary.split("](../../").skip(1).filter_map(|rest| rest.split(')').next());
    pages.extend(chapters.filter(|name| name.ends_with(".md")).map(str::to_owned));
    pages
}

#[test]
fn every_page_with_commands_is_a_test() {
    let with_commands = pages_of_book()
        .into_iter()
        .filter(|name| !page::steps(name, &read(name).lines().collect::<Vec<_>>()).is_empty());
    let listed: BTreeSet<&str> = PAGES.iter().copied().collect();
    let missing: Vec<String> =
        with_commands.filter(|name| !listed.contains(name.as_str())).collect();
    assert!(missing.is_empty(), "pages with `console` blocks that no test runs: {missing:?}");
}

/// A command of the program is in a block that is run, or in one that says why it is not.
#[test]
fn commands_outside_of_console_blocks_give_a_reason() {
    let mut wrong = Vec::new();
    for name in pages_of_book() {
        let text = read(&name);
        let mut fence: Option<&str> = None;
        for (number, line) in (1..).zip(text.lines()) {
            if let Some(info) = line.strip_prefix("```") {
                fence = if fence.is_some() { None } else { Some(info) };
                continue;
            }
            let is_command = ["$ ", "cutpoint "].iter().any(|start| line.starts_with(start));
            let kind = fence.map(|info| info.split(' ').next().unwrap_or_default());
            let is_explained = match kind {
                Some("console") => true,
                Some("sh") => fence.is_some_and(|info| info.contains(" needs-")),
                Some("toml" | "ini" | "yaml" | "json" | "dockerfile") => true,
                Some(_) => false,
                None => true,
            };
            // An indented block says nothing.
            let is_indented = fence.is_none() && line.starts_with("    cutpoint ");
            if is_indented || is_command && !is_explained {
                wrong.push(format!("{name}:{number}: {line}"));
            }
        }
    }
    assert!(wrong.is_empty(), "neither `console` nor `sh needs-REASON`:\n{}", wrong.join("\n"));
}

#[test]
fn changed_output_is_reported_with_both_texts() {
    let followed = follow("page.md", "```console\n$ echo one\ntwo\n$ echo same\nsame\n```\n");
    let expected = "page.md:2: `echo one` prints something else\n\
                    --- the page\ntwo\n--- the program\none\n---";
    assert_eq!(followed.differences, [expected], "one of two commands prints something else");
    assert_eq!(
        followed.text, "```console\n$ echo one\none\n$ echo same\nsame\n```\n",
        "the page as it would be written"
    );
}

#[test]
fn commands_that_need_a_missing_program_are_left_out() {
    let page = "```console needs-nothing-of-this-name\n$ echo one\ntwo\n```\n";
    let known = "```console needs-git\n$ echo one\ntwo\n```\n";
    assert!(std::panic::catch_unwind(|| follow("page.md", page)).is_err(), "a misspelt name");
    let steps = page::steps("page.md", &known.lines().collect::<Vec<_>>());
    assert_eq!(steps.len(), 1, "{steps:?}");
}

#[test]
fn setup_runs_and_is_not_shown() {
    let page = "<!-- setup\necho milk > list\n-->\n```console\n$ cat list\nmilk\n```\n";
    let followed = follow("page.md", page);
    assert_eq!(followed.text, page, "nothing changes");
    assert_eq!(followed.differences, [""; 0], "the second command sees what the first has made");
    assert_eq!(followed.failures, [""; 0], "both succeed");
}

#[test]
fn text_behind_a_command_is_part_of_it() {
    let page = "```console\n$ cat << 'END'\n> a\n>\n> b\n> END\na\n\nb\n```\n";
    let followed = follow("page.md", page);
    assert_eq!((followed.text.as_str(), followed.differences.len()), (page, 0));
    let page = "```console\n$ printf '> a\\n'\n> a\n```\n";
    assert_eq!(follow("page.md", page).differences, [""; 0], "output that looks like more of it");
}

#[test]
fn ellipsis_stands_for_any_lines() {
    assert!(agree("a\n...\nd", "a\nb\nc\nd"), "two lines");
    assert!(agree("a\n...\nd", "a\nd"), "none");
    assert!(agree("a\n...", "a\nb") && agree("...\nb", "a\nb"), "at an end");
    assert!(agree("a\n...\nc\n...\ne", "a\nb\nc\nd\ne"), "twice");
    assert!(!agree("a\n...\nd", "a\nb\nc"), "another end");
    assert!(!agree("a\n...\nd", "b\nd"), "another begin");
    assert!(!agree("a\n...\nx\n...\nd", "a\nb\nd"), "a line in the middle is missing");
    assert!(!agree("a\n...\na", "a"), "one line is not both");
}

#[test]
fn failure_that_a_page_does_not_show_is_reported() {
    let followed = follow("page.md", "```console\n$ false\n$ false\n$ echo $?\n1\n```\n");
    let expected = "page.md:2: `false` ends with 1, which the next line, `$ echo $?`, should show";
    assert_eq!(followed.failures, [expected], "the second failure is shown");
    assert_eq!(followed.differences, [""; 0], "nothing is printed");
}

#[test]
fn ids_and_times_of_a_page_do_not_change() {
    let mut names = Names::new("/tmp/x", "build7");
    let text = "2031-01-31 23:59:59 build7 0123abcd 0123abcd00112233445566aa /tmp/x/y 0:07\n";
    let shown = names.shown(text);
    let id = &shown[27..35];
    assert_eq!(
        shown,
        format!("{FIRST_TIME} laptop {id} {} /home/me/y 0:00\n", &shown[36..60]),
        "all of it is replaced"
    );
    assert_eq!(&shown[36..44], id, "a short id begins the long one");
    assert_eq!(names.real(&format!("cutpoint hold {id}")), "cutpoint hold 0123abcd", "and back");
    assert_eq!(names.shown("16777216 B"), "16777216 B", "a number is no id");
    assert_ne!(names.shown("snapshot 16777216 ("), "snapshot 16777216 (", "an id is one");
    assert_eq!(names.shown("2031-02-01 00:00:01"), "2026-11-22 07:30:02", "two seconds later");
}

#[test]
fn changed_number_or_order_is_a_difference() {
    let page = "read 5 files (1.9 MiB), 300 B in 36 chunks, stored 526.8 KiB, saves 54.3 %; 0:00";
    assert!(agree(page, page), "equal texts");
    for (number, other) in [
        ("5 files", "4 files"),
        ("(1.9", "(1.7"),
        ("300 B", "301 B"),
        ("36", "35"),
        ("526.8", "521.0"),
        ("54.3", "54.4"),
        ("KiB", "MiB"),
        ("; 0:00", "; 0:00 0:00"),
    ] {
        assert!(!agree(page, &page.replacen(number, other, 1)), "{other} in place of {number}");
    }
    assert!(!agree("one\ntwo", "two\none"), "another order");
    assert!(!agree("one\ntwo", "one two"), "a line less");
}

#[test]
fn values_of_the_machine_are_no_difference() {
    let page = "algorithm  stored  GB/s\nfixed  12.5 KiB  1.16\n\n2026-11-22 07:30:00 aes256-gcm";
    let other =
        "algorithm stored GB/s\nfixed 12.5 KiB 0.9\n\n2026-11-22 07:30:09 chacha20-poly1305";
    assert!(agree(page, other), "speed, time, cipher, width of a column");
    assert!(!agree(page, &other.replace("12.5", "12.8")), "the size beside the speed");
    // As measured between names of machines with 2 and with 39 letters.
    assert!(agree("stored 526.8 KiB", "stored 529.8 KiB"), "a hundredth of a size");
    assert!(agree("leaving 1.4 KiB", "leaving 1.5 KiB"), "the last digit of a size");
    assert!(agree("leave 626 B unused", "leave 630 B unused"), "lengths of encoded times");
    assert!(!agree("leave 626 B unused", "leave 726 B unused"), "another amount");
    assert!(!agree("new 626 B", "new 630 B"), "bytes that do not depend on times");
}

#[test]
fn randomness_of_a_command_is_fixed() {
    let id = || follow("page.md", "```console\n$ mktemp -u\n$ mktemp -u\n```\n").text;
    assert_eq!(id(), id(), "mktemp asks the system for randomness");
}

#[test]
fn readme_is_short_and_names_the_check() {
    let text = read("README.md");
    let line_count = text.lines().count();
    assert!(line_count <= 120, "README.md has {line_count} lines; 120 are enough for a first page");
    assert!(text.contains("`cargo xtask check`"), "CI requires that README.md names the check");
}

/// The doctest compiles and runs, so the example does, too.
#[test]
fn readme_example_is_part_of_the_doctest() {
    let readme = read("README.md");
    let source = read("crates/chunking/src/lib.rs");
    let mut doctest = source.lines().filter_map(|line| line.strip_prefix("//!")).map(str::trim);
    let example = readme.lines().skip_while(|line| *line != "```rust").skip(1);
    let mut line_count = 0;
    for line in example.take_while(|line| *line != "```").filter(|line| !line.is_empty()) {
        assert!(doctest.any(|other| other == line), "not in the doctest of chunking: {line}");
        line_count += 1;
    }
    assert!(line_count > 3, "README.md has an example");
}

/// The table of `README.md` has the sizes that `research/results/benchmark.md` has.
#[test]
fn readme_sizes_are_measured_ones() {
    let results = read("research/results/benchmark.md");
    let mut rows = results.lines().skip_while(|line| !line.starts_with("**Repository after"));
    let mut row = |name: &str| -> Vec<String> {
        let row = rows.find(|line| cells(line).first().is_some_and(|cell| cell == name));
        cells(row.unwrap_or_else(|| panic!("no row {name} in benchmark.md")))
    };
    let (sets, ours, restic) = (row("tool"), row("cutpoint"), row("restic"));
    let readme = read("README.md");
    let mut count = 0;
    for cells in readme.lines().map(cells).filter(|cells| cells.len() == 6) {
        // The name of the set is in parentheses.
        let set = cells[0].split(['(', ')']).nth(1).unwrap_or_default();
        let Some(at) = sets.iter().position(|name| name == set) else { continue };
        assert_eq!(cells[3..5], [restic[at].clone(), ours[at].clone()], "sizes of {set}");
        count += 1;
    }
    assert!(count >= 4, "README.md compares {count} sets");
}

/// Returns the cells of a row of a Markdown table.
fn cells(line: &str) -> Vec<String> {
    let row = line.strip_prefix('|').and_then(|rest| rest.strip_suffix('|'));
    row.map(|row| row.split('|').map(|cell| cell.trim().to_owned()).collect()).unwrap_or_default()
}
