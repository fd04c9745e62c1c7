//! Every help text at several widths: wrapped by clap, never by hand, short, and in a fixed order.

use cutpoint_terminal::help::checks;

use super::*;

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

#[test]
fn common_options_stand_only_in_their_topic() {
    assert_none(&checks::scattered_common_options(&MANUAL, &["options"]));
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
    assert!(is_found(&[], "Papers and data sets:"), "the program");
    assert!(is_found(&["tune"], "Usage: cutpoint-lab tune [OPTIONS]"), "a command");
    assert!(is_found(&["exit-codes"], "  130  interrupted"), "a topic");
    assert!(page(&["nothing"]).is_none(), "no command");
}

#[test]
fn definitions_are_consistent() {
    MANUAL.command().debug_assert();
}
