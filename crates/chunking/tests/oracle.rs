//! The cut-points are those of the originals: every list in `vectors/oracle`.

mod common;

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

use common::{Feed, check_invariants, fed_cuts};
use cutpoint_chunking::Spec;
use cutpoint_testing::input;

/// The inputs by name, each made once.
#[derive(Default)]
struct Inputs(HashMap<String, Vec<u8>>);

impl Inputs {
    fn get(&mut self, name: &str) -> &[u8] {
        self.0.entry(name.to_owned()).or_insert_with(|| {
            input::by_name(name).unwrap_or_else(|| panic!("input {name} is not known"))
        })
    }
}

#[test]
fn fastcdc_cuts_like_crate_fastcdc() {
    let mut inputs = Inputs::default();
    let files = files("fastcdc-5.0.0");
    assert_eq!(files.len(), 72, "lists of crate fastcdc");
    for file in files {
        // v2020__2048_8192_65536_nc1_seed666__rand.csv
        let name = stem(&file);
        let [_version, parameters, input] =
            name.split("__").collect::<Vec<_>>()[..].try_into().expect("three parts");
        let mut parts = parameters.split('_');
        let mut part = || parts.next().expect("another part");
        let (min, normal, max) = (part(), part(), part());
        let level = part().strip_prefix("nc").expect("a level");
        let seed = match parts.next() {
            None => "0",
            Some("seed666") => "666",
            Some("seed0123456789abcdef") => "0x0123456789abcdef",
            Some(other) => panic!("{other} is not known"),
        };
        let spec = format!("fastcdc:level={level},min={min},normal={normal},max={max},seed={seed}");
        check(&spec, &name, inputs.get(input), &offsets(&file));
    }
}

#[test]
fn seqcdc_cuts_like_dedup_bench() {
    let mut inputs = Inputs::default();
    for input in ["rand2m", "text2m", "lowent1m"] {
        let files = files(&format!("dedup-bench/{input}"));
        assert_eq!(files.len(), 6, "lists of {input}");
        for file in files {
            let spec = dedup_bench_spec(&stem(&file));
            check(&spec, &format!("{input} {spec}"), inputs.get(input), &offsets(&file));
        }
    }
}

#[test]
fn seqcdc_cuts_prefixes_like_dedup_bench() {
    let mut inputs = Inputs::default();
    let text = read(&oracle("dedup-bench/edge_prefixes.csv"));
    let mut count = 0;
    for line in text.lines().skip(1) {
        let [config, input, prefix_size, ends] =
            line.split(',').collect::<Vec<_>>()[..].try_into().expect("four columns");
        let size: usize = prefix_size.parse().expect("a size");
        let ends: Vec<usize> = ends.split(' ').map(|end| end.parse().expect("an offset")).collect();
        check(&dedup_bench_spec(config), line, &inputs.get(input)[..size], &ends);
        count += 1;
    }
    assert_eq!(count, 474, "prefixes");
}

#[test]
fn seqcdc_cuts_like_crate_seq_chunking() {
    let mut inputs = Inputs::default();
    let files = files("seq_chunking-0.1.0");
    assert_eq!(files.len(), 4, "lists of crate seq_chunking");
    for file in files {
        let name = stem(&file);
        let (parameters, input) = name.rsplit_once("__").expect("an input");
        assert_eq!(parameters, "inc_5_50_256__4096_16384", "the only parameters");
        // Its skip leads to the byte that our skip of one less leads to.
        let spec = "seqcdc:mode=inc,length=5,trigger=50,skip=255,min=4096,max=16384";
        check(spec, &name, inputs.get(input), &offsets(&file));
    }
}

/// Checks every way to feed the chunker of `spec` against the list.
fn check(spec: &str, name: &str, data: &[u8], expected: &[usize]) {
    let spec: Spec = spec.parse().expect("the spec is right");
    let chunker = spec.chunker();
    for feed in Feed::ALL {
        let ends = fed_cuts(&*chunker, data, feed);
        let first = ends.iter().zip(expected).position(|(ours, theirs)| ours != theirs);
        assert!(
            ends == expected,
            "{name}, fed by {feed:?}: {} and {} cut-points, first difference: {:?}",
            ends.len(),
            expected.len(),
            first.map(|index| (index, ends[index], expected[index]))
        );
        check_invariants(&*chunker, data, &ends);
    }
}

/// `seqcdc_inc_8k_len5_trig50_skip256_min4096_max16384` as a spec.
fn dedup_bench_spec(config: &str) -> String {
    let [_name, mode, _nominal, length, trigger, skip, min, max] =
        config.split('_').collect::<Vec<_>>()[..].try_into().expect("eight parts");
    let number = |part: &str| part.trim_start_matches(char::is_alphabetic).to_owned();
    format!(
        "seqcdc:mode={mode},length={},trigger={},skip={},min={},max={}",
        number(length),
        number(trigger),
        number(skip),
        number(min),
        number(max)
    )
}

fn oracle(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../vectors/oracle").join(path)
}

fn files(folder: &str) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = fs::read_dir(oracle(folder))
        .expect("the folder is there")
        .map(|entry| entry.expect("an entry").path())
        .collect();
    files.sort();
    files
}

fn stem(file: &Path) -> String {
    file.file_stem().expect("a name").to_str().expect("ASCII").to_owned()
}

fn read(file: &Path) -> String {
    fs::read_to_string(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
}

/// One offset a line, perhaps after a header.
fn offsets(file: &Path) -> Vec<usize> {
    let text = read(file);
    text.lines()
        .filter(|&line| line != "end_offset")
        .map(|line| line.parse().unwrap_or_else(|_| panic!("{}: {line}", file.display())))
        .collect()
}
