//! The options for creating and for opening a repository.

use crate::crypto::{CipherSuite, KdfLimits, Secret};

/// The options for opening a repository.
#[derive(Clone, Debug, Default)]
pub struct OpenOptions {
    /// The maximum cost that a key may demand for its derivation.
    pub kdf_limits: KdfLimits,
    /// Keys that are tried first: those that opened the repository the last time.
    pub first_keys: Vec<[u8; 16]>,
    /// The only key that is tried; `None` to try all of them.
    pub only_key: Option<[u8; 16]>,
    /// Set to ignore objects whose headers claim an unknown key epoch, cipher suite or format.
    /// Otherwise such settings prevent opening, and such commits and prune records prevent writing.
    pub ignores_newer: bool,
}

/// The settings of a new repository.
#[derive(Clone, Debug)]
pub struct InitOptions {
    /// The cipher suite by which objects are sealed.
    pub suite: CipherSuite,
    /// The specification of the cutting algorithm, with all parameters written out.
    pub cut: String,
    /// The number of chunk bytes that a region gathers.
    pub region_size: u32,
    /// The size that a container grows to, in bytes.
    pub container_size: u32,
    /// The zstd level.
    pub compression_level: i32,
    /// Set if chunks that resemble others are stored as delta chunks.
    pub delta_chunks: bool,
    /// The parity of a container, in percent of its length; 0 for none.
    pub parity_percent: u32,
    /// The secret from which fingerprints and cut-points are derived, if another repository has the
    /// same one; `None` for a secret of its own.
    pub chunk_secret: Option<Secret>,
    /// The result of a probe of the storage ([`Probed::may_be_shared`](cutpoint_storage::Probed::may_be_shared));
    /// `None` if it was not probed.
    pub may_be_shared: Option<bool>,
}

impl InitOptions {
    /// The cut specification of [`InitOptions::default`]: FastCDC with chunks of 64 KiB on average.
    pub const DEFAULT_CUT: &str = "fastcdc:level=2,min=16384,normal=53900,max=262144,seed=0";
    /// The region size of [`InitOptions::default`], in bytes.
    pub const DEFAULT_REGION_SIZE: u32 = 2 * 1024 * 1024;
    /// The container size of [`InitOptions::default`], in bytes.
    pub const DEFAULT_CONTAINER_SIZE: u32 = 16 * 1024 * 1024;
    /// The zstd level of [`InitOptions::default`].
    pub const DEFAULT_COMPRESSION_LEVEL: i32 = 3;
}

/// The settings that suit most data, as measured in `book/src/reference/modes.md`: encryption by the cipher that
/// is fastest on this machine, delta chunks, and no parity.
impl Default for InitOptions {
    fn default() -> Self {
        InitOptions {
            suite: CipherSuite::fastest(),
            cut: InitOptions::DEFAULT_CUT.to_owned(),
            region_size: InitOptions::DEFAULT_REGION_SIZE,
            container_size: InitOptions::DEFAULT_CONTAINER_SIZE,
            compression_level: InitOptions::DEFAULT_COMPRESSION_LEVEL,
            delta_chunks: true,
            parity_percent: 0,
            chunk_secret: None,
            may_be_shared: None,
        }
    }
}
