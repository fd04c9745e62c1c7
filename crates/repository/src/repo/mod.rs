//! An open repository: its settings, keys, clients, and the objects that one listing saw.

pub mod keys;
pub mod liveness;
pub mod repository;
pub mod view;
