//! The command line of the torture test. `cargo xtask torture` builds the program and runs this.
#![forbid(unsafe_code)]

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Parser;
use cutpoint_torture::{Options, Storage, Tally};

/// Tortures the program: processes of several machines on one repository, killed, suspended and
/// with wrong clocks. Exits with 1 where anything is lost, wrong or hangs.
#[derive(Parser)]
struct Arguments {
    /// The program to torture
    #[arg(long, value_name = "PATH")]
    program: PathBuf,
    /// The seed of all choices
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Duration of all storms, in seconds
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// Maximum duration of a storm, in seconds; each begins with a new repository
    #[arg(long, default_value_t = 120, value_parser = clap::value_parser!(u64).range(1..))]
    storm_seconds: u64,
    /// Put the repository on an S3 server, behind a proxy that lies (needs Go and its module proxy)
    #[arg(long)]
    s3: bool,
    /// Folder for the S3 server's build
    #[arg(long, value_name = "PATH", default_value = "target/tmp")]
    build_folder: PathBuf,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let absolute = |path: PathBuf| std::path::absolute(&path).unwrap_or(path);
    let mut options = Options {
        program: absolute(arguments.program),
        seed: arguments.seed,
        duration: Duration::ZERO,
        storage: if arguments.s3 { Storage::S3 } else { Storage::Folder },
        build_folder: absolute(arguments.build_folder),
    };
    let began = Instant::now();
    let (mut left, mut total, mut storm_count) =
        (Duration::from_secs(arguments.seconds), Tally::default(), 0);
    while !left.is_zero() {
        options.duration = left.min(Duration::from_secs(arguments.storm_seconds));
        options.seed = arguments.seed + storm_count;
        left -= options.duration;
        match cutpoint_torture::run(&options) {
            Ok(Some(tally)) => {
                println!("held: seed {}\n{tally}", options.seed);
                total.add(&tally);
                storm_count += 1;
            }
            Ok(None) => return ExitCode::from(77),
            Err(failure) => {
                eprintln!("FELL: {failure}");
                return ExitCode::FAILURE;
            }
        }
    }
    println!("all of {storm_count} storms held, {} s\n{total}", began.elapsed().as_secs());
    ExitCode::SUCCESS
}
