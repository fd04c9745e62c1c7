//! Makes random bytes and cuts the first of them by plain code, once, so that a program that counts
//! instructions can count those of the rule: `cut-once SPEC BYTES MADE`. `research/runs/counters.py`
//! runs it with two numbers of bytes to cut, and the same number to make.

use std::process::ExitCode;

use cutpoint_bench::Data;

fn main() -> ExitCode {
    let mut args = std::env::args().skip(1);
    let spec = args.next();
    let mut size = || args.next().and_then(|text| text.parse::<usize>().ok());
    let (Some(spec), Some(size), Some(made)) = (spec, size(), size()) else {
        eprintln!("usage: cut-once SPEC BYTES MADE");
        return ExitCode::FAILURE;
    };
    let mut data = vec![0; made];
    Data::Random.write(&mut data);
    let Some(ends) = cutpoint_oracle::cuts(&spec, &data[..size.min(made)]) else {
        eprintln!("{spec}: there is no plain code for this rule");
        return ExitCode::FAILURE;
    };
    println!("{}", ends.len());
    ExitCode::SUCCESS
}
