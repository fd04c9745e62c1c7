//! `trace`: its rows agree with `estimate`, as read by this program and by DuckDB.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use cutpoint_estimate::scan::{Monitor, ScanOptions};
use cutpoint_estimate::{ConfigurationResult, EstimateOptions, estimate};
use serde_json::Value;

use crate::sandbox::{Sandbox, make_source};

struct Unobserved;

impl Monitor for Unobserved {}

const SPEC: [&str; 2] = ["-a", "fastcdc:avg=4k"];
const FIGURES: [&str; 7] = [
    "read_bytes",
    "zero_bytes",
    "chunk_count",
    "unique_chunk_count",
    "unique_bytes",
    "dedup_space_savings",
    "dedup_ratio",
];

fn figures(events: &[Value], kind: &str) -> Vec<Value> {
    let event = events.iter().find(|event| event["type"] == kind).expect("it is told");
    FIGURES.iter().map(|name| event[name].clone()).collect()
}

/// Returns the figures of an estimate of `folder`.
fn estimated(folder: &Path) -> Vec<Value> {
    let options = EstimateOptions {
        scan: ScanOptions { paths: vec![folder.to_owned()], ..ScanOptions::default() },
        specs: vec![SPEC[1].parse().expect("a specification")],
        compression: false,
        ..EstimateOptions::default()
    };
    let estimated = estimate(&options, &Unobserved).expect("it is read");
    let ConfigurationResult { dedup, zero_bytes, .. } = &estimated.configurations[0];
    let figures = serde_json::json!([
        dedup.read_bytes,
        zero_bytes,
        dedup.chunk_count,
        dedup.unique_chunk_count,
        dedup.stored_bytes,
        dedup.space_savings(),
        dedup.dedup_ratio(),
    ]);
    // The parser of JSON rounds the last digit of numbers.
    serde_json::from_str(&figures.to_string()).expect("an array")
}

#[test]
fn traces_agree_with_the_estimate() {
    let sandbox = Sandbox::new();
    make_source(&sandbox.path("source"));
    let expected = estimated(&sandbox.path("source"));
    let events = sandbox.json(&[&["trace", "source", "-o", "all.parquet"][..], &SPEC].concat());
    let summary = events.last().expect("a summary");
    assert_eq!(summary["row_count"], expected[2], "a row for each chunk");
    let all = sandbox.json(&["trace", "--read", "all.parquet"]);
    assert_eq!(figures(&all, "trace"), expected, "the same figures");
    // The parts together are the full chunk, in any format.
    for (number, name) in [("1/3", "1.csv"), ("2/3", "2.parquet"), ("3/3", "3.csv")] {
        let part = ["trace", "source", "-o", name, "--shard", number, "--paths", "paths.txt"];
        let range_size = ["--range-size", "100k"];
        sandbox.run([&part[..], &range_size, &SPEC].concat()).well();
    }
    let parts = sandbox.json(&["trace", "--read", "1.csv", "2.parquet", "3.csv"]);
    assert_eq!(figures(&parts, "trace"), expected, "of all parts");
    // A part alone has gaps, which joining fills.
    let alone = sandbox.run(["trace", "--read", "1.csv", "3.csv", "--json"]);
    let alone = alone.ended(1, &[]).events();
    let event = alone.iter().find(|event| event["type"] == "trace").expect("it is told");
    assert!(event["broken_seam_count"].as_u64() > Some(0), "{event}");
    let join = ["trace", "source", "-o", "joined.csv", "--join", "1.csv", "3.csv"];
    let joined = sandbox.json(&[&join[..], &SPEC].concat());
    let summary = joined.last().expect("a summary");
    assert_eq!(summary["broken_seam_count"], event["broken_seam_count"], "{summary}");
    assert!(summary["new_bytes"].as_u64() > Some(0), "{summary}");
    let joined = sandbox.json(&["trace", "--read", "joined.csv"]);
    let event = joined.iter().find(|event| event["type"] == "trace").expect("it is told");
    assert_eq!(event["broken_seam_count"], 0, "{event}");
    let text = sandbox.run(["trace", "--read", "1.csv"]).ended(1, &["broken seam", "--join"]);
    assert!(text.text().contains("space savings"), "{}", text.text());
    let paths = fs::read_to_string(sandbox.path("paths.txt")).expect("it is written");
    assert!(paths.starts_with("path_id,path\n"), "{paths}");
    // A key changes the fingerprints, but no figure.
    fs::write(sandbox.path("key"), b"secret").expect("written");
    let keyed = ["trace", "source", "-o", "keyed.parquet", "--fingerprint-key", "key"];
    sandbox.run([&keyed[..], &SPEC].concat()).well();
    let both = sandbox.json(&["trace", "--read", "keyed.parquet"]);
    assert_eq!(figures(&both, "trace"), expected, "the same figures");
    let mixed = sandbox.json(&["trace", "--read", "keyed.parquet", "all.parquet"]);
    let number = |value: &Value| value.as_u64().expect("a number");
    let unique = number(&figures(&mixed, "trace")[3]);
    assert_eq!(unique, 2 * number(&expected[3]), "no chunk is of both");
    let text = sandbox.run(["trace", "--read", "all.parquet"]).well();
    assert!(text.text().contains("space savings"), "{}", text.text());
}

/// The queries that come with the crate, run in DuckDB itself: `pip install duckdb`.
#[test]
fn duckdb_agrees_with_the_estimate() {
    let sandbox = Sandbox::new();
    let has_duckdb = Command::new("python3").args(["-c", "import duckdb"]).output();
    if !has_duckdb.is_ok_and(|output| output.status.success()) {
        eprintln!("SKIPPED: python3 has no module duckdb; the queries were not tried");
        return;
    }
    make_source(&sandbox.path("source"));
    for number in ["1/2", "2/2"] {
        let output = format!("{}.parquet", &number[..1]);
        let part = ["trace", "source", "-o", &output, "--range-size", "100k", "--shard", number];
        sandbox.run([&part[..], &SPEC].concat()).well();
    }
    let expected = sandbox.json(&["trace", "--read", "1.parquet", "2.parquet"]);
    let expected = figures(&expected, "trace");
    let queries = concat!(env!("CARGO_MANIFEST_DIR"), "/sql");
    let script = "\
import duckdb, json, sys
connection = duckdb.connect()
connection.execute(\"SET VARIABLE traces = '*.parquet'\")
run = lambda name: connection.execute(open(f'{sys.argv[1]}/{name}.sql').read()).fetchall()
rows = [run('savings'), run('heavy'), [row[1:] for row in run('growth')], run('seams')]
connection.execute(\"SET VARIABLE traces = '1.parquet'\")
print(json.dumps([*rows, run('seams')]))
";
    let output = Command::new("python3")
        .args(["-c", script, queries])
        .current_dir(sandbox.path(""))
        .output()
        .expect("it runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let found: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    for (number, expected) in expected.iter().enumerate() {
        let (found, expected) = (found[0][0][number].as_f64(), expected.as_f64());
        let (found, expected) = (found.expect("a number"), expected.expect("a number"));
        assert!((found - expected).abs() < 1e-9, "{}: {found}, not {expected}", FIGURES[number]);
    }
    let heavy = found[1].as_array().expect("rows");
    let saved: i64 = heavy.iter().map(|row| row[4].as_i64().expect("bytes")).sum();
    let number = |at: usize| expected[at].as_i64().expect("bytes");
    // The hundred chunks that save most.
    let all = number(0) - number(1) - number(4);
    assert!(heavy.len() == 100 && saved > all / 2 && saved < all, "{saved} of {all}");
    let growth = found[2].as_array().expect("rows");
    assert_eq!(growth.last().expect("the last")[2], expected[4], "all that is unique");
    let seams = |at: usize| found[at].as_array().expect("rows").len();
    assert_eq!(seams(3), 0, "the parts fit together: {}", found[3]);
    assert!(seams(4) > 0, "one part alone has gaps");
}

#[test]
fn untraceable_input_is_refused() {
    let sandbox = Sandbox::new();
    make_source(&sandbox.path("source"));
    fs::write(sandbox.path("empty"), b"").expect("written");
    symlink("/dev/full", sandbox.path("full.csv")).expect("made");
    symlink("/dev/full", sandbox.path("full.parquet")).expect("made");
    let refused = |arguments: &[&str], code: i32, texts: &[&str]| {
        sandbox.run([&["trace"], arguments].concat()).ended(code, texts);
    };
    refused(&[], 2, &["--output <FILE>", "missing"]);
    refused(&["source"], 2, &["--output"]);
    refused(&["source", "-o", "x.txt"], 2, &["x.txt: unknown type of file"]);
    refused(&["nowhere", "-o", "x.csv"], 2, &["nowhere: not found"]);
    assert!(!sandbox.path("x.csv").exists(), "nothing was made");
    refused(&["source", "-o", "nowhere/x.csv"], 2, &["nowhere/x.csv: not found"]);
    refused(&["source", "-o", "full.csv"], 14, &["full.csv: No space left"]);
    refused(&["source", "-o", "full.parquet"], 14, &["full.parquet: No space left"]);
    refused(&["empty", "-o", "x.csv"], 2, &["no data found in 1 file"]);
    refused(&["source", "-o", "x.csv", "--fingerprint-key", "empty"], 2, &["empty: empty key"]);
    for shard in ["0/3", "4/3", "3", "1/0", "a/b"] {
        refused(&["source", "-o", "x.csv", "--shard", shard], 2, &["--shard"]);
    }
    refused(&["source", "-o", "x.csv", "--range-size", "1M"], 2, &["--shard"]);
    let part = ["source", "-o", "x.csv", "--shard", "1/2", "--range-size"];
    refused(&[&part[..], &["0"]].concat(), 2, &["--range-size", "must not be 0"]);
    refused(&["--join", "x.csv"], 2, &["--output"]);
    refused(&["source", "-o", "y.csv", "--join", "nowhere"], 2, &["nowhere: not found"]);
    fs::write(sandbox.path("self.csv"), b"").expect("written");
    refused(&["source", "-o", "self.csv", "--join", "self.csv"], 2, &["self.csv: it is also"]);
    refused(&["--read", "nowhere"], 2, &["nowhere: not found"]);
    refused(&["--read", "empty"], 2, &["empty: neither Parquet"]);
    refused(&["--read", "source/big"], 2, &["source/big: neither Parquet"]);
    refused(&["--read", "source"], 2, &["source: "]);
    refused(&["source", "--read", "x.csv"], 2, &["--read"]);
}
