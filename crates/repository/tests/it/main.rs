//! The tests of the repository through its public interface, one module a topic.

mod atomic_creation;
mod bursts;
mod cache;
mod check;
mod crash;
mod decoders;
mod format_page;
mod hostile;
mod init;
mod interleaving;
mod keys;
mod lifecycle;
mod liveness;
mod model;
mod optimize;
mod parity;
mod prune;
mod repair;
mod retention;
mod similarity;
mod streams;
mod support;
mod sweep;
mod trust;
mod view_cache;
mod writer;
