//! `estimate`: its results, compared with the real size of a repository, and its exit codes.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

use cutpoint_testing::SplitMix64;
use serde_json::Value;

use crate::sandbox::{Sandbox, make_source, run};

/// Makes about 8 MiB of realistic data: versions, copies, text, random bytes, zeros, holes, many
/// small files.
fn make_data(folder: &Path) {
    make_source(folder);
    let write = |name: &str, bytes: &[u8]| {
        fs::write(folder.join(name), bytes).expect("the file is written");
    };
    let mut image = SplitMix64::bytes(7, 1_500_000);
    let text = cutpoint_testing::input::text(2_000_000);
    for version in 0..3 {
        write(&format!("image {version}"), &image);
        for place in 0..20 {
            image[place * 70_000 + version * 100] ^= 1;
        }
        image.splice(500_000..500_000, [1, 2, 3]);
    }
    write("text", &text);
    write("zeros", &vec![0; 600_000]);
    fs::create_dir(folder.join("small")).expect("a folder");
    for number in 0..600 {
        let size = 100 + number * 7;
        write(&format!("small/{number}"), &SplitMix64::bytes(number as u64, size));
    }
}

fn estimates(events: &[Value]) -> Vec<&Value> {
    events.iter().filter(|event| event["type"] == "estimate").collect()
}

/// The multiple of which the length of a container is.
const PADDING: u64 = 64 << 10;

#[track_caller]
fn near(found: &Value, truth: &Value, tolerance: f64) {
    let (found, truth) = (found.as_f64().expect("a number"), truth.as_f64().expect("a number"));
    assert!((found / truth - 1.0).abs() < tolerance, "{found} is not {truth}");
}

/// The central promise: the same chunks to the byte, and their stored size within 3 %.
#[test]
fn estimate_matches_the_backup() {
    let sandbox = Sandbox::new();
    make_data(&sandbox.path("source"));
    let specs = ["fastcdc:avg=64k", "seqcdc:avg=4k", "fixed:size=2k"];
    let mut arguments = vec!["estimate", "source"];
    specs.iter().for_each(|spec| arguments.extend(["-a", spec]));
    let events = sandbox.json(arguments);
    let estimates = estimates(&events);
    assert_eq!(estimates.len(), specs.len(), "one for each");
    for (spec, estimate) in specs.iter().zip(estimates) {
        let matching = ["--encryption", "none", "--delta", "off"];
        let folder = format!("./{spec}");
        let repo = ["--repo", &folder];
        sandbox.run([&["init", "--cut", spec][..], &matching, &repo].concat()).well();
        sandbox.run([&["backup", "source"][..], &repo].concat()).well();
        let events = sandbox.json([&["stats"][..], &repo].concat());
        let stats = events.last().expect("a summary");
        assert_eq!(estimate["unique_bytes"], stats["unique_bytes"], "{spec}: unique bytes");
        assert_eq!(estimate["unique_chunk_count"], stats["data_chunk_count"], "{spec}: chunks");
        near(&estimate["compressed_bytes"], &stats["compressed_bytes"], 0.001);
        near(&estimate["stored_bytes"], &stats["stored_bytes"], 0.03);
        let metadata = |of: &Value| {
            let number = |name: &str| of[name].as_u64().expect("a number");
            number("stored_bytes") - number("compressed_bytes")
        };
        let (found, truth) = (estimate["metadata_bytes"].as_u64(), metadata(stats));
        let error = found.expect("a number").abs_diff(truth);
        // The times of the files decide how small trees become, and thus on which side of a multiple
        // of 64 KiB their container ends.
        assert!(error <= PADDING.max(truth * 15 / 100), "{estimate} is not {truth}");
    }
    let summary = events.last().expect("a summary");
    assert_eq!(summary["hole_bytes"], 3_000_000, "the hole");
    assert!(summary["size_bytes"].as_u64() > Some(10_000_000), "{summary}");
}

#[test]
fn bursts_are_found() {
    let sandbox = Sandbox::new();
    make_data(&sandbox.path("source"));
    let events = sandbox.json(["estimate", "source", "-a", "fastcdc:avg=16k"]);
    let estimate = estimates(&events)[0];
    let bursts = &estimate["bursts"];
    assert!(bursts["burst_count"].as_u64() > Some(20), "{bursts}");
    let saved = estimate["unique_bytes"].as_u64().expect("bytes")
        - bursts["new_bytes"].as_u64().expect("bytes");
    assert!(saved > 300_000, "{saved} bytes of three versions");
    let without = sandbox.json(["estimate", "source", "-a", "fastcdc:avg=16k", "--no-bursts"]);
    let mut estimate = estimate.clone();
    let mut plain = estimates(&without)[0].clone();
    for of in [&mut estimate, &mut plain] {
        for time in ["chunking_ns", "fingerprinting_ns", "compressing_ns", "bursts"] {
            of.as_object_mut().expect("an object").remove(time);
        }
    }
    assert_eq!(estimate, plain, "the rest does not change");
}

/// The results do not depend on the number of threads.
#[test]
fn results_do_not_depend_on_threads() {
    let sandbox = Sandbox::new();
    make_data(&sandbox.path("source"));
    let run = |threads: &str| {
        let mut events = sandbox.json(["estimate", "source", "--threads", threads]);
        for event in &mut events {
            let fields = event.as_object_mut().expect("an object");
            fields.retain(|name, _| !name.ends_with("_ns"));
        }
        events.retain(|event| event["type"] != "progress");
        events
    };
    let one = run("1");
    assert_eq!(estimates(&one).len(), 5, "without a spec there are five");
    assert_eq!(one, run("3"), "three threads");
}

#[test]
fn sample_has_a_confidence_interval() {
    let sandbox = Sandbox::new();
    make_data(&sandbox.path("source"));
    let base = ["estimate", "source", "-a", "fixed:size=256", "--no-compression"];
    let all = sandbox.json(base);
    let all = estimates(&all)[0];
    assert_eq!(all["sample"], Value::Null, "all are counted");
    assert_eq!(all["compressed_bytes"], Value::Null, "nothing is compressed");
    let events = sandbox.json([&base[..], &["--sample", "--sample-memory", "1M"]].concat());
    let estimate = estimates(&events)[0];
    let sample = &estimate["sample"];
    assert!(sample["rate"].as_u64() > Some(1), "a sample: {sample}");
    assert_eq!(estimate["read_bytes"], all["read_bytes"], "what is read is exact");
    assert_eq!(estimate["chunk_count"], all["chunk_count"], "how many chunks, too");
    let truth = all["dedup_space_savings"].as_f64();
    assert!(sample["dedup_space_savings_low"].as_f64() <= truth, "{sample} and {truth:?}");
    assert!(sample["dedup_space_savings_high"].as_f64() >= truth, "{sample} and {truth:?}");
    assert_eq!(estimate["bursts"], Value::Null, "not of a sample");
    // If everything fits into the sample, the result is exact.
    let events = sandbox.json([&base[..], &["--sample"]].concat());
    let exact = estimates(&events)[0];
    assert_eq!(exact["sample"]["rate"], 1, "all");
    assert_eq!(exact["unique_bytes"], all["unique_bytes"], "exact");
}

#[test]
fn table_is_printed_for_people() {
    let sandbox = Sandbox::new();
    make_data(&sandbox.path("source"));
    let run = sandbox.run(["estimate", "source", "--html", "page.html"]).well();
    for part in
        ["fastcdc:avg=64k", "fixed:size=16k", "dedup", "with bursts", "metadata", " %", "GB/s"]
    {
        assert!(run.text().contains(part), "{part:?} is missing in {}", run.text());
    }
    assert_eq!(run.stderr, "", "nothing else");
    let html = fs::read_to_string(sandbox.path("page.html")).expect("it is written");
    let options = roxmltree::ParsingOptions { allow_dtd: true, ..Default::default() };
    let page = roxmltree::Document::parse_with_options(&html, options).expect("the page is XML");
    let count =
        |name: &str| page.descendants().filter(|node| node.tag_name().name() == name).count();
    assert_eq!(count("tr"), 6, "a heading and five configurations");
    assert_eq!(count("rect"), 20, "four bars each");
    assert!(html.contains("prefers-color-scheme: dark"), "light and dark");
    let links = html.matches("http").count() - html.matches("http://www.w3.org/").count();
    assert_eq!(links, 0, "nothing is fetched");
    let sampled = sandbox
        .run(["estimate", "source", "-a", "fixed:size=256", "--sample", "--sample-memory", "1M"])
        .well();
    assert!(sampled.text().contains("(95 %), from one chunk in"), "{}", sampled.text());
}

#[test]
fn empty_and_tiny_input_is_handled() {
    let sandbox = Sandbox::new();
    fs::create_dir(sandbox.path("empty")).expect("a folder");
    fs::write(sandbox.path("one"), b"x").expect("written");
    fs::write(sandbox.path("none"), b"").expect("written");
    let refused = |arguments: &[&str], code: i32, texts: &[&str]| {
        sandbox.run([&["estimate"], arguments].concat()).ended(code, texts);
    };
    refused(&["empty"], 2, &["no data found in 0 files"]);
    refused(&["none"], 2, &["no data found in 1 file"]);
    refused(&["nowhere"], 2, &["nowhere: not found"]);
    refused(&[], 2, &["PATH"]);
    refused(&["one", "-a", "nonsense"], 2, &["--algorithm", "nonsense"]);
    refused(&["one", "-a", "gear:bits=13"], 2, &["--algorithm", "has no largest chunk"]);
    refused(&["one", "--sample", "--sample-memory", "1k"], 2, &["--sample-memory: 1.0 KiB is too"]);
    refused(&["one", "--exclude-file", "nowhere"], 2, &["exclude file nowhere"]);
    refused(&["one", "--html", "nowhere/x.html"], 2, &["nowhere/x.html: not found"]);
    let full = sandbox.run(["estimate", "one", "--html", "/dev/full"]);
    let full = full.ended(14, &["/dev/full: No space left", "free some space"]);
    assert!(!full.stderr.contains("stored"), "nothing was stored: {}", full.stderr);
    let events = sandbox.json(["estimate", "one", "none"]);
    let estimate = estimates(&events)[0];
    assert_eq!(estimate["read_bytes"], 1, "one byte");
    assert_eq!(estimate["unique_chunk_count"], 1, "in one chunk");
    assert_eq!(estimate["dedup_space_savings"], 0.0, "nothing is saved");
    assert!(estimate["stored_space_savings"].as_f64() < Some(-1000.0), "a repository has a size");
    // Excluded files are not read.
    fs::write(sandbox.path("empty/a.iso"), [1; 5000]).expect("written");
    refused(&["empty", "--exclude", "*.iso"], 2, &["no data found in 0 files"]);
}

#[test]
fn unreadable_files_are_reported() {
    let sandbox = Sandbox::new();
    make_source(&sandbox.path("source"));
    let close = |path: &str| {
        let mode = fs::Permissions::from_mode(0o000);
        fs::set_permissions(sandbox.path(path), mode).expect("set");
    };
    close("source/big");
    if !sandbox.give_away() {
        return;
    }
    let mut command = sandbox.command_of_user(["estimate", "source", "--json"]);
    let events = run(&mut command).ended(1, &[]).events();
    let problem = events.iter().find(|event| event["type"] == "problem").expect("a problem");
    assert!(problem["path"].as_str().is_some_and(|path| path.ends_with("source/big")), "{problem}");
    let summary = events.last().expect("a summary");
    assert_eq!(summary["problem_count"], 1, "one");
    assert!(estimates(&events)[0]["read_bytes"].as_u64() > Some(700_000), "its copy is read");
}

#[test]
fn interrupted_estimate_prints_partial_results() {
    let sandbox = Sandbox::new();
    let folder = sandbox.path("source");
    fs::create_dir(&folder).expect("a folder");
    let bytes = SplitMix64::bytes(9, 16 << 20);
    for number in 0..24 {
        fs::write(folder.join(number.to_string()), &bytes).expect("written");
    }
    // Small chunks and one thread make the estimate slow.
    let mut command = sandbox.command(["estimate", "source", "--json", "--threads", "1"]);
    for size in 64..96 {
        command.args(["-a", &format!("fixed:size={size}")]);
    }
    let mut child = command.stdout(Stdio::piped()).spawn().expect("it starts");
    let mut lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
    let first = lines.next().expect("progress").expect("a line");
    assert!(first.contains(r#""type":"progress""#), "{first}");
    let asked = Command::new("kill").args(["-INT", &child.id().to_string()]).status();
    assert!(asked.is_ok_and(|status| status.success()), "it is asked to stop");
    let rest: Vec<String> = lines.map(|line| line.expect("a line")).collect();
    assert_eq!(child.wait().expect("it ends").code(), Some(130), "{rest:?}");
    let summary: Value = serde_json::from_str(rest.last().expect("a summary")).expect("JSON");
    assert_eq!(summary["partial"], true, "{summary}");
    let size = summary["size_bytes"].as_u64().expect("bytes");
    assert!(size > 0 && size < 24 * (16 << 20), "a part: {size}");
    let estimate = rest.iter().find(|line| line.contains(r#""type":"estimate""#));
    let estimate: Value = serde_json::from_str(estimate.expect("what it has")).expect("JSON");
    assert_eq!(estimate["read_bytes"], size, "what was read counts");
}
