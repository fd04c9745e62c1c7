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
            let names: Vec<&str> = common::vectors::files().map(|(name, _)| name).collect();
            eprintln!("which file? {}", names.join(", "));
            std::process::exit(2);
        }
    }
}
