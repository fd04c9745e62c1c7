//! The exact distribution of chunk sizes on random data, for algorithms for which it is known.

use std::f64::consts::LN_2;

use cutpoint_chunking::Spec;

/// The distribution of sizes that an algorithm has on random data.
///
/// Sources: for hashes, each byte after the minimum size ends a chunk with the same probability.
/// For RAM, the maximum of the window determines the probability with which each byte after the
/// window ends the chunk. For MII, a Markov chain over the run and the last byte. For AE with
/// values of one byte and a window that almost always contains the greatest value, the chunk ends a
/// window after the first byte of that value, which each byte has with a probability of 1/256. For
/// AE with values that are hardly ever equal, Dickman's function, because the maximum of all values
/// is the last extreme (Gregoriadis and Zhang both print other formulas).
#[derive(Clone, Debug)]
pub struct Law {
    name: &'static str,
    form: Form,
}

#[derive(Clone, Debug)]
enum Form {
    /// Stretches of sizes in which each byte ends the chunk with a given probability, by their
    /// starts, in rising order.
    Chances { stretches: Vec<(f64, f64)>, max: f64 },
    /// A mixture of forms, each with a weight.
    Mixture(Vec<(f64, Form)>),
    /// The shares of chunks with sizes up to 0, 1, 2 times the step, and so on.
    Table { step: f64, shares: Vec<f64> },
}

/// The minimum window in bytes that contains the greatest byte value in all but one of a thousand
/// chunks.
const AE_WINDOW_MIN: f64 = 1792.0;

/// The probability below which chunks are neglected.
const RARE: f64 = 1e-9;

impl Law {
    /// Returns the law of `spec`, or `None` if no exact law is known.
    pub fn of(spec: &Spec) -> Option<Law> {
        let text = spec.to_string();
        let (name, list) = text.split_once(':')?;
        let given = |key: &str| {
            list.split(',')
                .filter_map(|item| item.split_once('='))
                .find(|(each, _)| *each == key)
                .map(|(_, value)| value)
        };
        let number = |key: &str| given(key).and_then(|value| value.parse::<f64>().ok());
        let max = number("max").unwrap_or(f64::INFINITY);
        let min = number("min").unwrap_or(1.0);
        let law = |name, form| Some(Law { name, form });
        let hash = |least: f64, chance: f64| {
            law(
                "each byte with one chance (geometric)",
                Form::Chances { stretches: vec![(least, chance)], max },
            )
        };
        match name {
            "fixed" => {
                law("one size", Form::Chances { stretches: Vec::new(), max: number("size")? })
            }
            "rabin" | "crc" => hash(min.max(number("window")?), (-number("bits")? * LN_2).exp()),
            "buzhash" => hash(min.max(number("window")?), 1.0 / number("divisor")?),
            "gear" => {
                let (bits, level) = (number("bits")?, number("level").unwrap_or(0.0));
                let chance = |bits: f64| (-bits * LN_2).exp();
                if level == 0.0 {
                    return hash(min, chance(bits));
                }
                let normal = number("normal")?;
                // The byte at which the chunk has the size `normal` is the last of the first
                // stretch.
                let stretches = vec![
                    (min, chance(bits + level)),
                    (normal.max(min) + 1.0, chance(bits - level)),
                ];
                law("two chances, one behind the other", Form::Chances { stretches, max })
            }
            "ae" if given("lest").is_none() => {
                let window = number("window")?;
                let least = if given("cut") == Some("before") { window } else { window + 1.0 };
                match given("bytes").unwrap_or("1") {
                    "1" if window >= AE_WINDOW_MIN => law(
                        "the window, then each byte with a chance of 1/256",
                        Form::Chances { stretches: vec![(least, 1.0 / 256.0)], max },
                    ),
                    "4" | "8" if max.is_infinite() => {
                        law("Dickman's function of size / window", dickman(window))
                    }
                    _ => None,
                }
            }
            "ram" => law(
                "by the largest byte of the window",
                ram(
                    number("window")?,
                    given("equal") == Some("pass"),
                    given("cut") == Some("before"),
                    max,
                ),
            ),
            "mii" if max.is_infinite() && given("first").is_none() => {
                law("a chain over run and last byte", mii(given("length")?.parse().ok()?)?)
            }
            _ => None,
        }
    }

    /// Returns a description of the law in words.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Returns the share of chunks that are at most `size` bytes.
    pub fn at_most(&self, size: f64) -> f64 {
        self.form.at_most(size.floor())
    }

    /// Returns the mean in bytes, or `None` if the mean is not finite.
    pub fn mean(&self) -> Option<f64> {
        self.form.mean()
    }
}

impl Form {
    fn at_most(&self, size: f64) -> f64 {
        match self {
            Form::Chances { max, .. } if size >= *max => 1.0,
            Form::Chances { stretches, .. } => {
                let mut left = 1.0_f64;
                for (index, (begin, chance)) in stretches.iter().enumerate() {
                    let end =
                        stretches.get(index + 1).map_or(f64::INFINITY, |(next, _)| next - 1.0);
                    let tested = size.min(end) - begin + 1.0;
                    if tested > 0.0 {
                        left *= (1.0 - chance).powf(tested);
                    }
                }
                1.0 - left
            }
            Form::Mixture(forms) => {
                forms.iter().map(|(weight, form)| weight * form.at_most(size)).sum()
            }
            Form::Table { step, shares } => {
                let place = size / step;
                #[expect(
                    clippy::cast_possible_truncation,
                    reason = "what is beyond the table is found to be"
                )]
                let below = place.floor().max(0.0) as usize;
                match (shares.get(below), shares.get(below + 1)) {
                    (Some(one), Some(next)) => one + (next - one) * (place - below as f64),
                    _ if place < 0.0 => 0.0,
                    _ => 1.0,
                }
            }
        }
    }

    /// Returns the mean: the sum of the shares of chunks that are larger than 0, 1, 2 and so on.
    fn mean(&self) -> Option<f64> {
        match self {
            Form::Chances { stretches, max } => {
                let (mut sum, mut left, mut from) = (0.0, 1.0, 0.0);
                for (index, (begin, chance)) in stretches.iter().enumerate() {
                    let end = stretches
                        .get(index + 1)
                        .map_or(f64::INFINITY, |(next, _)| next - 1.0)
                        .min(max - 1.0);
                    // All remaining chunks exceed the sizes up to `begin - 1`.
                    sum += left * (begin.min(*max) - from);
                    if end < *begin {
                        return Some(sum);
                    }
                    let count = end - begin + 1.0;
                    let stays = (1.0 - chance).powf(count);
                    sum += left * (1.0 - chance) * (1.0 - stays) / chance;
                    left *= stays;
                    from = end + 1.0;
                }
                if left == 0.0 {
                    return Some(sum);
                }
                max.is_finite().then(|| sum + left * (max - from).max(0.0))
            }
            Form::Mixture(forms) => {
                forms.iter().map(|(weight, form)| Some(weight * form.mean()?)).sum()
            }
            Form::Table { step, shares } => {
                let above = shares.windows(2).map(|pair| 1.0 - (pair[0] + pair[1]) / 2.0);
                Some(if *step == 1.0 {
                    shares.iter().map(|share| 1.0 - share).sum()
                } else {
                    above.sum::<f64>() * step
                })
            }
        }
    }
}

/// Returns the law of AE with values that are hardly ever equal. A chunk is longer than u windows
/// with the probability rho(u), where rho is 1 up to 1 and u rho'(u) = -rho(u - 1).
fn dickman(window: f64) -> Form {
    const STEPS: usize = 1000;
    const WINDOWS: usize = 16;
    let mut rho = vec![1.0; STEPS + 1];
    for index in STEPS + 1..=STEPS * WINDOWS {
        // The trapezoidal rule: the mean of the slopes at both ends.
        let slope = |at: usize| -rho[at - STEPS] * STEPS as f64 / at as f64;
        let next = rho[index - 1] + (slope(index - 1) + slope(index)) / 2.0 / STEPS as f64;
        rho.push(next);
    }
    Form::Table { step: window / STEPS as f64, shares: rho.iter().map(|rho| 1.0 - rho).collect() }
}

fn ram(window: f64, passes_equal: bool, is_before: bool, max: f64) -> Form {
    let at_most = |value: f64| ((value + 1.0) / 256.0).powf(window);
    let least = if is_before { window } else { window + 1.0 };
    let mut forms = Vec::new();
    for value in 0..256_u32 {
        let value = f64::from(value);
        let weight = at_most(value) - if value > 0.0 { at_most(value - 1.0) } else { 0.0 };
        let ending = if passes_equal { 255.0 - value } else { 256.0 - value };
        if weight > RARE {
            let stretches = if ending > 0.0 { vec![(least, ending / 256.0)] } else { Vec::new() };
            forms.push((weight, Form::Chances { stretches, max }));
        }
    }
    Form::Mixture(forms)
}

/// Returns the law of MII, from the probability of each state (run and last byte) after each byte.
fn mii(length: usize) -> Option<Form> {
    // Longer runs are so rare that the table of sizes would be too long.
    if !(2..=7).contains(&length) {
        return None;
    }
    let mut states = vec![[0.0_f64; 256]; length - 1];
    states[0] = [1.0 / 256.0; 256];
    let mut shares = vec![0.0, 0.0];
    while let Some(last) = shares.last().copied().filter(|share| 1.0 - share > RARE) {
        let mut next = vec![[0.0_f64; 256]; length - 1];
        let mut ended = 0.0;
        for (run, chances) in states.iter().enumerate() {
            let mut below = 0.0;
            let total: f64 = chances.iter().sum();
            for byte in 0..256 {
                // A byte greater than the last one extends the run, and any other byte restarts it.
                let rises = below / 256.0;
                next[0][byte] += (total - below) / 256.0;
                match next.get_mut(run + 1) {
                    Some(longer) => longer[byte] += rises,
                    None => ended += rises,
                }
                below += chances[byte];
            }
        }
        states = next;
        shares.push(last + ended);
    }
    Some(Form::Table { step: 1.0, shares })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn law(text: &str) -> Law {
        Law::of(&text.parse().expect("a spec")).expect("a law")
    }

    fn mean(text: &str) -> f64 {
        law(text).mean().expect("a mean")
    }

    #[test]
    fn means_are_the_known_ones() {
        for (spec, expected) in [
            ("fixed:size=4096", 4096.0),
            ("gear:bits=13", 8192.0),
            ("rabin:bits=12,window=48,min=4097", 4097.0 + 4095.0),
            ("ae:mode=max,window=7936", 7936.0 + 256.0),
            ("ram:window=7936", 8192.0),
            ("ram:window=300", 512.0),
            ("mii:length=6", 887.6),
            ("mii:length=7", 6232.5),
            ("mii:length=5", 149.18),
            ("ae:mode=max,window=4000,bytes=8", 1.781_072 * 4000.0),
        ] {
            let off = mean(spec) / expected - 1.0;
            assert!(off.abs() < 0.002, "{spec}: {} instead of {expected}", mean(spec));
        }
    }

    #[test]
    fn limits_are_part_of_the_law() {
        let law = law("gear:bits=13,min=2048,max=16384");
        assert_eq!((law.at_most(2047.0), law.at_most(16384.0)), (0.0, 1.0), "limits");
        let mean = law.mean().expect("a mean");
        let summed: f64 = (0..16384).map(|size| 1.0 - law.at_most(f64::from(size))).sum();
        assert!((mean - summed).abs() < 0.01, "{mean} and {summed}");
        let normal = self::law("gear:bits=13,level=2,normal=8192,min=2048");
        let summed: f64 = (0..400_000).map(|size| 1.0 - normal.at_most(f64::from(size))).sum();
        let mean = normal.mean().expect("a mean");
        assert!((mean - summed).abs() < 0.01, "{mean} and {summed}");
    }

    #[test]
    fn two_means_are_exceeded_as_dickman_says() {
        let law = law("ae:mode=max,window=4000,bytes=8");
        let mean = law.mean().expect("a mean");
        let above = 1.0 - law.at_most(2.0 * mean);
        // Theorem 2 of the AE paper allows 0.0938.
        assert!((above - 0.014).abs() < 0.001, "{above}");
    }

    #[test]
    fn algorithms_without_exact_law_have_none() {
        for spec in ["seqcdc:avg=8k", "maxp:avg=8k", "ae:mode=max,window=500"] {
            assert!(Law::of(&spec.parse().expect("a spec")).is_none(), "{spec}");
        }
    }
}
