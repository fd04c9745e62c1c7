//! Content-defined chunking: cutting a stream of bytes so that equal content is cut alike,
//! regardless of its position in the stream.
//!
//! A [`Spec`] names an algorithm with all its parameters and has a text form. From a spec comes a
//! [`Chunker`], which returns the end of a chunk, given its start. [`cuts`] applies a chunker to a
//! buffer, [`Chunks`] to a reader, and [`Push`] to slices as they arrive. [`algorithms`] lists the
//! algorithms with a description of each.
//!
//! ```
//! use cutpoint_chunking::{Chunks, Spec, cuts};
//!
//! let spec: Spec = "seqcdc:avg=16k".parse()?;
//! let data = vec![7; 100_000];
//! let ends: Vec<usize> = cuts(&*spec.chunker(), &data).collect();
//! assert_eq!(ends, [65_536, 100_000]);
//!
//! let mut chunks = Chunks::new(spec.chunker(), &data[..]);
//! assert_eq!(chunks.next()?, Some(&data[..65_536]));
//! assert_eq!(chunks.next()?, Some(&data[65_536..]));
//! assert_eq!(chunks.next()?, None);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Guarantees
//!
//! A cut-point is a format: it depends on the spec, the key material if there is any, and the bytes
//! since the last cut-point, but not on the machine, the version of this crate, the number of
//! threads, or how the bytes were fed. Every rule is tested against lists of cut-points made by its
//! original (`vectors/oracle`), and against a plain form of itself.
//!
//! # Reading order
//!
//! [`Chunker`] (the contract), [`algorithm`] (the rules, one file each), [`Spec`] (their text
//! form), [`Chunks`] and [`Push`] (streams), [`Parallel`] (several threads), [`Ranges`] (ranges that
//! are read apart), [`KeyMaterial`] (secret cut-points).
//!
//! # Features
//!
//! | feature | default | adds |
//! | --- | --- | --- |
//! | `std` | on | [`Chunks`] over a [`std::io::Read`], [`Parallel`], and reading by [`Ranges`] |
//! | `async` | off | `Chunks` over an `AsyncRead` of `futures-io`, the only possible dependency |
//!
//! Without `std` the crate needs only `alloc`, and [`Push`] takes the bytes as they arrive.
//!
//! The rules are portable Rust, each written once. The parts of a rule that instruction sets speed
//! up are in a separate module beside [`algorithm`], where a portable form is the definition: a
//! [`Level`] may change the speed but never a cut-point.

#![no_std]
#![deny(unsafe_code)]

extern crate alloc;
#[cfg(feature = "std")]
extern crate std;

mod about;
#[cfg(feature = "std")]
mod ahead;
pub mod algorithm;
mod candidates;
mod chunker;
mod error;
mod kernel;
mod key;
mod keys;
#[cfg(feature = "std")]
mod parallel;
mod push;
mod ranges;
mod residue;
mod rolling;
mod segments;
mod spec;
#[cfg(feature = "std")]
mod stream;
mod table;
mod window;

pub use about::{About, Dialect, KeyUse, Parameter, ShortForm};
#[cfg(feature = "std")]
pub use ahead::ReadAhead;
pub use chunker::{Chunker, Cuts, cuts};
pub use error::SpecError;
pub use kernel::{Level, LevelError};
pub use key::KeyMaterial;
#[cfg(feature = "std")]
pub use parallel::Parallel;
pub use push::Push;
#[cfg(feature = "std")]
pub use ranges::RangeChunks;
pub use ranges::{Ranges, Seams};
pub use spec::{Spec, algorithms};
#[cfg(feature = "std")]
pub use stream::Chunks;

/// The examples of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
