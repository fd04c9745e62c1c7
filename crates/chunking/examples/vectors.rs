//! Prints a file of `vectors/`: `cargo run -p cutpoint-chunking --example vectors seqcdc`.
//!
//! `tests/vectors.rs` compares the files with the same text.

#[path = "../tests/common/mod.rs"]
mod common;

fn main() {
    let name = std::env::args().nth(1).unwrap_or_default();
    match common::vectors::json(&name) {
        Some(text) => print!("{text}"),
        None => {
            eprintln!("which file? {}", common::vectors::FILES.map(|(name, _)| name).join(", "));
            std::process::exit(2);
        }
    }
}
