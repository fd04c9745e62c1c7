//! Prints a table in Markdown of the speed of the own code and of third-party crates. All take
//! turns over the same bytes and are measured in CPU time. Equal rules must have equal cut-points.
//!
//! `cargo bench -p cutpoint-bench --bench peers -- [--size MIB] [--rounds N] [--file FILE]
//! [--data random|zeros|text]`
//!
//! The crates `fastcdc` (v2020), `gearhash`, `mincdc` and `mothcdc` cut; `blake3` and `sha2`
//! fingerprint. The C code of Borg and pyfastcdc is not measured here, because it is part of Python
//! modules.

use std::fs;
use std::process::{Command, ExitCode};

use cutpoint_bench::{
    Buffer, ChunkSizes, Comparison, Contender, Data, Kind, Limit, PlainRead, Turns, blake3,
    gearhash_crate, levels, processor, race,
};
use cutpoint_chunking::{Level, Spec};
use cutpoint_fingerprint::Digest;
use sha2::Digest as _;

const USAGE: &str =
    "options: --size MIB (256), --rounds N (5), --file FILE, --data random|zeros|text (random)";

struct Options {
    mib: usize,
    rounds: usize,
    file: Option<String>,
    data: Data,
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match options(&words).and_then(|options| run(&options, &words)) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => {
            eprintln!("peers: cut-points or digests differ: see the column `equal`");
            ExitCode::FAILURE
        }
        Err(message) => {
            eprintln!("peers: {message}");
            ExitCode::from(2)
        }
    }
}

fn options(words: &[String]) -> Result<Options, String> {
    let mut options = Options { mib: 256, rounds: 5, file: None, data: Data::Random };
    let mut words = words.iter().map(String::as_str);
    while let Some(word) = words.next() {
        if word == "--bench" {
            // Cargo passes this argument.
            continue;
        }
        let value = words.next().ok_or(USAGE)?;
        let number = || value.parse().map_err(|_| format!("{value}: is no number"));
        match word {
            "--size" => options.mib = number()?,
            "--rounds" => options.rounds = number()?,
            "--file" => options.file = Some(value.to_owned()),
            "--data" => {
                let all = [Data::Random, Data::Zeros, Data::Text];
                options.data = *all.iter().find(|data| data.name() == value).ok_or(USAGE)?;
            }
            _ => return Err(USAGE.to_owned()),
        }
    }
    Ok(options)
}

/// Runs the comparisons and prints the table. Returns `true` if all cut-points that should be equal
/// are.
fn run(options: &Options, words: &[String]) -> Result<bool, String> {
    let size = options.mib << 20;
    let mut buffer = Buffer::new(size).map_err(|error| format!("memory: {error}"))?;
    let name = match &options.file {
        Some(path) => {
            let bytes = fs::read(path).map_err(|error| format!("{path}: {error}"))?;
            let size = size.min(bytes.len());
            buffer.bytes_mut()[..size].copy_from_slice(&bytes[..size]);
            buffer.truncate(size);
            "a file".to_owned()
        }
        None => {
            options.data.write(buffer.bytes_mut());
            format!("{} data", options.data.name())
        }
    };
    let data = buffer.bytes();
    if data.is_empty() {
        return Err("there is nothing to cut".to_owned());
    }
    let mut chunking = chunking()?;
    let mut hashing: Vec<(String, Comparison<'_, Digest>)> = Vec::new();
    for size in [8 << 10, 16 << 10, 64 << 10] {
        let ours = blake3(size).ok_or("a chunk has a size")?;
        hashing.push((format!("BLAKE3 of {size} bytes"), beside(ours, vec![blake3_crate(size)])));
        let sha256 = vec![sha256_crate(size)];
        hashing.push((format!("SHA-256 of {size} bytes"), Comparison::new(sha256)));
    }
    let mut all: Vec<&mut dyn Turns> = Vec::new();
    all.extend(chunking.iter_mut().map(|(_, each)| each as &mut dyn Turns));
    all.extend(hashing.iter_mut().map(|(_, each)| each as &mut dyn Turns));
    let mut said = None;
    let rounds = race(data, &mut all, Limit::Rounds(options.rounds), &mut |at| {
        if said != Some(at.round) {
            eprintln!("round {}", at.round);
            said = Some(at.round);
        }
        true
    });

    println!("# Ours beside crates\n");
    println!("- machine: {}, levels {}", processor(), level_names());
    println!("- commit: {}", commit());
    println!("- command: `cargo bench -p cutpoint-bench --bench peers -- {}`", arguments(words));
    println!("- data: {name}, {} MiB; {} of it on large pages", data.len() >> 20, pages(&buffer));
    println!(
        "- GB (10^9 bytes) a second of CPU time of one thread, medians of {rounds} rounds in turns, with \
         quartiles; read: the sum of all numbers of 64 bits by {}",
        PlainRead::new().vectors()
    );
    println!(
        "- equal: cut-points or digests are those of the first row; ratio: ours by the first crate; `-`: not \
         to be compared"
    );
    println!("- not measured: C code of other programs (Borg, pyfastcdc)\n");
    println!("| work | by | GB/s | quartiles | x read | ours / crate | mean chunk | equal |");
    println!("| --- | --- | ---: | --- | ---: | ---: | ---: | --- |");
    let mut is_equal = true;
    for (name, comparison) in &chunking {
        let mean = ChunkSizes::of(comparison.found()).mean;
        is_equal &= print(name, comparison, &format!("{mean:.0}"));
    }
    for (name, comparison) in &hashing {
        is_equal &= print(name, comparison, "");
    }
    Ok(is_equal)
}

/// Prints the rows of a comparison. Returns `true` if all results are equal.
fn print<T>(name: &str, comparison: &Comparison<'_, T>, mean: &str) -> bool {
    let read = comparison.read_speeds().median();
    let contenders = comparison.contenders();
    let peer = contenders.iter().find(|each| each.kind() == Kind::Peer);
    for each in contenders {
        let speeds = each.speeds();
        let ratio = match peer.filter(|_| each.kind() == Kind::Level) {
            Some(peer) => format!("{:.2}", speeds.median() / peer.speeds().median()),
            None => "-".to_owned(),
        };
        println!(
            "| {name} | {} | {:.2} | {:.2} to {:.2} | {:.2} | {ratio} | {mean} | {} |",
            each.name(),
            speeds.median(),
            speeds.lower_quartile(),
            speeds.upper_quartile(),
            speeds.median() / read,
            if each.agrees() { "yes" } else { "NO" }
        );
    }
    contenders.iter().all(Contender::agrees)
}

/// Returns a comparison of the own contenders followed by the peers.
fn beside<'a, T>(
    mut ours: Vec<Contender<'a, T>>,
    peers: Vec<Contender<'a, T>>,
) -> Comparison<'a, T> {
    ours.extend(peers);
    Comparison::new(ours)
}

fn chunking<'a>() -> Result<Vec<(String, Comparison<'a, usize>)>, String> {
    let mut all = Vec::new();
    let mut add = |text: String, peers: Vec<Contender<'a, usize>>| {
        let spec: Spec = text.parse().map_err(|error| format!("{text}: {error}"))?;
        all.push((format!("`{text}`"), beside(levels(&spec, &[]), peers)));
        Ok::<(), String>(())
    };
    for (min, normal, max) in
        [(2048, 8192, 32_768), (4096, 8192, 32_768), (16_384, 65_536, 262_144)]
    {
        let text = format!("fastcdc:level=1,min={min},normal={normal},max={max}");
        add(text, vec![fastcdc_crate(min, normal, max)])?;
    }
    let text = "gear:bits=13,table=gearhash".to_owned();
    let spec: Spec = text.parse().map_err(|error| format!("{text}: {error}"))?;
    let peers = gearhash_crate(&spec).into_iter().collect();
    add(text, peers)?;
    let (min, max) = (4096, 12_288);
    let peers = vec![mincdc_hash_crate(min, max), mothcdc_hash_crate(min, max)];
    add(format!("mincdc:min={min},max={max}"), peers)?;
    let peers = vec![mincdc_plain_crate(min, max), mothcdc_plain_crate(min, max)];
    add(format!("mincdc:min={min},max={max},value=plain"), peers)?;
    Ok(all)
}

fn fastcdc_crate<'a>(min: usize, normal: usize, max: usize) -> Contender<'a, usize> {
    use fastcdc::v2020::{FastCDC, Normalization};
    Contender::new(Kind::Peer, "crate fastcdc, v2020", move |data: &[u8], ends: &mut Vec<usize>| {
        let chunks = FastCDC::with_level(data, min, normal, max, Normalization::Level1);
        ends.extend(chunks.map(|chunk| chunk.offset + chunk.length));
    })
}

fn mincdc_hash_crate<'a>(min: usize, max: usize) -> Contender<'a, usize> {
    use mincdc::{MinCdcHash4, SliceChunker};
    Contender::new(Kind::Peer, "crate mincdc", move |data: &[u8], ends: &mut Vec<usize>| {
        let chunks = SliceChunker::new(data, min, max, MinCdcHash4::new());
        ends.extend(chunks.map(|chunk| chunk.offset() + chunk.len()));
    })
}

fn mincdc_plain_crate<'a>(min: usize, max: usize) -> Contender<'a, usize> {
    use mincdc::{MinCdc4, SliceChunker};
    Contender::new(Kind::Peer, "crate mincdc", move |data: &[u8], ends: &mut Vec<usize>| {
        let chunks = SliceChunker::new(data, min, max, MinCdc4::default());
        ends.extend(chunks.map(|chunk| chunk.offset() + chunk.len()));
    })
}

fn mothcdc_hash_crate<'a>(min: usize, max: usize) -> Contender<'a, usize> {
    use mothcdc::mincdc::{MinCdcHash4, SliceChunker};
    Contender::new(Kind::Peer, "crate mothcdc", move |data: &[u8], ends: &mut Vec<usize>| {
        let chunks = SliceChunker::new(data, min, max, MinCdcHash4::new());
        ends.extend(chunks.scan(0, |end, chunk| {
            *end += chunk.len();
            Some(*end)
        }));
    })
}

fn mothcdc_plain_crate<'a>(min: usize, max: usize) -> Contender<'a, usize> {
    use mothcdc::mincdc::{MinCdc4, SliceChunker};
    Contender::new(Kind::Peer, "crate mothcdc", move |data: &[u8], ends: &mut Vec<usize>| {
        let chunks = SliceChunker::new(data, min, max, MinCdc4);
        ends.extend(chunks.scan(0, |end, chunk| {
            *end += chunk.len();
            Some(*end)
        }));
    })
}

fn blake3_crate<'a>(size: usize) -> Contender<'a, Digest> {
    Contender::new(Kind::Peer, "crate blake3", move |data: &[u8], digests: &mut Vec<Digest>| {
        digests.extend(data.chunks(size).map(|chunk| *::blake3::hash(chunk).as_bytes()));
    })
}

fn sha256_crate<'a>(size: usize) -> Contender<'a, Digest> {
    Contender::new(Kind::Peer, "crate sha2", move |data: &[u8], digests: &mut Vec<Digest>| {
        digests.extend(data.chunks(size).map(|chunk| Digest::from(sha2::Sha256::digest(chunk))));
    })
}

fn level_names() -> String {
    let names: Vec<&str> = Level::available().into_iter().map(Level::name).collect();
    names.join(", ")
}

/// Returns the commit that is checked out, with a mark if files differ from it.
fn commit() -> String {
    let output = Command::new("git")
        .args(["describe", "--always", "--dirty=, with changes", "--exclude=*", "--abbrev=12"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output();
    let output = output.ok().filter(|output| output.status.success());
    let text = output.and_then(|output| String::from_utf8(output.stdout).ok());
    text.map_or_else(|| "not known".to_owned(), |text| text.trim().to_owned())
}

/// Returns the arguments for the output, without the name of a file, which is private.
fn arguments(words: &[String]) -> String {
    let mut shown = Vec::new();
    for (index, word) in words.iter().enumerate().filter(|(_, word)| *word != "--bench") {
        let is_file = index > 0 && words[index - 1] == "--file";
        shown.push(if is_file { "FILE" } else { word });
    }
    shown.join(" ")
}

fn pages(buffer: &Buffer) -> String {
    match buffer.large_page_bytes() {
        Some(bytes) => format!("{} MiB", bytes >> 20),
        None => "an unknown part".to_owned(),
    }
}
