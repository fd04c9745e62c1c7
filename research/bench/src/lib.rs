//! Measurement of the speed of chunking and fingerprinting on the current CPU.
//!
//! [`Contender`]s that do the same work are a [`Comparison`]. [`race()`] lets all of them take turns
//! over the same bytes, so that a busy moment of the machine affects all alike, together with a
//! plain read of the bytes. Times are CPU times of the thread, so that other load on the machine
//! matters less. `cutpoint-lab bench` prints the results, and `benches/peers.rs` measures third-party
//! crates in the same way.
//!
//! ```
//! use cutpoint_bench::{Buffer, Comparison, Limit, levels, race};
//!
//! let mut buffer = Buffer::new(1 << 20)?;
//! buffer.bytes_mut().fill(7);
//! let spec = "seqcdc:avg=8k".parse()?;
//! let mut comparison = Comparison::new(levels(&spec, &[]));
//! race(buffer.bytes(), &mut [&mut comparison], Limit::Rounds(2), &mut |_| true);
//! let scalar = &comparison.contenders()[0];
//! assert!(scalar.speeds().median() > 0.0 && scalar.agrees());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![deny(unsafe_code)]

mod contenders;
mod data;
mod instruction;
mod machine;
mod memory;
mod operation;
mod plain_read;
mod race;
mod samples;
mod sum;
#[cfg(target_arch = "x86_64")]
#[expect(unsafe_code, reason = "instructions are given as such, and sets of them are entered")]
mod x86_64;

pub use contenders::{blake3, gearhash_crate, levels, papers, plain};
pub use data::Data;
pub use instruction::{Instruction, instructions};
pub use machine::processor;
pub use memory::{Buffer, available_memory};
pub use plain_read::PlainRead;
pub use race::{Comparison, Contender, Kind, Limit, Progress, Turns, race};
pub use samples::{ChunkSizes, Samples};
