//! The tests of the public interface, one module for each subject. `cargo test --test it SUBJECT`
//! runs one of them.

mod blocks;
mod conformance;
mod fastcdc;
mod feeding;
mod harness;
mod keyed;
mod levels;
mod mean;
mod oracle;
mod public_crates;
mod ranges;
mod seqcdc;
mod spec;
mod stream;
mod trained;
mod vectors;
