//! The options and sources of the backups in tests.

use std::path::Path;
use std::sync::Arc;

use cutpoint_backup::save::{BackupOptions, IgnoredProperties, Parent, Source};
use cutpoint_backup::source::Kernel;
use cutpoint_backup::source::WalkOptions;
use cutpoint_repository::Verify;

/// Returns the options of a run with `threads` threads.
pub(crate) fn options(threads: usize) -> BackupOptions {
    BackupOptions {
        parent: Parent::Newest,
        force_read: false,
        ignored: IgnoredProperties::default(),
        as_path: None,
        changed_blocks: None,
        skip_if_unchanged: false,
        verify: Verify::Some,
        threads,
        readers: 8,
        readers_begin_at_once: true,
        tags: Vec::new(),
        description: String::new(),
        host: "test".to_owned(),
        user: "tester".to_owned(),
        program: "test".to_owned(),
        file_systems: Arc::new(Kernel),
    }
}

/// Returns the source of everything below `path`.
pub(crate) fn files(path: &Path) -> Source {
    Source::Files { paths: vec![path.to_path_buf()], options: WalkOptions::default() }
}
