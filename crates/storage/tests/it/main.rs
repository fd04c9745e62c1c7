//! The promises of every storage, and the behaviour of each kind on failures.

mod contract;
mod s3_answers;
mod s3_stop;
