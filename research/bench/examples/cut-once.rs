//! Cuts random bytes by plain code, once, so that a program that counts instructions can count
//! those of the rule: `cut-once SPEC BYTES`. `research/runs/counters.py` runs it.

use std::process::ExitCode;

use cutpoint_bench::Data;

fn main() -> ExitCode {
    let mut args = std::env::args().skip(1);
    let (spec, size) = (args.next(), args.next().and_then(|text| text.parse::<usize>().ok()));
    let (Some(spec), Some(size)) = (spec, size) else {
        eprintln!("usage: cut-once SPEC BYTES");
        return ExitCode::FAILURE;
    };
    let mut data = vec![0; size];
    Data::Random.write(&mut data);
    let Some(ends) = cutpoint_oracle::cuts(&spec, &data) else {
        eprintln!("{spec}: there is no plain code for this rule");
        return ExitCode::FAILURE;
    };
    println!("{}", ends.len());
    ExitCode::SUCCESS
}
