//! The bodies of the fuzz targets of `fuzz/`. `tests/it/feeding.rs` runs them with random input,
//! without a fuzzer.

use arbitrary::{Result, Unstructured};
use cutpoint_chunking::{Chunker, Spec, algorithms};
use cutpoint_testing::SplitMix64;

use super::checks::{check_invariants, check_levels};
use super::feeds::{Feed, fed_cuts};
use super::inputs::{key_material, kinds};

/// Derives a spec, data and every way to feed it from `input`, and checks that all ways give the
/// same cut-points as the reference. Returns the spec, unless it is refused or not wanted.
pub(crate) fn feeding(input: &[u8], is_wanted: impl Fn(&Spec) -> bool) -> Option<Spec> {
    let mut input = Unstructured::new(input);
    let spec: Spec = spec_text(&mut input).ok()?.parse().ok()?;
    if !is_wanted(&spec) {
        return None;
    }
    check(&spec, &mut input).ok()?;
    Some(spec)
}

/// Parses `input` as the text of a spec. If it is one, its written-out text must mean the same.
pub(crate) fn spec(input: &[u8]) -> Option<Spec> {
    let text = String::from_utf8_lossy(input);
    let spec = match text.parse::<Spec>() {
        Ok(spec) => spec,
        Err(error) => {
            assert!(!error.to_string().is_empty(), "{text}: the error says nothing");
            return None;
        }
    };
    check_text(&spec);
    Some(spec)
}

fn check_text(spec: &Spec) {
    let text = spec.to_string();
    assert_eq!(text.parse::<Spec>().as_ref(), Ok(spec), "{text}");
    let (min, max) = (spec.chunk_size_min(), spec.chunk_size_max());
    assert!(min >= 1 && max.is_none_or(|max| min <= max), "{text}: {min} to {max:?}");
    if let Some(average) = spec.chunk_size_average() {
        assert!(average >= min, "{text}: average {average} below {min}");
        assert!(max.is_none_or(|max| average <= max), "{text}: average {average} above {max:?}");
    }
    let chunker = spec.chunker();
    assert_eq!((chunker.chunk_size_min(), chunker.chunk_size_max()), (min, max), "{text}");
    assert!(chunker.needed_size_max() >= max, "{text}: what is needed to see the largest chunk");
    for more in [false, true] {
        assert_eq!(chunker.next_cut(&[], more), None, "{text}: no bytes have no cut-point");
    }
}

fn check(spec: &Spec, input: &mut Unstructured<'_>) -> Result<()> {
    check_text(spec);
    let key_seed: Option<u64> = input.arbitrary()?;
    let data = data(input)?;
    let text = spec.to_string();
    let (chunker, expected): (Box<dyn Chunker>, _) = match key_seed {
        None => (spec.chunker(), cutpoint_oracle::cuts(&text, &data)),
        Some(seed) => {
            let material = key_material(seed);
            let bytes = SplitMix64::bytes(seed, cutpoint_chunking::KeyMaterial::SIZE);
            let expected = cutpoint_oracle::keyed_cuts(&text, &bytes, &data);
            let Ok(chunker) = spec.keyed_chunker(&material) else { return Ok(()) };
            (chunker, expected)
        }
    };
    let ends = fed_cuts(&*chunker, &data, Feed::Whole);
    check_invariants(&*chunker, &data, &ends);
    if let Some(expected) = expected {
        assert_eq!(ends, expected, "{text}, key {key_seed:?}: ours and the reference");
    }
    check_levels(
        |level| match key_seed {
            None => spec.chunker_at(level),
            Some(seed) => {
                let material = key_material(seed);
                spec.keyed_chunker_at(&material, level).expect("the best level has this key")
            }
        },
        &format!("{text}, key {key_seed:?}"),
        &data,
        &ends,
    );
    let feeds =
        [Feed::Slices, Feed::Batches, Feed::BatchesAgain, Feed::Reader, Feed::Push, Feed::Async];
    for feed in feeds {
        let size_max = *input.choose(&[1, 7, 100, 3000])? + input.int_in_range(0..=63)?;
        let feed = feed(size_max, input.arbitrary()?);
        let fed = fed_cuts(&*chunker, &data, feed);
        assert_eq!(fed, ends, "{text}, key {key_seed:?}: fed by {feed:?} and whole");
    }
    Ok(())
}

/// Returns data of a kind of [`kinds`], or the rest of `input`, often repeated.
fn data(input: &mut Unstructured<'_>) -> Result<Vec<u8>> {
    let size = input.int_in_range(0..=6000)?;
    if input.ratio(1, 3)? {
        let count = input.len() / 2;
        let pattern = input.bytes(count)?;
        let size = if input.ratio(1, 2)? { size } else { count };
        return Ok(pattern.iter().copied().cycle().take(size).collect());
    }
    let kinds = kinds(size, input.arbitrary()?);
    Ok(input.choose(&kinds)?.1.clone())
}

/// Returns the text of a spec with an existing algorithm and existing keys; the values may be
/// wrong.
pub(crate) fn spec_text(input: &mut Unstructured<'_>) -> Result<String> {
    let about = input.choose(algorithms())?;
    let mut text = format!("{}:", about.name);
    // The numbers so far, because a minimum size restricts a maximum.
    let mut numbers = Vec::new();
    let mut beside: Option<&[&str]> = None;
    if !about.short_forms.is_empty() && input.ratio(1, 6)? {
        let form = input.choose(about.short_forms)?;
        text += &format!("{}={},", form.key, value(form.allowed, &mut numbers, input)?);
        beside = Some(form.beside);
    }
    for parameter in about.parameters {
        let is_optional = parameter.default.is_some() || beside.is_some();
        if beside.is_some_and(|keys| !keys.contains(&parameter.key))
            || is_optional && input.ratio(1, 2)?
        {
            continue;
        }
        let value = value(parameter.allowed, &mut numbers, input)?;
        text += &format!("{}={value},", parameter.key);
    }
    Ok(text.trim_end_matches(',').to_owned())
}

/// Returns a value, usually a valid one, for a parameter whose allowed values are `allowed`, in
/// words.
fn value(allowed: &str, numbers: &mut Vec<u64>, input: &mut Unstructured<'_>) -> Result<String> {
    let is_in_word = |c: char| c.is_ascii_alphanumeric() || c == '-';
    let words: Vec<&str> =
        allowed.split(|c| !is_in_word(c)).filter(|word| !word.is_empty()).collect();
    let number = match input.int_in_range(0..=15)? {
        0 => return Ok((*input.choose(&words)?).to_owned()),
        1 => return Ok(format!("0x{:x}", input.arbitrary::<u64>()?)),
        2 => (1 << input.int_in_range(0..=40)?) - 1 + input.int_in_range(0..=2)?,
        _ if allowed.contains("0x") => {
            let degree = input.int_in_range(8..=53)?;
            let below = input.arbitrary::<u64>()? % (1 << degree);
            return Ok(format!("0x{:x}", 1 << degree | below));
        }
        _ if allowed.contains("hexadecimal") => {
            let count = input.int_in_range(1..=8)?;
            let width = if allowed.contains('4') { 4 } else { 2 };
            let mut list = Vec::new();
            for _ in 0..count {
                // Mostly bytes of text, or small ones.
                let byte = [b' ', b'e', 0, 1, 255, input.arbitrary()?][input.choose_index(6)?];
                let number = u16::from(byte) << 8 | u16::from(input.arbitrary::<u8>()? & 0x21);
                list.push(if width == 4 { number } else { u16::from(byte) });
            }
            list.sort_unstable();
            list.dedup();
            let list: Vec<String> =
                list.iter().map(|number| format!("{number:0width$x}")).collect();
            return Ok(list.join("."));
        }
        _ if words.contains(&"to") => {
            let least = words[0].parse().unwrap_or(1);
            let greatest = numbers.iter().copied().max().unwrap_or(0);
            let low = if input.ratio(1, 2)? { least } else { least.max(greatest) };
            let span = *input.choose(&[2, 9, 60, 700, 5000])?;
            let number = low + input.int_in_range(0..=span)?;
            if allowed.contains("even") { number & !1 } else { number }
        }
        _ => {
            let words: Vec<&str> = words.into_iter().filter(|&word| word != "or").collect();
            return Ok((*input.choose(&words)?).to_owned());
        }
    };
    numbers.push(number);
    Ok(number.to_string())
}
