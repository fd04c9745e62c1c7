//! `tune`: its candidates, its output and its exit codes.

use std::collections::BTreeSet;
use std::fs;
use std::sync::Arc;

use cutpoint_chunking::Spec;
use cutpoint_repository::{CipherSuite, InitOptions, Repository, Unlock};
use serde_json::Value;

use crate::sandbox::{Sandbox, make_source};

#[test]
fn parameters_are_found() {
    let sandbox = Sandbox::new();
    make_source(&sandbox.path("source"));
    let events = sandbox.json(&["tune", "source", "--average", "4k"]);
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
    let grid = of("grid");
    let algorithm = |each: &Value| {
        each["spec"].as_str().and_then(|spec| spec.split(':').next()).expect("a name").to_owned()
    };
    let names: BTreeSet<String> = tuned.iter().map(|each| algorithm(each)).collect();
    // Two algorithms are learned from data, and tried only if they are requested.
    let learned = ["bfbc", "samplebyte"];
    let expected: BTreeSet<String> = cutpoint_chunking::algorithms()
        .iter()
        .map(|about| about.name.to_owned())
        .filter(|name| !learned.contains(&name.as_str()))
        .collect();
    assert_eq!(names, expected, "every algorithm that can have a key");
    assert_eq!(summary["unreached_algorithms"].as_array().map(Vec::len), Some(0), "{summary}");
    let of_seqcdc = grid.iter().filter(|each| algorithm(each) == "seqcdc").count();
    assert!(of_seqcdc > 10 && grid.len() > of_seqcdc + 50, "{of_seqcdc} of {}", grid.len());
    let candidate_count = summary["candidate_count"].as_u64().expect("a number");
    // Some candidates come from `avg=`.
    assert!(candidate_count >= grid.len() as u64, "{candidate_count} of {}", grid.len());
    for each in &grid {
        let mean = number(&each["random_chunk_size_mean"]);
        assert!((3686.0..4506.0).contains(&mean), "10 % around 4096: {each}");
    }
    let papers: Vec<f64> =
        of("paper").iter().map(|each| number(&each["random_chunk_size_mean"])).collect();
    assert_eq!(papers.len(), 3, "Table I");
    assert!(of("average").len() >= 10, "what avg= gives");
    // The best of each algorithm is the first one of it that is not from a paper.
    let best: Vec<&Value> =
        tuned.iter().copied().filter(|each| each["is_best_of_algorithm"] == true).collect();
    for name in &names {
        let first = tuned.iter().find(|each| algorithm(each) == *name && each["origin"] != "paper");
        let marked: Vec<&&Value> = best.iter().filter(|each| algorithm(each) == *name).collect();
        assert_eq!(marked.len(), 1, "{name}");
        assert_eq!(Some(marked[0]), first, "{name}");
    }
    assert_ranked(&tuned);
    // `init` demands this of a specification for a repository with a secret.
    for each in &tuned {
        let spec: Spec = each["spec"].as_str().expect("text").parse().expect("a specification");
        spec.bounded().and_then(Spec::keyable).expect("it can be used");
    }
    let first = tuned[0]["spec"].as_str().expect("text");
    let options = InitOptions {
        suite: CipherSuite::None,
        cut: first.to_owned(),
        region_size: 2 << 20,
        container_size: 16 << 20,
        compression_level: 3,
        delta_chunks: true,
        parity_percent: 0,
        ..InitOptions::default()
    };
    let storage = Arc::new(cutpoint_storage::Memory::new());
    Repository::init(storage, Arc::new(cutpoint_storage::System), &Unlock::Nothing, &options)
        .expect("a repository can have it");
}

/// Checks that the results are ranked, that the front is correct, and that each specification is
/// written in full.
fn assert_ranked(tuned: &[&Value]) {
    let number = |value: &Value| value.as_f64().expect("a number");
    let savings: Vec<f64> = tuned.iter().map(|each| number(&each["net_space_savings"])).collect();
    assert!(savings.is_sorted_by(|one, other| one >= other), "{savings:?}");
    for each in tuned {
        let speed = |each: &Value| number(&each["bytes_per_second"]);
        let beaten = tuned.iter().filter(|other| other["origin"] != "paper").any(|other| {
            let saved = [each, other].map(|each| number(&each["net_space_savings"]));
            saved[1] > saved[0] && speed(other) >= speed(each)
        });
        assert!(!(each["is_best"] == true && beaten), "beaten: {each}");
        assert!(!(each["is_best"] == true && each["origin"] == "paper"), "another mean: {each}");
        // The printed specifications are valid.
        let spec = each["spec"].as_str().expect("text");
        let parsed: Spec = spec.parse().expect("a specification");
        assert_eq!(parsed.to_string(), spec, "written out");
    }
}

#[test]
fn front_is_drawn_for_people() {
    let sandbox = Sandbox::new();
    make_source(&sandbox.path("source"));
    let run = sandbox
        .run(["tune", "source", "--average", "4k", "--html", "page.html", "--quiet", "--top", "3"])
        .well();
    for part in [
        "net saved",
        "(Table I)",
        "(avg=)",
        "The best of each algorithm",
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
    let algorithm_count = cutpoint_chunking::algorithms().len() - 2;
    // Below the head of each table: the best of each algorithm beside Table I, and all results.
    assert_eq!(
        count("circle") + algorithm_count + 3 + 2,
        count("tr"),
        "a point and a row for each"
    );
    assert_eq!(count("polyline"), 1, "the front");
}

#[test]
fn only_requested_algorithms_are_tried() {
    let sandbox = Sandbox::new();
    make_source(&sandbox.path("source"));
    let events = sandbox.json(&["tune", "source", "--average", "2k", "-a", "gear,bfbc,samplebyte"]);
    let (summary, rest) = events.split_last().expect("a summary");
    assert_eq!(summary["unreached_algorithms"], serde_json::json!(["samplebyte"]), "{summary}");
    let specs: Vec<&str> = rest.iter().filter_map(|event| event["spec"].as_str()).collect();
    for (name, least) in [("gear:", 10), ("bfbc:", 1), ("seqcdc:", 3)] {
        let count = specs.iter().filter(|spec| spec.starts_with(name)).count();
        assert!(count >= least, "{count} of {name}");
    }
    let others = ["gear:", "bfbc:", "seqcdc:"];
    assert!(specs.iter().all(|spec| others.iter().any(|name| spec.starts_with(name))), "{specs:?}");
    let learned = sandbox.run(["tune", "source", "--average", "2k", "-a", "bfbc"]).well();
    let command = "cutpoint init --encryption none --cut bfbc:";
    let table_one = "cutpoint init --cut seqcdc:";
    let text = learned.text();
    assert!(text.contains(command) || text.matches(table_one).count() == 2, "{text}");
    // An algorithm without such a mean is named.
    let none = sandbox.run(["tune", "source", "-a", "samplebyte"]);
    none.ended(2, &["no algorithm has a mean chunk size near 16.0 KiB: samplebyte"]);
    sandbox.run(["tune", "source", "-a", "gaer"]).ended(2, &["gaer", "gear"]);
}

#[test]
fn untunable_input_is_refused() {
    let sandbox = Sandbox::new();
    fs::write(sandbox.path("empty"), b"").expect("written");
    let refused = |arguments: &[&str], code: i32, texts: &[&str]| {
        sandbox.run([&["tune"], arguments].concat()).ended(code, texts);
    };
    refused(&["nowhere"], 2, &["nowhere: not found"]);
    refused(&["empty", "--average", "2k"], 2, &["no data found"]);
    refused(
        &["empty", "--average", "100"],
        2,
        &["--average: out of range (expected 1.0 KiB to 1.0 MiB)"],
    );
    refused(&["empty", "--sample-size", "0"], 2, &["--sample-size"]);
}
