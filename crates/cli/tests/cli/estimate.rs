//! `estimate`: its results, compared with the real size of a repository, and its exit codes.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

use cutpoint_testing::SplitMix64;
use serde_json::Value;

use crate::failures::SmallDisk;
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

/// Makes one version of a folder: files that resemble each other and those of the versions before, one
/// that resembles none, and many small ones. The padding of containers is a small part of the bytes
/// that a version adds.
fn make_version(folder: &Path, version: usize) {
    fs::create_dir_all(folder.join("small")).expect("folders");
    let write = |name: &str, bytes: &[u8]| {
        fs::write(folder.join(name), bytes).expect("the file is written");
    };
    let base = SplitMix64::bytes(3, 3_000_000);
    for number in 0..6 {
        let mut bytes = base.clone();
        let seed = (version * 6 + number) as u64;
        let rows = bytes.chunks_mut(9_000);
        rows.zip(SplitMix64::bytes(seed, 400)).for_each(|(row, byte)| row[50] = byte);
        write(&format!("resembling {number}"), &bytes);
    }
    write(&format!("only in {version}"), &SplitMix64::bytes(90 + version as u64, 3_000_000));
    let text = cutpoint_testing::input::text(400_000);
    for (number, part) in text.chunks(700).enumerate() {
        write(
            &format!("small/{number}"),
            format!("{}{version}", String::from_utf8_lossy(part)).as_bytes(),
        );
    }
}

/// Returns the size of all files of a repository.
fn size_of(folder: &Path) -> u64 {
    let entries = fs::read_dir(folder).expect("it lists");
    let sizes = entries.map(|entry| {
        let entry = entry.expect("an entry");
        let about = entry.metadata().expect("it is there");
        if about.is_dir() { size_of(&entry.path()) } else { about.len() }
    });
    sizes.sum()
}

fn default_modes(events: &[Value]) -> Vec<&Value> {
    events.iter().filter(|event| event["type"] == "default_mode").collect()
}

fn number(event: &Value, name: &str) -> u64 {
    event[name].as_u64().unwrap_or_else(|| panic!("{name} of {event}"))
}

/// Creates a key file and a repository with the default settings.
fn init_by_default(sandbox: &Sandbox) {
    sandbox.run(["init", "--key-file", "key"]).well();
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

/// The results do not depend on the number of threads. Those of the default mode depend on the secret
/// cut-points of each run.
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
    let (mut one, mut three) = (run("1"), run("3"));
    assert_eq!(estimates(&one).len(), 5, "without a spec there are five");
    near(&default_modes(&one)[0]["stored_bytes"], &default_modes(&three)[0]["stored_bytes"], 0.05);
    for events in [&mut one, &mut three] {
        events.retain(|event| event["type"] != "default_mode");
    }
    assert_eq!(one, three, "three threads");
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
    assert_eq!(count("tr"), 8, "five configurations and the default mode, with headings");
    let of_class = |wanted: &[&str]| {
        let class = |node: &roxmltree::Node<'_, '_>| node.attribute("class").map(str::to_owned);
        let is_wanted = |class: &String| wanted.contains(&class.split(' ').next().unwrap_or(""));
        let rects = page.descendants().filter(|node| node.tag_name().name() == "rect");
        rects.filter_map(|node| class(&node)).filter(is_wanted).count()
    };
    assert_eq!(of_class(&["one", "two", "three", "four"]), 20, "four bars each");
    assert!(of_class(&["cell"]) > 0, "a map of the space");
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
    let mut problems = events.iter().filter(|event| event["type"] == "problem");
    let problem = problems.next().expect("a problem");
    assert_eq!(problems.next(), None, "it is reported once, although it is read twice");
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

/// The promise about the default mode, for one run.
#[test]
fn default_mode_is_what_one_backup_stores() {
    let sandbox = Sandbox::new();
    make_version(&sandbox.path("source"), 0);
    let events = sandbox.json(["estimate", "source", "-a", "fastcdc:avg=64k"]);
    let [found] = default_modes(&events)[..] else { panic!("one event: {events:?}") };
    init_by_default(&sandbox);
    let events = sandbox.json(["backup", "source", "--key-file", "key"]);
    let backup = events.last().expect("a summary");
    let truth = size_of(&sandbox.path("repo"));
    near(&found["stored_bytes"], &truth.into(), 0.1);
    assert_eq!(found["stored_bytes"], found["added_bytes"], "all of it was added");
    assert_eq!(found["file_count"], backup["file_count"], "the files");
    assert_eq!(found["size_bytes"], backup["size_bytes"], "and their size");
    assert!(number(found, "delta_chunk_count") > 20, "chunks resemble others: {found}");
    let difference = number(found, "literal_bytes").abs_diff(number(backup, "literal_bytes"));
    assert!(difference < number(backup, "delta_chunk_bytes") / 10, "{found} is not {backup}");
    assert!(number(found, "metadata_bytes") < number(found, "stored_bytes"), "{found}");
    // Without delta chunks, it would be far off.
    let plain = number(estimates(&sandbox.json(["estimate", "source"]))[0], "stored_bytes");
    assert!(plain > truth * 2, "{plain} is much more than {truth}");
}

/// The same promise for versions in order, for each of them.
#[test]
fn default_mode_is_what_backups_of_versions_store() {
    let sandbox = Sandbox::new();
    let versions = ["v0", "v1", "v2"];
    for (number, version) in versions.iter().enumerate() {
        make_version(&sandbox.path(version), number);
    }
    fs::create_dir(sandbox.path("scratch")).expect("made");
    let base = ["estimate", "--as-versions", "--scratch", "scratch", "-a", "fixed:size=64k"];
    let events = sandbox.json([&base[..], &versions].concat());
    let found = default_modes(&events);
    assert_eq!(found.len(), 3, "an event for each version");
    assert_eq!(
        fs::read_dir(sandbox.path("scratch")).expect("listed").count(),
        0,
        "nothing is left"
    );
    init_by_default(&sandbox);
    let mut before = 0;
    for (version, found) in versions.iter().zip(found) {
        assert_eq!(found["path"], *version, "in order");
        fs::rename(sandbox.path(version), sandbox.path("source")).expect("renamed");
        sandbox.run(["backup", "source", "--key-file", "key"]).well();
        fs::rename(sandbox.path("source"), sandbox.path(version)).expect("renamed back");
        let truth = size_of(&sandbox.path("repo"));
        near(&found["stored_bytes"], &truth.into(), 0.1);
        near(&found["added_bytes"], &(truth - before).into(), 0.1);
        before = truth;
    }
    // Of each later version, only one file is new, and parts of others.
    let added = |event: &Value| number(event, "added_bytes");
    let text = sandbox.run([&base[..], &versions].concat()).well();
    for part in ["default mode", "v0 ", "v2 ", "added", "changed: data in chunks"] {
        assert!(text.text().contains(part), "{part:?} is missing in {}", text.text());
    }
    let found = default_modes(&events);
    assert!(added(found[1]) < added(found[0]) * 2 / 3, "{found:?}");
    // A version that has not changed adds its snapshot.
    let events = sandbox.json([&base[..], &["v0", "v0"]].concat());
    let found = default_modes(&events);
    assert!(added(found[1]) < 200_000, "{found:?}");
}

/// The versions of a file have different names, but one path in their snapshots.
#[test]
fn versions_can_be_files() {
    let sandbox = Sandbox::new();
    let mut dump = SplitMix64::bytes(5, 2_000_000);
    fs::write(sandbox.path("monday"), &dump).expect("written");
    dump.splice(700_000..700_010, [1; 20]);
    fs::write(sandbox.path("tuesday"), &dump).expect("written");
    fs::create_dir(sandbox.path("scratch")).expect("made");
    let base = ["estimate", "--as-versions", "--scratch", "scratch"];
    let events = sandbox.json([&base[..], &["monday", "tuesday"]].concat());
    let found = default_modes(&events);
    assert_eq!(number(found[1], "delta_chunk_count"), 1, "one chunk has changed: {found:?}");
    assert!(number(found[1], "literal_bytes") < 100, "{found:?}");
}

#[test]
fn impossible_versions_are_refused() {
    let sandbox = Sandbox::new();
    make_source(&sandbox.path("one"));
    fs::create_dir(sandbox.path("two")).expect("made");
    let refused = |arguments: &[&str], code: i32, texts: &[&str]| {
        sandbox.run([&["estimate"], arguments].concat()).ended(code, texts);
    };
    refused(&["--as-versions", "one"], 2, &["--as-versions: only one path", "the oldest first"]);
    refused(&["--as-versions", "one", "one/big"], 2, &["one/big is a file, but one is a folder"]);
    refused(&["--as-versions", "one", "one/sub"], 2, &["one/sub is inside", "another version"]);
    refused(&["--as-versions", "one", "three"], 2, &["three: not found"]);
    refused(&["--as-versions", "one", "one/pipe"], 2, &["one/pipe: neither a folder nor a file"]);
    refused(&["one", "--scratch", "three"], 2, &["--scratch three: not found"]);
    refused(&["one", "--scratch", "one/big"], 2, &["--scratch one/big: not a folder"]);
    refused(&["one", "two", "--as-versions", "--no-default-mode"], 2, &["--no-default-mode"]);
    refused(&["one", "two", "--scratch", "two", "--no-default-mode"], 2, &["--no-default-mode"]);
}

#[test]
fn default_mode_can_be_left_out() {
    let sandbox = Sandbox::new();
    make_source(&sandbox.path("source"));
    let events = sandbox.json(["estimate", "source", "--no-default-mode"]);
    assert_eq!(default_modes(&events).len(), 0, "it was not asked for");
    assert_eq!(estimates(&events).len(), 5, "the table is the same");
    let run = sandbox.run(["estimate", "source", "--no-default-mode"]).well();
    assert!(!run.text().contains("default mode"), "{}", run.text());
    // A sample limits the memory of the table, and changes nothing about the default mode.
    let all = sandbox.json(["estimate", "source"]);
    let sampled = sandbox.json(["estimate", "source", "--sample"]);
    let (all, sampled) = (default_modes(&all)[0], default_modes(&sampled)[0]);
    assert_eq!(all["size_bytes"], sampled["size_bytes"], "all of the data");
    let difference = number(all, "stored_bytes").abs_diff(number(sampled, "stored_bytes"));
    assert!(difference <= 2 * PADDING, "{all} and {sampled}");
}

/// Data that has no room ends the command, after the table.
#[test]
fn full_scratch_folder_ends_the_estimate() {
    let sandbox = Sandbox::new();
    let Some(disk) = SmallDisk::mount(&sandbox, "disk", "2m") else { return };
    for version in ["one", "two"] {
        fs::write(sandbox.path(version), SplitMix64::bytes(4, 5_000_000)).expect("written");
    }
    let run = sandbox.run(["estimate", "--as-versions", "--scratch", "disk", "one", "two"]);
    let run = run.ended(14, &["temporary data in disk: No space left", "free some space there"]);
    assert!(run.text().contains("fastcdc:avg=64k"), "the table is printed: {}", run.text());
    assert!(!run.text().contains("default mode"), "nothing is claimed: {}", run.text());
    let free = rustix::fs::statvfs(&disk.0).expect("counted");
    assert_eq!(free.f_bfree, free.f_blocks, "the space is free again");
    // What only counts needs none.
    sandbox.run(["estimate", "one", "two"]).well();
}

#[test]
fn interrupted_default_mode_leaves_the_versions_before() {
    let sandbox = Sandbox::new();
    fs::create_dir(sandbox.path("scratch")).expect("made");
    for version in ["v0", "v1"] {
        fs::create_dir(sandbox.path(version)).expect("made");
    }
    fs::write(sandbox.path("v0/file"), b"short").expect("written");
    // Long enough for progress to be printed while it is read, which happens twice a second.
    let long = cutpoint_testing::input::text(240_000_000);
    fs::write(sandbox.path("v1/file"), long).expect("written");
    let arguments = ["estimate", "--as-versions", "v0", "v1", "--scratch", "scratch", "--json"];
    let cheap = ["--threads", "1", "-a", "fixed:size=64k", "--no-bursts", "--no-compression"];
    let mut child =
        sandbox.command(arguments).args(cheap).stdout(Stdio::piped()).spawn().expect("it starts");
    let lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
    let mut rest = Vec::new();
    let (mut read, mut is_second_pass, mut is_asked) = (0, false, false);
    for line in lines {
        let line = line.expect("a line");
        let event: Value = serde_json::from_str(&line).expect("JSON");
        if event["type"] == "progress" {
            // The counters begin again with the second pass, whose first version is complete at once.
            let size = event["size_bytes"].as_u64().unwrap_or(0);
            is_second_pass |= size < read;
            let path = event["path"].as_str().unwrap_or_default();
            // A second signal would end the command at once.
            if is_second_pass && path.ends_with("v1/file") && !is_asked {
                is_asked = true;
                let asked = Command::new("kill").args(["-INT", &child.id().to_string()]).status();
                assert!(asked.is_ok_and(|status| status.success()), "it is asked to stop");
            }
            read = read.max(size);
        }
        rest.push(event);
    }
    assert_eq!(child.wait().expect("it ends").code(), Some(130), "{rest:?}");
    let found = default_modes(&rest);
    assert_eq!(found.len(), 1, "the first version was complete: {rest:?}");
    assert_eq!(estimates(&rest).len(), 1, "the table was complete");
    assert_eq!(
        fs::read_dir(sandbox.path("scratch")).expect("listed").count(),
        0,
        "nothing is left"
    );
}
