//! Prints a file of `vectors/`: `cargo run -p cutpoint-chunking --example vectors seqcdc`.
//!
//! `tests/it/vectors.rs` compares the files with the same text.

#[path = "../tests/it/harness/mod.rs"]
mod harness;

fn main() {
    let name = std::env::args().nth(1).unwrap_or_default();
    match harness::vector_files::json(&name) {
        Some(text) => print!("{text}"),
        None => {
            let names: Vec<&str> = harness::vector_files::files().map(|(name, _)| name).collect();
            eprintln!("which file? {}", names.join(", "));
            std::process::exit(2);
        }
    }
}
