//! `algorithms`: all descriptions, for people and for programs.

use crate::sandbox::Sandbox;

#[test]
fn all_are_listed_with_parameters_and_source() {
    let sandbox = Sandbox::new();
    let run = sandbox.run(["algorithms"]).well();
    for about in cutpoint_chunking::algorithms() {
        let head = format!("{}: {}\n", about.name, about.title);
        assert!(run.text().contains(&head), "{head} is missing");
        for parameter in about.parameters {
            assert!(run.text().contains(parameter.key), "{} is missing", parameter.key);
        }
    }
    assert!(run.text().contains("equal (default absorb)"), "a default is missing");
    assert!(run.text().contains("Source: Udayashankar"), "a source is missing");
    assert!(run.text().lines().all(|line| line.len() <= 80), "a line is too long");
}

#[test]
fn named_algorithm_is_explained() {
    let sandbox = Sandbox::new();
    for about in cutpoint_chunking::algorithms() {
        let run = sandbox.run(["algorithms", about.name]).well();
        let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        let text = words(run.text());
        for part in [about.rule, about.source, about.good_at, about.bad_at] {
            assert!(text.contains(&words(part)), "{}: {part}", about.name);
        }
        for dialect in about.dialects {
            assert!(text.contains(dialect.keys), "{}: {}", about.name, dialect.keys);
        }
    }
    sandbox.run(["algorithms", "rsync"]).ended(2, &["`rsync`", "seqcdc"]);
}

#[test]
fn json_has_the_same_descriptions() {
    let sandbox = Sandbox::new();
    let events = sandbox.json(&["algorithms"]);
    let names: Vec<_> = events.iter().filter_map(|event| event["name"].as_str()).collect();
    let known: Vec<_> = cutpoint_chunking::algorithms().iter().map(|about| about.name).collect();
    assert_eq!(names, known, "names");
    assert_eq!(sandbox.json(&["algorithms", "fixed"])[0]["parameters"][0]["key"], "size", "keys");
}
