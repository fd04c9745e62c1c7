//! `tune`: what it tries, what it prints, and how it ends.

use std::fs;

use cutpoint_chunking::Spec;
use serde_json::Value;

use crate::sandbox::{Sandbox, make_source};

#[test]
fn parameters_are_found() {
    let sandbox = Sandbox::new();
    make_source(&sandbox.path("source"));
    let events = sandbox.json(["tune", "source", "--average", "2k"]);
    let (summary, rest) = events.split_last().expect("a summary");
    let tuned: Vec<&Value> = rest.iter().filter(|event| event["type"] == "tuned").collect();
    assert_eq!(
        summary["simulated_count"].as_u64().map(|count| count > 100),
        Some(true),
        "{summary}"
    );
    let number = |value: &Value| value.as_f64().expect("a number");
    let of = |origin: &str| -> Vec<&Value> {
        tuned.iter().copied().filter(|each| each["origin"] == origin).collect()
    };
    let seqcdc =
        |each: &&&Value| each["spec"].as_str().is_some_and(|spec| spec.starts_with("seqcdc"));
    let grid = of("grid");
    let found: Vec<_> = grid.iter().filter(seqcdc).collect();
    assert_eq!(summary["candidate_count"], found.len(), "all of them are tried");
    assert!(!found.is_empty() && found.len() < grid.len(), "SeqCDC and FastCDC");
    for each in &grid {
        let mean = number(&each["random_chunk_size_mean"]);
        assert!((1843.0..2253.0).contains(&mean), "10 % around 2048: {each}");
    }
    let papers: Vec<f64> =
        of("paper").iter().map(|each| number(&each["random_chunk_size_mean"])).collect();
    assert_eq!(papers.len(), 3, "Table I");
    assert!(of("average").len() >= 4, "other rules");
    // Ranked, and the front is what it says.
    let savings: Vec<f64> = tuned.iter().map(|each| number(&each["net_space_savings"])).collect();
    assert!(savings.is_sorted_by(|one, other| one >= other), "{savings:?}");
    for each in &tuned {
        let speed = |each: &Value| number(&each["bytes_per_second"]);
        let beaten = tuned.iter().any(|other| {
            let saved = [each, other].map(|each| number(&each["net_space_savings"]));
            saved[1] > saved[0] && speed(other) >= speed(each)
        });
        assert!(!(each["is_best"] == true && beaten), "beaten: {each}");
        // What it prints can be used.
        let spec = each["spec"].as_str().expect("text");
        let parsed: Spec = spec.parse().expect("a specification");
        assert_eq!(parsed.to_string(), spec, "written out");
    }
    let best = tuned[0]["spec"].as_str().expect("text");
    sandbox.run(["init", "--encryption", "none", "--cut", best]).well();
}

#[test]
fn a_person_sees_a_front() {
    let sandbox = Sandbox::new();
    make_source(&sandbox.path("source"));
    let run = sandbox
        .run(["tune", "source", "--average", "2k", "--html", "page.html", "--quiet", "--top", "3"])
        .well();
    for part in [
        "net saved",
        "(Table I)",
        "(avg=)",
        "saves most: cutpoint init --cut ",
        "fastest: ",
        " |",
        "+--",
    ] {
        assert!(run.text().contains(part), "{part:?} is missing in {}", run.text());
    }
    let html = fs::read_to_string(sandbox.path("page.html")).expect("it is written");
    let options = roxmltree::ParsingOptions { allow_dtd: true, ..Default::default() };
    let page = roxmltree::Document::parse_with_options(&html, options).expect("the page is XML");
    let count =
        |name: &str| page.descendants().filter(|node| node.tag_name().name() == name).count();
    assert_eq!(count("circle") + 1, count("tr"), "a point and a row for each");
    assert_eq!(count("polyline"), 1, "the front");
}

#[test]
fn what_cannot_be_tuned_is_said() {
    let sandbox = Sandbox::new();
    fs::write(sandbox.path("empty"), b"").expect("written");
    let refused = |arguments: &[&str], code: i32, texts: &[&str]| {
        sandbox.run([&["tune"], arguments].concat()).ended(code, texts);
    };
    refused(&["nowhere"], 2, &["nowhere: No such file"]);
    refused(&["empty", "--average", "2k"], 2, &["there is nothing to look at"]);
    refused(&["empty", "--average", "100"], 2, &["--average: must be 1.0 KiB to 1.0 MiB"]);
    refused(&["empty", "--sample-size", "0"], 2, &["--sample-size"]);
}
