//! The text of `vectors/*.json`, regenerated from the code.

use std::fmt::Write;

use cutpoint_chunking::{Chunker, Spec, cuts};
use cutpoint_testing::{SplitMix64, input};

use super::cases;
use super::inputs::key_material;

const COMMENT: &str = "\
Cut-points: for each case the exclusive ends of the chunks of its input, in bytes from its start. \
Inputs by kind: `random` is the output of SplitMix64 with that seed, 8 little-endian bytes a number, \
cut off at the size; `constant` is one byte value; `rising` counts 0, 1, ... 255, 0, ...; `falling` \
counts 255, 254, ... 0, 255, ... . SplitMix64: the state begins as the seed; a number adds \
0x9e3779b97f4a7c15 to the state, then z = state, z = (z ^ z>>30) * 0xbf58476d1ce4e5b9, \
z = (z ^ z>>27) * 0x94d049bb133111eb, and is z ^ z>>31, all modulo 2^64. A case with `key_seed` is \
keyed: the 2048 bytes of key material are `random` with that seed. Where a spec is a short form, \
`canonical` is what it stands for. Printed by `cargo run -p cutpoint-chunking --example vectors NAME`.";

/// Returns the files: their names without `.json`, and the specs of their cases.
pub(crate) fn files() -> impl Iterator<Item = (&'static str, &'static [&'static str])> {
    cases::chosen().flat_map(|cases| cases.vectors.iter().copied())
}

/// Returns the text of the file `name`.
pub(crate) fn json(name: &str) -> Option<String> {
    let (_, specs) = files().find(|(file, _)| *file == name)?;
    let mut cases = Vec::new();
    for text in specs {
        let spec: Spec = text.parse().expect("the spec is right");
        let size = spec.chunk_size_average().map_or(100_000, |size| (size * 12).min(300_001));
        case(&mut cases, text, &spec, None, &Input::Random { seed: 1, size });
        case(&mut cases, text, &spec, Some(2), &Input::Random { seed: 1, size });
        let min = spec.chunk_size_min();
        let mut sizes = vec![0, 1, min.saturating_sub(1), min, min + 1];
        sizes.extend(spec.chunk_size_max().iter().flat_map(|&max| [max - 1, max, max + 1]));
        for size in sizes {
            let size = size.min(300_001);
            case(&mut cases, text, &spec, None, &Input::Random { seed: 3, size });
        }
        for byte in [0, 255] {
            case(&mut cases, text, &spec, None, &Input::Constant { byte, size });
        }
        case(&mut cases, text, &spec, None, &Input::Rising { size: size / 4 });
        case(&mut cases, text, &spec, None, &Input::Falling { size: size / 4 });
    }
    cases.dedup();
    let cases = cases.join(",\n");
    Some(format!("{{\n  \"_comment\": \"{COMMENT}\",\n  \"cases\": [\n{cases}\n  ]\n}}\n"))
}

enum Input {
    Random { seed: u64, size: usize },
    Constant { byte: u8, size: usize },
    Rising { size: usize },
    Falling { size: usize },
}

impl Input {
    fn json(&self) -> String {
        match self {
            Input::Random { seed, size } => {
                format!("{{\"kind\": \"random\", \"seed\": {seed}, \"size\": {size}}}")
            }
            Input::Constant { byte, size } => {
                format!("{{\"kind\": \"constant\", \"byte\": {byte}, \"size\": {size}}}")
            }
            Input::Rising { size } => format!("{{\"kind\": \"rising\", \"size\": {size}}}"),
            Input::Falling { size } => format!("{{\"kind\": \"falling\", \"size\": {size}}}"),
        }
    }

    fn data(&self) -> Vec<u8> {
        match *self {
            Input::Random { seed, size } => SplitMix64::bytes(seed, size),
            Input::Constant { byte, size } => vec![byte; size],
            Input::Rising { size } => input::saw(size),
            Input::Falling { size } => input::saw(size).iter().map(|byte| !byte).collect(),
        }
    }
}

fn case(cases: &mut Vec<String>, text: &str, spec: &Spec, key_seed: Option<u64>, input: &Input) {
    let chunker: Box<dyn Chunker> = match key_seed {
        None => spec.chunker(),
        Some(seed) => match spec.keyed_chunker(&key_material(seed)) {
            Ok(chunker) => chunker,
            Err(_) => return,
        },
    };
    let ends: Vec<String> = cuts(&*chunker, &input.data()).map(|end| end.to_string()).collect();
    let mut case = format!("    {{\"spec\": \"{text}\", ");
    let canonical = spec.to_string();
    if canonical != text {
        write!(case, "\"canonical\": \"{canonical}\", ").expect("a string takes all");
    }
    if let Some(seed) = key_seed {
        write!(case, "\"key_seed\": {seed}, ").expect("a string takes all");
    }
    write!(case, "\"input\": {}, \"ends\": [{}]}}", input.json(), ends.join(", "))
        .expect("a string takes all");
    cases.push(case);
}
