//! The grid of parameters of each algorithm. One parameter of each combination is left open, so
//! that it can be fitted to the wanted mean.

use std::ops::RangeInclusive;

use cutpoint_chunking::Spec;

/// A combination of parameters in which one number is open.
pub(super) struct Open {
    /// The specification with a given number. The mean chunk size on random data rises with the
    /// number.
    pub(super) spec: Box<dyn Fn(usize) -> String + Send + Sync>,
    /// The range of the number.
    pub(super) range: RangeInclusive<usize>,
}

/// The windows of Rabin, CRC and Buzhash in bytes: the ends of the range of Gregoriadis et al., and
/// the window of `avg=`.
const WINDOWS: [usize; 3] = [16, 48, 256];
/// The maximum chunk size, as a multiple of the mean, that hardly affects the cut-points: that of
/// the AE paper, section 4.2.
pub(super) const FAR_MAX_FACTOR: usize = 8;

/// Returns the combinations of `algorithm` for a mean of `target` bytes. There are none for SeqCDC,
/// which has a search of its own, for algorithms that learn from data, and for algorithms that have
/// no such mean.
pub(super) fn grid(algorithm: &str, target: usize) -> Vec<Open> {
    let mut grid = Vec::new();
    let part = |eighths: usize| target * eighths / 8;
    let (quarter, half, twice) = (part(2), part(4), part(16));
    let far = target * FAR_MAX_FACTOR;
    // If the cut probability is a power of two, the minimum size makes up the rest of the mean. The
    // rest is at least a fifth of the mean with the first number of bits, and more than half of it
    // with the second.
    let bits = (target * 4 / 5).ilog2();
    let powers = [bits, bits - 1];
    match algorithm {
        "fixed" => grid.push(open(target..=target, |size| format!("fixed:size={size}"))),
        "fastcdc" => {
            // The sizes of FastCDC are even.
            let max = target * 4 / 2 * 2;
            for level in 0..=3 {
                for min in [2, 3, 4].map(|eighths| part(eighths) / 2 * 2) {
                    grid.push(open(min / 2..=target, move |pairs| {
                        let normal = 2 * pairs;
                        format!("fastcdc:level={level},min={min},normal={normal},max={max},seed=0")
                    }));
                }
            }
        }
        "gear" => {
            for max in [twice, far] {
                for bits in powers {
                    grid.push(open(1..=target, move |min| {
                        format!("gear:bits={bits},min={min},max={max}")
                    }));
                }
                let bits = target.ilog2();
                for level in 1..=3 {
                    for min in [quarter, half] {
                        grid.push(open(min..=max, move |normal| {
                            format!(
                                "gear:bits={bits},level={level},normal={normal},min={min},max={max}"
                            )
                        }));
                    }
                }
            }
        }
        "rabin" | "crc" => {
            let name = algorithm.to_owned();
            for window in WINDOWS {
                for bits in powers {
                    let name = name.clone();
                    grid.push(open(1..=target, move |min| {
                        format!("{name}:bits={bits},window={window},min={min},max={far}")
                    }));
                }
            }
        }
        "aes" => {
            for window in [16, 32] {
                for bits in powers {
                    grid.push(open(1..=target, move |min| {
                        format!("aes:bits={bits},window={window},min={min},max={far}")
                    }));
                }
            }
        }
        "buzhash" => {
            for window in WINDOWS {
                for min in [quarter, half] {
                    grid.push(open(1..=target, move |divisor| {
                        format!("buzhash:divisor={divisor},window={window},min={min},max={far}")
                    }));
                }
            }
        }
        "tttd" => {
            for min in [quarter, half] {
                for max in [twice, 2 * twice] {
                    // The backup divisor of the paper is half the divisor.
                    for factor in [2, 8] {
                        grid.push(open(1..=twice, move |backup| {
                            let divisor = factor * backup;
                            format!(
                                "tttd:divisor={divisor},backup={backup},window=48,min={min},max={max}"
                            )
                        }));
                    }
                }
            }
        }
        "ae" => {
            for mode in ["max", "min"] {
                // Values of one byte, and of eight as in the AE paper.
                for bytes in [1, 8] {
                    grid.push(open(1..=target, move |window| {
                        format!("ae:mode={mode},window={window},bytes={bytes},max={far}")
                    }));
                    // The ends of the range that the paper tries for AE-Opt2.
                    for lest in [part(1), half] {
                        grid.push(open(lest..=target, move |window| {
                            format!(
                                "ae:mode={mode},window={window},bytes={bytes},lest={lest},max={far}"
                            )
                        }));
                    }
                }
            }
        }
        "maxp" => {
            for form in ["released", "strict"] {
                for max in [twice, far] {
                    grid.push(open(1..=(target / 2), move |window| {
                        format!("maxp:window={window},form={form},max={max}")
                    }));
                }
            }
        }
        "ram" => {
            // With a high byte in the window, chunks often end at the maximum size.
            for max in [part(10), part(12), twice, far] {
                grid.push(open(1..=target, move |window| format!("ram:window={window},max={max}")));
            }
        }
        "pci" => {
            for window in [32, 64, 128, 256, 512] {
                grid.push(open(4 * window..=8 * window, move |threshold| {
                    format!("pci:window={window},threshold={threshold},max={far}")
                }));
            }
        }
        "mii" => {
            // MII reaches only a few means by itself. The maximum size makes up the difference.
            let reaches = |length: &usize| {
                let spec: Result<Spec, _> = format!("mii:length={length}").parse();
                let mean = spec.ok().and_then(|spec| spec.chunk_size_average());
                mean.is_some_and(|mean| mean >= target)
            };
            grid.extend((2..=32).find(reaches).map(|length| {
                open(length..=far, move |max| format!("mii:length={length},max={max}"))
            }));
        }
        "mincdc" => {
            for min in [quarter, half, part(6)] {
                grid.push(open(min..=twice, move |max| format!("mincdc:min={min},max={max}")));
            }
        }
        "repmaxcdc" => {
            for factor in [1, 2, 8] {
                grid.push(open(64..=target, move |min| {
                    let horizon = factor * min;
                    format!("repmaxcdc:min={min},horizon={horizon}")
                }));
            }
        }
        "ronomon" => {
            for min in [quarter, half] {
                for max in [twice, far] {
                    grid.push(open(256..=twice, move |average| {
                        format!("ronomon:min={min},average={average},max={max}")
                    }));
                }
            }
        }
        "ultracdc" => {
            for min in [quarter, half] {
                for max in [twice, far] {
                    grid.push(open(min..=max, move |normal| {
                        format!("ultracdc:min={min},normal={normal},max={max}")
                    }));
                }
            }
        }
        "jc" => {
            let bits = (target * 3 / 8).ilog2();
            for min in [quarter, half] {
                for bits in [bits, bits - 1] {
                    grid.push(open(1..=target, move |jump| {
                        format!("jc:bits={bits},jump={jump},min={min},max={far}")
                    }));
                }
            }
        }
        _ => {}
    }
    grid
}

fn open(
    range: RangeInclusive<usize>,
    spec: impl Fn(usize) -> String + Send + Sync + 'static,
) -> Open {
    Open { spec: Box::new(spec), range }
}
