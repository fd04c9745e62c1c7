//! Our cut-points compared with those of third-party programs.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::ExitCode;

use cutpoint_chunking::{Level, Spec, cuts};
use cutpoint_oracle::oracle::{Inputs, List, lists};
use cutpoint_testing::digest::sha256;
use cutpoint_testing::input;

/// The SHA-256 of every input with a recipe, as published with the lists.
const SUMS: [(&str, &str); input::NAMES.len()] = [
    ("rand", "ad6bc3def4bc89adb670062bb9b9f48cd0aa748258f31a304d1df877d46cc6fe"),
    ("text", "3bc4be32ab68135463c0487bb5d0d78b6dbf115860cd5f0a517b4975b0d3f527"),
    ("zeros", "30e14955ebf1352266dc2ff8067e68104607e750abb9d3b36582b8af909fcb58"),
    ("period", "51ee0011767fbbac579e863cf9a4f2326967ecabf2fb2bcb18ada766c49aeb4c"),
    ("saw", "2312394bd99545d9de131c24efb781e765ac1aec243f2ed9347597a793a415e9"),
    ("mixed", "b41ab7e5a8ee77fc73fd44f06d483196274f14c4d483ed433b1c7049b4401479"),
    ("edge32", "4bd81130c63f286ca6f1db0d006d1e388d50381690525c068869a57d547b5439"),
    ("edge48", "cf78b6fcff6ce70c6691169de4676d2ffb6e6241845940f6e6b26e3e47381f4d"),
    ("edge64", "8640cdc60454692ca0c90d1b1bf99607f7d4e6e50bc7ad0fde1db2e73c691e0a"),
    ("rand2m", "5bc3146930b4831f7e6d5cd538919e3c5da964702131de80bd84b915eb3f8626"),
    ("text2m", "12e304677867e56392310ac7f648698515f299c74169ca971a0069b04b94439b"),
    ("lowent1m", "35be0a487395820347bbcbb9f7e8ad15c535f2e40c063a0b4e30f9336317aedd"),
    ("period1m", "25b6b27a3b1b907c8809eb619cd7bba59f21b037bc62259715ac5941f8f734f0"),
    ("ramps1m", "61ffdf403d57ac23d764297ed82a1ca8a20366a281798cc0e7bab646edb5b4c1"),
    ("edits2m", "9359482d8c2842b0b42f7f0046ed53dc8081069404770d191bc1846911fa3d3b"),
];

/// The counts of the lists of a family.
#[derive(Default)]
struct Count {
    lists: usize,
    prefixes: usize,
    mismatches: usize,
    skipped: usize,
}

/// Compares every list below `folder`, and fails on any difference.
pub(crate) fn run(folder: &Path) -> ExitCode {
    match compare(folder) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(message) => {
            eprintln!("xtask: {message}");
            ExitCode::FAILURE
        }
    }
}

/// Prints the skipped lists, the differences, a line per family, and the totals. Returns `true` if
/// there are no differences.
fn compare(folder: &Path) -> Result<bool, String> {
    let mut inputs = Inputs::default();
    check_inputs(folder, &mut inputs)?;
    let lists = lists(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let mut families: BTreeMap<&str, Count> = BTreeMap::new();
    let mut skipped_prefixes: BTreeMap<String, usize> = BTreeMap::new();
    for list in &lists {
        let count = families.entry(&list.name.family).or_default();
        if list.prefix_size.is_some() {
            count.prefixes += 1;
        } else {
            count.lists += 1;
        }
        match difference(list, &mut inputs) {
            Some(Ok(())) => {}
            Some(Err(difference)) => {
                count.mismatches += 1;
                println!("MISMATCH {}: {difference}", list.place);
            }
            None => {
                count.skipped += 1;
                if list.prefix_size.is_some() {
                    let key = format!("{}: {}", list.name.parameters.join("__"), list.name.input);
                    *skipped_prefixes.entry(key).or_default() += 1;
                } else {
                    println!("skipped {}", list.place);
                }
            }
        }
    }
    for (name, count) in skipped_prefixes {
        println!("skipped {count} prefixes, {name}");
    }
    for (family, count) in &families {
        let Count { lists, prefixes, mismatches, skipped } = count;
        println!(
            "{family}: {lists} lists, {prefixes} prefixes, {mismatches} mismatches, {skipped} skipped"
        );
    }
    let mismatches: usize = families.values().map(|count| count.mismatches).sum();
    let skipped: usize = families.values().map(|count| count.skipped).sum();
    println!("{} lists, {mismatches} mismatches, {skipped} skipped", lists.len());
    if lists.is_empty() {
        return Err(format!("{}: there are no lists", folder.display()));
    }
    Ok(mismatches == 0)
}

/// Makes all inputs and checks their sums, also against the files of sums in `folder`.
fn check_inputs(folder: &Path, inputs: &mut Inputs) -> Result<(), String> {
    for (name, sum) in SUMS {
        let data = inputs.get(name).ok_or_else(|| format!("input {name}: has no recipe"))?;
        let found: String = sha256(data).iter().map(|byte| format!("{byte:02x}")).collect();
        if found != sum {
            return Err(format!("input {name}: its SHA-256 is {found}, published is {sum}"));
        }
    }
    for (path, name, sum) in published(folder)? {
        match SUMS.iter().find(|(known, _)| *known == name) {
            Some((_, known)) if *known == sum => {}
            Some((_, known)) => {
                return Err(format!("{path}: {name} is {sum}, by its recipe it is {known}"));
            }
            None => println!("{path}: input {name} has no recipe"),
        }
    }
    println!("{} inputs, each with its published sum", SUMS.len());
    Ok(())
}

/// Reads the files of sums below `folder`. Returns the file, the input and the sum of each line.
fn published(folder: &Path) -> Result<Vec<(String, String, String)>, String> {
    let mut sums = Vec::new();
    let entries = fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    for entry in entries {
        let path = entry.map_err(|error| error.to_string())?.path();
        if path.is_dir() {
            sums.extend(published(&path)?);
        } else if path.ends_with("inputs.sha256") || path.ends_with("SHA256SUMS") {
            let text = fs::read_to_string(&path)
                .map_err(|error| format!("{}: {error}", path.display()))?;
            for line in text.lines() {
                let mut words = line.split_whitespace();
                if let (Some(sum), Some(name)) = (words.next(), words.next()) {
                    let name = Path::new(name.trim_start_matches('*')).file_stem();
                    let name = name.unwrap_or_default().to_string_lossy().into_owned();
                    sums.push((path.display().to_string(), name, sum.to_owned()));
                }
            }
        }
    }
    Ok(sums)
}

/// Cuts by the spec of the list at every level of this CPU, and returns the first difference as an
/// error. Returns `None` if the name of the list is unknown.
fn difference(list: &List, inputs: &mut Inputs) -> Option<Result<(), String>> {
    let text = list.spec(inputs)?;
    let data = inputs.get(&list.name.input)?;
    Some(compare_list(list, &text, data))
}

fn compare_list(list: &List, text: &str, data: &[u8]) -> Result<(), String> {
    let spec: Spec = text.parse().map_err(|error| format!("{text}: {error}"))?;
    let size = list.prefix_size.unwrap_or(data.len());
    let data = data.get(..size).ok_or_else(|| format!("a prefix of {size} bytes"))?;
    for level in Level::available() {
        let chunker = spec.chunker_at(level);
        if chunker.level() != level {
            continue;
        }
        let name = level.name();
        let mut ours = list.ends_by(data, cuts(&*chunker, data).collect()).into_iter();
        for (index, &theirs) in list.ends.iter().enumerate() {
            let end = ours.next();
            if end != Some(theirs) {
                return Err(format!("{spec}, {name}: cut {index} is {end:?}, theirs {theirs}"));
            }
        }
        if let Some(end) = ours.next() {
            return Err(format!("{spec}, {name}: another cut at {end}, behind theirs"));
        }
    }
    Ok(())
}
