//! Runs the program as a process, and checks its output, its effects and its exit codes.

mod alarms;
mod as_path;
mod bursts;
mod copy;
mod cut;
mod damage;
mod devices;
mod diff;
mod diff_disk;
mod dry_run;
mod dump_archive;
mod estimate;
mod exclusion;
mod failures;
mod find;
mod forget;
mod full_disk;
mod guide;
mod help;
mod import;
mod json;
mod keeping;
mod keys;
mod load;
mod memory;
mod modes;
mod optimize;
mod profile_safety;
mod program;
mod prune;
mod random_damage;
mod repair;
mod restore_options;
mod rollback;
mod round_trip;
mod s3;
mod s3_deletion;
mod sandbox;
mod schema;
mod secrets;
mod select;
#[cfg(feature = "serve")]
mod serve;
#[cfg(any(feature = "serve", feature = "volume"))]
mod served;
mod services;
mod signals;
mod source_command;
mod stats;
mod stdin_tar;
mod tiny;
mod untrusted;
mod usage;
#[cfg(feature = "volume")]
mod volume;
