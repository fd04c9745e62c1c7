//! Prints a table in Markdown of the speed of rules at each level and as their papers state them,
//! beside a plain read of the same memory, in CPU time.
//!
//! `cargo run --release -p cutpoint-bench --example plain MIB ROUNDS FILE SPEC...`, with `random` in
//! place of a file for random bytes.

use std::process::ExitCode;

use cutpoint_bench::{Buffer, Comparison, Data, Limit, Turns, levels, plain, processor, race};
use cutpoint_chunking::Spec;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [mib, rounds, file, texts @ ..] = &words[..] else {
        eprintln!("plain: MIB ROUNDS FILE SPEC...");
        return ExitCode::from(2);
    };
    match run(mib, rounds, file, texts) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(message) => {
            eprintln!("plain: {message}");
            ExitCode::from(2)
        }
    }
}

/// Prints the table. Returns `true` if all contenders agree.
fn run(mib: &str, rounds: &str, file: &str, texts: &[String]) -> Result<bool, String> {
    let number = |text: &str| text.parse().map_err(|_| format!("{text}: is no number"));
    let (size, rounds): (usize, usize) = (number(mib)? << 20, number(rounds)?);
    let mut buffer = Buffer::new(size).map_err(|error| format!("memory: {error}"))?;
    if file == "random" {
        Data::Random.write(buffer.bytes_mut());
    } else {
        let bytes = std::fs::read(file).map_err(|error| format!("{file}: {error}"))?;
        let size = size.min(bytes.len());
        buffer.bytes_mut()[..size].copy_from_slice(&bytes[..size]);
        buffer.truncate(size);
    }
    let mut comparisons = Vec::new();
    for text in texts {
        let spec: Spec = text.parse().map_err(|error| format!("{text}: {error}"))?;
        let mut contenders = levels(&spec, &[]);
        contenders.extend(plain(&spec));
        comparisons.push((spec, Comparison::new(contenders)));
    }
    let mut turns: Vec<&mut dyn Turns> = Vec::new();
    turns.extend(comparisons.iter_mut().map(|(_, each)| each as &mut dyn Turns));
    race(buffer.bytes(), &mut turns, Limit::Rounds(rounds), &mut |_| true);

    let mib = buffer.bytes().len() >> 20;
    println!("{}, {mib} MiB, GB (10^9 bytes) a second, medians of {rounds} rounds\n", processor());
    println!("| spec | by | GB/s | quartiles | x read | x plain |");
    println!("| --- | --- | ---: | --- | ---: | ---: |");
    let mut agree = true;
    for (spec, comparison) in &comparisons {
        let read = comparison.read_speeds().median();
        let contenders = comparison.contenders();
        let plain = contenders.iter().find(|each| each.name() == "plain");
        let plain = plain.map_or(f64::NAN, |plain| plain.speeds().median());
        for each in contenders {
            let (name, speeds) = (each.name(), each.speeds());
            let (low, high) = (speeds.lower_quartile(), speeds.upper_quartile());
            let speed = speeds.median();
            let (by_read, by_plain) = (speed / read, speed / plain);
            println!(
                "| `{spec}` | {name} | {speed:.2} | {low:.2} to {high:.2} | {by_read:.2} | {by_plain:.2} |"
            );
            agree &= each.agrees();
        }
    }
    Ok(agree)
}
