//! Generators and models that the tests of all crates share.
