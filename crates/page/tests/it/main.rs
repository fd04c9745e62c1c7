//! The page through HTTP and in a real browser.
#![cfg(feature = "server")]
#![expect(clippy::unwrap_used, reason = "a test stops at an unexpected result")]

// Helpers.
mod client;
mod scene;

// Tests.
mod access;
mod answers;
mod browser;
mod large_folder;
mod restores;
mod sizes;
mod webdav;
