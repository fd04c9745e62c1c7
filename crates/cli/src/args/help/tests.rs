//! Every help text at several widths: wrapped by clap, never by hand, short, and in a fixed order.

use clap::Parser;
use cutpoint_terminal::help::checks;
use cutpoint_testing::markdown_below;

use super::*;

/// A width at which nothing is wrapped.
const UNWRAPPED: usize = 100_000;

#[track_caller]
fn assert_none(faults: &[String]) {
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn help_at_every_width_has_no_torn_sentence() {
    assert_none(&checks::torn_sentences(&MANUAL));
}

#[test]
fn short_help_at_80_columns_has_at_most_45_lines() {
    assert_none(&checks::long_short_pages(&MANUAL));
}

#[test]
fn examples_stand_before_usage_and_options() {
    assert_none(&checks::pages_without_examples_first(&MANUAL));
}

#[test]
fn examples_are_valid_command_lines() {
    assert_none(&checks::invalid_examples(&MANUAL));
}

/// The commands of the book that no test executes are at least valid.
#[test]
fn commands_of_the_book_are_valid_command_lines() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let (mut count, mut faults) = (0, Vec::new());
    for path in ["book/src", "docs"].iter().flat_map(|name| markdown_below(&root.join(name))) {
        let page = std::fs::read_to_string(&path).expect("a page");
        let (of_page, wrong) = checks::invalid_commands(&MANUAL, &page);
        count += of_page;
        faults.extend(wrong.iter().map(|it| format!("{}: {it}", path.display())));
    }
    assert!(count > 10, "{count} commands");
    assert_none(&faults);
}

#[test]
fn invalid_command_of_a_page_is_found() {
    let page = "```sh needs-x\nA=1 cutpoint ls --no-such; cutpoint snapshots | cutpoint lss\n```";
    let (count, faults) = checks::invalid_commands(&MANUAL, page);
    assert_eq!((count, faults.len()), (3, 2), "{faults:?}");
    let text = "cutpoint lss\n```console\n$ cutpoint lss\n```";
    assert_eq!(checks::invalid_commands(&MANUAL, text), (0, Vec::new()), "no block of this kind");
}

#[test]
fn common_options_stand_only_in_their_topic() {
    let options = MANUAL.page(&["options"]).expect("a topic");
    let count = options.get_arguments().filter_map(clap::Arg::get_long).count();
    assert!(count > 15, "{count} common options");
    let topics = ["options", "secrets", "s3", "clouds", "sftp", "rclone"];
    assert_none(&checks::scattered_common_options(&MANUAL, &topics));
}

#[test]
fn every_command_is_in_exactly_one_group() {
    assert_none(&checks::ungrouped_commands(&MANUAL));
}

#[test]
fn program_help_names_every_command_and_topic() {
    assert_none(&checks::unnamed_commands(&MANUAL));
}

#[test]
fn help_of_names_is_found_or_refused() {
    let page =
        |names: &[&str]| MANUAL.page(names).map(|page| page.clone().render_long_help().to_string());
    let is_found = |names: &[&str], text: &str| page(names).is_some_and(|page| page.contains(text));
    assert!(is_found(&[], "Every day:"), "the program");
    assert!(is_found(&["backup"], "Usage: cutpoint backup [OPTIONS]"), "a command");
    assert!(is_found(&["key", "add"], "Usage: cutpoint key add [OPTIONS]"), "a subcommand");
    assert!(is_found(&["exit-codes"], "  130  interrupted"), "a topic");
    assert!(page(&["nothing"]).is_none(), "no command");
    assert!(page(&["options", "backup"]).is_none(), "a topic has no commands");
}

#[test]
fn new_repository_defaults_are_in_help_of_init() {
    let page = MANUAL.page(&["init"]).expect("a page");
    let text = page.term_width(UNWRAPPED).render_long_help();
    let default = crate::defaults::DEFAULT;
    let level = format!("--compression-level {}", default.compression_level);
    for part in [crate::defaults::DEFAULT_CUT, level.as_str(), "--region-size 2M"] {
        assert!(text.to_string().contains(part), "{part}");
    }
}

#[test]
fn definitions_are_consistent() {
    MANUAL.command().debug_assert();
    // Tests of other modules parse without the layout of help.
    assert!(Args::try_parse_from(["cutpoint", "stats", "--quiet"]).is_ok(), "without layout");
}
