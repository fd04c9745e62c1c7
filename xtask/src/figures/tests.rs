use super::*;

/// A page of results.
const RESULTS: &str = "# Results\n\n**CPU s**\n\n| tool | A | B | C |\n|---|---:|---:|---:|\n\
    | ours | 0.50 | 1.00 | 1,200 |\n| theirs | 2.00 | 3.00 |  |\n| *ours / theirs* | 0.25 | 0.33 |  |\n\n\
    ## Other\n\nIt took 93 requests. **missed** **missed**\n\n| case | s |\n| --- | --- |\n| x | 1, 2 |\n";

/// Returns the faults of a page whose source is [`RESULTS`].
fn faults_of(page: &str, is_covered: bool) -> Vec<String> {
    let mut results = Results { pages: [("r.md".to_owned(), RESULTS.to_owned())].into() };
    let parts = parts(page);
    parts.iter().flat_map(|part| faults(part, is_covered, &mut results, "p.md")).collect()
}

/// Returns the faults of a text above one source.
fn faults_with(text: &str, source: &str) -> Vec<String> {
    faults_of(&format!("{text}\n\n<!-- figures\n{source}\n-->\n"), true)
}

#[test]
fn cells_sums_and_quotients_are_compared_as_rounded() {
    for (text, source) in [
        ("takes 0.5 s", "| r.md | CPU s | ours | A | 0.5 |"),
        ("takes 1,200 s", "| r.md | CPU s | ours | C | 1,200 |"),
        ("takes 4.0 times", "| r.md | CPU s | theirs / ours | A | 4.0 |"),
        ("takes 0.3 times", "| r.md | CPU s | ours / theirs | sum | 0.3 |"),
        ("takes 0.25 times", "| r.md | CPU s | ours / theirs | min | 0.25 |"),
        ("takes 0.33 times", "| r.md | CPU s | ours / theirs | max | 0.33 |"),
        ("takes 1.0 s", "| r.md | CPU s | ours | median | 1.0 |"),
        ("makes 93 requests", "| r.md | \"took 93 requests\" | 93 |"),
        ("misses 2 goals", "| r.md | count \"**missed**\" | 2 |"),
        ("over 30 ms", "| given | 30 ms |"),
        ("| case | s |\n| --- | --- |\n| x | 1, 2 |", "| r.md | table Other |"),
    ] {
        assert_eq!(faults_with(text, source), [""; 0], "{source}");
    }
}

#[test]
fn changed_figure_is_named() {
    for (text, source, fault) in [
        (
            "takes 0.6 s",
            "| r.md | CPU s | ours | A | 0.6 |",
            "r.md: CPU s: ours: A: 0.500, not 0.6",
        ),
        ("takes 0.7 s", "| r.md | CPU s | ours | A | 0.5 |", "the text above has no 0.5"),
        ("takes 10.5 s", "| given | 0.5 |", "the text above has no 0.5"),
        ("94 requests", "| r.md | \"took 94 requests\" | 94 |", "r.md has no \"took 94 requests\""),
        ("92 requests", "| r.md | \"took 93 requests\" | 92 |", "\"took 93 requests\" has no 92"),
        (
            "3 goals",
            "| r.md | count \"**missed**\" | 3 |",
            "r.md has \"**missed**\" 2 times, not 3",
        ),
        ("| case | s |\n| - | - |\n| x | 1, 3 |", "| r.md | table Other |", "has no row x | 1, 3"),
        ("| case | t |\n| - | - |\n| x | 1, 2 |", "| r.md | table Other |", "has no row case | t"),
        ("1.5 s", "| r.md | CPU s | mine | A | 1.5 |", "no row \"mine\" and column \"A\""),
        ("1.5 s", "| r.md | Other | ours | A | 1.5 |", "below \"Other\""),
        ("1.5 s", "| r.md | 1.5 |", "no source of a figure"),
        ("1.5 s", "| no.md | \"1.5\" | 1.5 |", "no.md: "),
    ] {
        let found = faults_with(text, source);
        assert!(found.iter().any(|it| it.contains(fault)), "{source}: {found:?}");
    }
}

#[test]
fn figure_without_source_is_named_in_covered_pages() {
    let page = "# A\ntakes 7 MB\n```text\n8 MB\n```\n# B\ntakes 9 MB\n<!-- figures\n| given | 9 MB |\n-->\n9 MB";
    let expected = ["p.md:2: 7: names no source", "p.md:11: 9: names no source"];
    assert_eq!(faults_of(page, true), expected);
    assert_eq!(faults_of(page, false), [""; 0], "another page");
}
