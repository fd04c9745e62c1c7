//! `bench`: its output, files and failures. The measurements are tested in its crate.

use std::fs;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use cutpoint_chunking::Level;
use cutpoint_testing::SplitMix64;

use crate::sandbox::{Run, Sandbox};

const SMALL: [&str; 5] = ["bench", "--size", "256k", "--rounds", "1"];

fn small(sandbox: &Sandbox, arguments: &[&str]) -> Run {
    sandbox.run([&SMALL, arguments].concat())
}

#[test]
fn every_level_is_measured() {
    let sandbox = Sandbox::new();
    let events = small(&sandbox, &["-a", "seqcdc:avg=8k", "--json"]).well().events();
    let (summary, speeds) = events.split_last().expect("a summary");
    let names: Vec<_> =
        speeds.iter().map(|speed| speed["name"].as_str().expect("a name")).collect();
    // SeqCDC has code for every level but the last.
    let levels = Level::available().into_iter().map(Level::name);
    assert_eq!(names, levels.filter(|name| *name != "avx512vbmi").collect::<Vec<_>>(), "levels");
    for speed in speeds {
        assert!(speed["bytes_per_second"].as_f64().is_some_and(|speed| speed > 0.0), "{speed}");
        assert!(speed["scalar_ratio"].is_number(), "{speed}");
        assert!(speed["agrees"] == true && speed["kind"] == "level", "{speed}");
        let mean = speed["chunk_size_mean"].as_f64().expect("a mean");
        assert!((4000.0..16_000.0).contains(&mean), "a mean of {mean}");
    }
    assert_eq!(summary["size_bytes"], 262_144, "size");
    assert_eq!(summary["round_count"], 1, "rounds");
}

#[test]
fn all_algorithms_are_measured_by_default() {
    let sandbox = Sandbox::new();
    let events =
        small(&sandbox, &["--level", "scalar", "--fingerprints", "--json"]).well().events();
    let specs: Vec<_> = events.iter().filter_map(|event| event["spec"].as_str()).collect();
    for about in cutpoint_chunking::algorithms() {
        // Algorithms that are learned from data have no parameters for a mean.
        let has_mean =
            cutpoint_chunking::Spec::for_average(about.name, 8192).is_ok() || about.name == "fixed";
        let is_there = specs.iter().any(|spec| spec.split(':').next() == Some(about.name));
        assert_eq!(is_there, has_mean, "{}", about.name);
    }
    for size in ["8192", "16384", "65536"] {
        assert!(specs.contains(&format!("blake3:size={size}").as_str()), "fingerprints of {size}");
    }
}

#[test]
fn bars_are_drawn_for_people() {
    let sandbox = Sandbox::new();
    let run =
        small(&sandbox, &["-a", "ram:avg=8k", "--papers", "--data", "text", "--quiet"]).well();
    for part in ["text data, 256.0 KiB", "ram:window=", "plain read ", "scalar ", "x read", "####"]
    {
        assert!(run.text().contains(part), "{part:?} is missing in {}", run.text());
    }
    if cfg!(target_arch = "x86_64") {
        assert!(run.text().contains("VRAM-128"), "the paper's form is missing in {}", run.text());
    }
    assert_eq!(run.stderr, "", "nothing else");
}

#[test]
fn charts_are_self_contained() {
    let sandbox = Sandbox::new();
    fs::write(sandbox.path("a & b"), SplitMix64::bytes(3, 100_000)).expect("written");
    let files = ["--svg", "speed.svg", "--html", "speed.html", "--file", "a & b"];
    let run = small(&sandbox, &[&["-a", "gear:bits=13"][..], &files].concat()).well();
    assert!(run.text().contains("a & b, 97.7 KiB"), "the whole file: {}", run.text());
    let read = |name: &str| fs::read_to_string(sandbox.path(name)).expect("it is written");
    let svg = read("speed.svg");
    let document = roxmltree::Document::parse(&svg).expect("the chart is XML");
    let texts: Vec<_> = document.descendants().filter_map(|node| node.text()).collect();
    assert!(texts.iter().any(|text| text.contains("a & b, 97.7 KiB")), "the setting: {texts:?}");
    assert!(texts.iter().any(|text| text.trim().starts_with("gear:")), "the spec: {texts:?}");
    let bars = document
        .descendants()
        .filter(|node| node.has_tag_name("rect") || node.tag_name().name() == "rect");
    assert!(bars.count() >= 3, "the ground, the plain read, a level");
    let html = read("speed.html");
    let options = roxmltree::ParsingOptions { allow_dtd: true, ..Default::default() };
    let page = roxmltree::Document::parse_with_options(&html, options).expect("the page is XML");
    let cells = page.descendants().filter(|node| node.tag_name().name() == "td");
    assert!(cells.count() >= 18, "two rows and more");
    for text in [&svg, &html] {
        let links = text.matches("http").count() - text.matches("http://www.w3.org/").count();
        assert_eq!(links, 0, "nothing is fetched");
    }
}

#[test]
fn instructions_are_timed() {
    let sandbox = Sandbox::new();
    let run = sandbox.run(["bench", "--instructions", "--rounds", "1", "--json"]);
    if cfg!(not(target_arch = "x86_64")) {
        run.ended(2, &["--instructions"]);
        return;
    }
    let events = run.well().events();
    assert_eq!(events[0]["name"], "add r64", "the first one is for comparison");
    assert!(events.iter().all(|event| event["latency_ns"].as_f64() > Some(0.0)), "{events:?}");
    let text = sandbox.run(["bench", "--instructions", "--rounds", "1"]).well();
    assert!(text.text().contains("pcmpgtb xmm"), "{}", text.text());
}

#[test]
fn unmeasurable_input_is_refused() {
    let sandbox = Sandbox::new();
    fs::write(sandbox.path("empty"), b"").expect("written");
    fs::write(sandbox.path("short"), [1; 1000]).expect("written");
    let refused = |arguments: &[&str], texts: &[&str]| {
        small(&sandbox, arguments).ended(2, texts);
    };
    refused(&["--file", "nowhere"], &["nowhere: not found"]);
    refused(&["--file", "."], &["a folder (expected a file)"]);
    refused(&["--file", "empty"], &["empty: 0 B is too small", "64.0 KiB"]);
    refused(&["--file", "short"], &["short: 1000 B is too small"]);
    refused(&["--level", "mmx"], &["--level", "\"mmx\"", "scalar"]);
    refused(&["-a", "gear:avg=1"], &["--algorithm", "gear"]);
    refused(&["--average", "0"], &["--average"]);
    refused(&["--file", "short", "--data", "zeros"], &["--data"]);
    refused(&["--instructions", "--papers"], &["--papers"]);
    refused(&["--time", "1"], &["--rounds"]);
    sandbox.run(["bench", "--size", "1k"]).ended(2, &["--size: 1.0 KiB is too small"]);
    sandbox.run(["bench", "--rounds", "0"]).ended(2, &["--rounds"]);
    // Fixed sizes need no vectors.
    if Level::named("avx2").is_ok() {
        refused(&["-a", "fixed:size=8k", "--level", "avx2"], &["--level", "has code for avx2"]);
    }
    refused(&["-a", "fixed:size=8k", "--svg", "nowhere/x.svg"], &["nowhere/x.svg: not found"]);
}

/// Each form of a paper has a specification among the defaults.
#[test]
fn every_form_of_a_paper_is_measured() {
    if cfg!(not(target_arch = "x86_64")) {
        return;
    }
    let sandbox = Sandbox::new();
    let events = small(&sandbox, &["--papers", "--level", "scalar", "--json"]).well().events();
    let papers = events.iter().filter(|event| event["kind"] == "paper");
    let names: Vec<_> = papers.filter_map(|event| event["name"].as_str()).collect();
    for form in ["SS-CRC", "SS-Gear", "VRAM", "VAE", "VMAXP", "VSEQ"] {
        assert!(names.contains(&format!("{form}-128").as_str()), "{form} is missing in {names:?}");
    }
}

#[test]
fn ctrl_c_ends_a_benchmark() {
    let sandbox = Sandbox::new();
    let mut command = sandbox.command(["bench", "--size", "1M", "--rounds", "10000"]);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().expect("the program starts");
    sleep(Duration::from_millis(1500));
    let id = child.id().to_string();
    let sent = Command::new("kill").args(["-s", "INT", &id]).status().expect("the signal is sent");
    assert!(sent.success(), "it runs for long enough to be stopped");
    let output = child.wait_with_output().expect("it ends");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(130), "{stderr}");
    assert!(stderr.contains("cutpoint-lab: interrupted; no results are shown"), "{stderr}");
    assert!(output.stdout.is_empty(), "no figures");
}
