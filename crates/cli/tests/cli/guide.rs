//! `README.md` and `docs/guide.md`: the program prints what these pages show.
//!
//! A block fenced as `console` has commands, each behind `$ `, and below each command the lines that
//! it prints. All blocks of a page run in order, in one shell and one home folder. A block that
//! cannot run here, because it needs S3 or a scheduler, is fenced as `text`.
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
mod page;
mod shell;

use comparison::agree;
use names::{FIRST_TIME, Names};
use page::{check, follow, read};

#[test]
fn readme_shows_what_the_program_prints() {
    check("README.md");
}

#[test]
fn guide_shows_what_the_program_prints() {
    check("docs/guide.md");
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
