//! `cut`, compared with the lists of cut-points in `vectors/oracle`.

use std::fs;
use std::path::Path;

use cutpoint_chunking::{Level, Spec};
use cutpoint_testing::input;

use crate::sandbox::{Sandbox, run_with_input};

const LISTS: [(&str, &str, &str); 4] = [
    (
        "fastcdc-5.0.0/v2020__2048_8192_65536_nc1__rand.csv",
        "fastcdc:level=1,min=2048,normal=8192,max=65536,seed=0",
        "rand",
    ),
    (
        "fastcdc-5.0.0/v2020__1024_4096_32768_nc1__edge48.csv",
        "fastcdc:level=1,min=1024,normal=4096,max=32768,seed=0",
        "edge48",
    ),
    (
        "dedup-bench/text2m/seqcdc_inc_8k_len5_trig50_skip256_min4096_max16384.csv",
        "seqcdc:mode=inc,length=5,trigger=50,skip=256,min=4096,max=16384",
        "text2m",
    ),
    (
        "dedup-bench/lowent1m/seqcdc_dec_4k_len5_trig55_skip256_min1024_max8192.csv",
        "seqcdc:mode=dec,length=5,trigger=55,skip=256,min=1024,max=8192",
        "lowent1m",
    ),
];

fn oracle(list: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../vectors/oracle").join(list);
    let text = fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    text.lines().filter(|&line| line != "end_offset").map(|line| format!("{line}\n")).collect()
}

#[test]
fn cut_points_match_the_originals() {
    let sandbox = Sandbox::new();
    for (list, spec, name) in LISTS {
        let data = input::by_name(name).expect("the input is known");
        fs::write(sandbox.path("data"), &data).expect("the file is written");
        let run = sandbox.run(["cut", "--algorithm", spec, "data"]).well();
        assert!(run.text() == oracle(list), "{list}: other cut-points from a file");
        let mut command = sandbox.command(["cut", "--algorithm", spec, "-"]);
        let run = run_with_input(&mut command, &data).well();
        assert!(run.text() == oracle(list), "{list}: other cut-points from standard input");
    }
}

#[test]
fn formats_agree() {
    let sandbox = Sandbox::new();
    fs::write(sandbox.path("data"), [7; 10_000]).expect("the file is written");
    let cut = |format| {
        let run = sandbox.run(["cut", "--algorithm", "fixed:size=4k", "--format", format, "data"]);
        run.well()
    };
    assert_eq!(cut("offsets").text(), "4096\n8192\n10000\n", "offsets");
    assert_eq!(
        cut("csv").text(),
        "offset,size,end_offset\n0,4096,4096\n4096,4096,8192\n8192,1808,10000\n",
        "csv"
    );
    let events = cut("json").events();
    let ends: Vec<_> = events.iter().filter_map(|event| event["end_offset"].as_u64()).collect();
    assert_eq!(ends, [4096, 8192, 10_000], "json");
    assert_eq!(events[3]["chunk_count"], 3, "summary");
    assert_eq!(sandbox.json(["cut", "-a", "fixed:size=4k", "data"]), events, "--json");
}

/// The same holds for standard input, which comes in small portions.
#[test]
fn cut_points_do_not_depend_on_level_or_threads() {
    let sandbox = Sandbox::new();
    let mut data = input::by_name("text2m").expect("the input is known");
    // More data than the threads read at once.
    data.resize(3 << 20, 0);
    data.extend_from_within(..2 << 20);
    fs::write(sandbox.path("data"), &data).expect("the file is written");
    let levels: Vec<&str> = Level::available().into_iter().map(Level::name).collect();
    for spec in ["seqcdc:avg=4k", "fastcdc:avg=4k", "gear:bits=12,start=carry", "fixed:size=4000"] {
        let run = |options: &[&str]| {
            let mut arguments = vec!["cut", "-a", spec, "--format", "csv"];
            arguments.extend(options);
            sandbox.run([&arguments[..], &["data"]].concat()).well().text().to_owned()
        };
        let expected = run(&[]);
        assert!(expected.lines().count() > 100, "{spec}: it is cut");
        for level in levels.iter().copied().chain(["emulated"]) {
            assert!(run(&["--level", level]) == expected, "{spec} at level {level}");
        }
        for threads in ["0", "1", "2", "7"] {
            assert!(run(&["--threads", threads]) == expected, "{spec} by {threads} threads");
            let mut command = sandbox.command(["cut", "-a", spec, "--format", "csv"]);
            command.args(["--threads", threads, "-"]);
            let run = run_with_input(&mut command, &data).well();
            assert!(run.text() == expected, "{spec} by {threads} threads, from standard input");
        }
    }
}

#[test]
fn used_level_is_reported() {
    let sandbox = Sandbox::new();
    fs::write(sandbox.path("data"), [7; 100]).expect("the file is written");
    // The requested level is used if there is code for it; otherwise, the next one below.
    for (spec, level, used) in [
        ("seqcdc:avg=4k", "scalar", "scalar"),
        ("seqcdc:avg=4k", "emulated", "emulated"),
        ("fixed:size=4k", "emulated", "scalar"),
    ] {
        let arguments = ["cut", "-a", spec, "--level", level, "data"];
        let events = sandbox.json(arguments);
        assert_eq!(events.last().expect("a summary")["level"], used, "{spec}");
        let run = sandbox.run(arguments.into_iter().chain(["-v"])).well();
        assert_eq!(run.stderr, format!("level {used}\n"), "{spec}, with --verbose");
    }
    let spec: Spec = "seqcdc:avg=4k".parse().expect("the spec is right");
    let best = spec.chunker().level().name();
    let events = sandbox.json(["cut", "-a", "seqcdc:avg=4k", "data"]);
    assert_eq!(events.last().expect("a summary")["level"], best, "the fastest");
}

#[test]
fn wrong_levels_and_thread_counts_are_usage() {
    let sandbox = Sandbox::new();
    let levels: Vec<&str> = Level::available().into_iter().map(Level::name).collect();
    let has = format!("is not a level of this CPU (expected {})", levels.join(", "));
    sandbox.run(["cut", "--level", "avx1024", "-"]).ended(2, &["--level", "avx1024", &has]);
    sandbox.run(["cut", "--threads", "many", "-"]).ended(2, &["--threads", "many"]);
    sandbox.run(["cut", "--threads=-1", "-"]).ended(2, &["--threads", "-1"]);
}

#[test]
fn empty_input_has_no_cut_points() {
    let sandbox = Sandbox::new();
    fs::write(sandbox.path("data"), b"").expect("the file is written");
    assert_eq!(sandbox.run(["cut", "data"]).well().text(), "", "nothing");
}

#[test]
fn wrong_specs_and_files_are_reported() {
    let sandbox = Sandbox::new();
    sandbox.run(["cut", "-a", "gear:avg=1", "-"]).ended(2, &["--algorithm", "gear"]);
    sandbox.run(["cut", "-a", "fixed:size=0", "-"]).ended(2, &["fixed: size=0"]);
    sandbox.run(["cut", "nowhere"]).ended(2, &["nowhere: not found"]);
}
