//! The strategy that compares a new chunk with the previous version of what is being stored (rules
//! C1, C3 to C5).
//!
//! The old stream is the recipe of the same file in the parent snapshot ([`stream`]). The position
//! of the new stream in it is known from the last chunk that was found in both, or a resync finds
//! it ([`resync`]). Old bytes around that position are in a window, which moves along ([`window`]).
//! Every old chunk can be traced byte by byte to the full chunks that it is made of. So the parts
//! that a new chunk takes from it are expressed in full chunks again, and no delta chunk ever
//! refers to a delta chunk. Without a previous version, the old stream is taken from the run
//! itself or from a container with a similar chunk ([`similar`]). Old regions are decoded ahead by
//! another thread ([`ahead`]).

mod ahead;
mod encoder;
mod rebuild;
mod resync;
mod similar;
mod stream;
mod window;

pub use ahead::RegionsAhead;
pub use encoder::DeltaEncoder;
