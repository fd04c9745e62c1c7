//! What tests of whole runs share.

use std::path::Path;
use std::sync::Arc;

use cutpoint_backup::backup::{BackupOptions, Parent, Source};
use cutpoint_backup::files::Kernel;
use cutpoint_backup::files::walk::WalkOptions;
use cutpoint_store::writer::Verify;

/// Options of a run with so many threads.
pub(crate) fn options(threads: usize) -> BackupOptions {
    BackupOptions {
        parent: Parent::Newest,
        force_read: false,
        skip_if_unchanged: false,
        verify: Verify::Some,
        threads,
        tags: Vec::new(),
        description: String::new(),
        host: "test".to_owned(),
        user: "tester".to_owned(),
        program: "test".to_owned(),
        file_systems: Arc::new(Kernel),
    }
}

/// All that lies below `path`.
pub(crate) fn files(path: &Path) -> Source {
    Source::Files { paths: vec![path.to_path_buf()], options: WalkOptions::default() }
}
