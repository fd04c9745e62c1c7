//! The parts that tests, examples and fuzz targets share.

#![allow(dead_code, reason = "each test, example and fuzz target uses some of these parts")]

pub(crate) mod cases;
pub(crate) mod checks;
pub(crate) mod feeds;
pub(crate) mod fuzz_bodies;
pub(crate) mod inputs;
pub(crate) mod measured;
pub(crate) mod vector_files;
