//! What several topics need: storages with faults, sample repositories, and their properties.

pub(crate) mod backup;
pub(crate) mod bad_sectors;
pub(crate) mod complete_reader;
pub(crate) mod damaged_repository;
pub(crate) mod decoding;
pub(crate) mod delta_chunks;
pub(crate) mod failing_puts;
pub(crate) mod failing_reads;
pub(crate) mod far;
pub(crate) mod machine;
pub(crate) mod object_damage;
pub(crate) mod overtaken;
pub(crate) mod own_process;
pub(crate) mod partial_knowledge;
pub(crate) mod planted;
pub(crate) mod pruning;
pub(crate) mod put_packed;
pub(crate) mod sleeper;
pub(crate) mod store_again;
