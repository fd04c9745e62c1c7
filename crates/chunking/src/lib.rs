//! Content-defined chunking: where to cut a stream of bytes so that equal content is cut alike,
//! wherever in the stream it stands.
//!
//! A [`Spec`] names an algorithm with all its parameters, and is written as text. It makes a
//! [`Chunker`], which answers one question: where does the chunk end that starts here?
//! [`cuts`] asks it over a buffer, [`Chunks`] over a reader, [`Push`] over slices as they come.
//! [`algorithms`] says which algorithms there are, and all there is to know about each.
//!
//! ```
//! use cutpoint_chunking::{Spec, cuts};
//!
//! let spec: Spec = "seqcdc:avg=16k".parse()?;
//! assert_eq!(
//!     spec.to_string(),
//!     "seqcdc:mode=inc,length=5,trigger=50,skip=512,min=11258,max=65536"
//! );
//! let chunker = spec.chunker();
//! let data = vec![7; 100_000];
//! let ends: Vec<usize> = cuts(&*chunker, &data).collect();
//! assert_eq!(ends, [65_536, 100_000]);
//! # Ok::<(), cutpoint_chunking::SpecError>(())
//! ```
//!
//! # What is promised
//!
//! A cut-point is a format: it depends on the spec, the key material if there is any, and the bytes
//! since the last cut-point. Never on the machine, on the version of this crate, on the number of
//! threads, or on how the bytes were fed. Every rule is compared with lists of cut-points that its original made
//! (`vectors/oracle`), and with a plain form of itself.
//!
//! # Reading order
//!
//! [`Chunker`] (the contract), [`algorithm`] (the rules, one file each), [`Spec`] (their text form),
//! [`Chunks`] and [`Push`] (streams), [`Parallel`] (several threads), [`KeyMaterial`] (secret cut-points).
//!
//! # Features
//!
//! | feature | by default | brings |
//! | --- | --- | --- |
//! | `std` | on | [`Chunks`] over a [`std::io::Read`], and [`Parallel`]; without it the crate needs `alloc` only |
//! | `async` | off | `Chunks` over an `AsyncRead` of crate `futures-io`, the only dependency there is |
//!
//! Where there is neither, [`Push`] takes the bytes as they come.
//!
//! The rules are portable Rust, written once. What instruction sets answer faster about blocks of
//! bytes is in a module of its own beside [`algorithm`], with a portable form as its definition: a
//! [`Level`] may change speed, never a cut-point.

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
pub use spec::{Spec, algorithms};
#[cfg(feature = "std")]
pub use stream::Chunks;
