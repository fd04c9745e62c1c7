//! chunking
