//! The promises of every storage, and the behaviour of each kind on failures.

mod contract;
mod liar;
mod listener;
mod local;
mod probe;
mod rest_answers;
mod s3_answers;
mod s3_locks;
mod s3_server;
mod s3_stalls;
mod s3_stop;
mod services;
mod sftp_command;
mod throttle;
