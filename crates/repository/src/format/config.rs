//! The settings of a repository.

use std::fmt::Display;
use std::ops::RangeInclusive;

use cutpoint_storage::{Error, Kind, Result, Visibility};
use minicbor::Decoder;

use super::map::{
    Extra, KEY_OPTIONAL_MIN, MapWriter, at_end, malformed, read_array, read_fixed, read_map,
    required,
};
use super::repository_id::RepositoryId;
use super::suite::CipherSuite;

pub use cutpoint_delta::burst::Options as BurstOptions;

/// A feature for writers: the storage may let several clients create the same object, so that no
/// client ends the ticket of another.
const NO_ATOMIC_CREATE: &str = "no-atomic-create";

/// A feature for readers: chunks that resemble others are stored as delta chunks.
const DELTA_CHUNKS: &str = "delta-chunks";

/// The features that this version supports. A repository that needs another one is refused.
const FEATURES: [&str; 2] = [NO_ATOMIC_CREATE, DELTA_CHUNKS];

/// The settings of a repository: the body of `config/<n>`. The highest n counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// The id of the repository.
    pub repository: RepositoryId,
    /// The cipher suite by which objects are sealed.
    pub suite: CipherSuite,
    /// The specification of the cutting algorithm for new data, with all parameters written out.
    pub cut: String,
    /// Set if cut-points depend on a secret of the repository.
    pub cut_is_keyed: bool,
    /// The number of chunk bytes that a region gathers before it is compressed.
    pub region_size: u32,
    /// The size that a container grows to, in bytes.
    pub container_size: u32,
    /// The zstd level.
    pub compression_level: i32,
    /// The parity of a container, in percent of its length; 0 for none.
    pub parity_percent: u32,
    /// The rule by which chunks are compared: the text of the rule, or an empty text for the
    /// default rule. A text that this version does not know counts as empty.
    pub delta: String,
    /// The kinds of storages as which the objects of this repository have passed a probe, of those
    /// that need one ([`Visibility::IfProbed`]).
    pub probed: Vec<String>,
    /// The time at which these settings were written, in nanoseconds since 1970.
    pub created_ns: i64,
    /// Features that a client must support to read.
    pub features_read: Vec<String>,
    /// Features that a client must support to write.
    pub features_write: Vec<String>,
    /// Features that a client may ignore.
    pub features_optional: Vec<String>,
    /// Entries that a newer version wrote.
    pub extra: Extra,
}

/// The valid sizes of a region, in bytes.
pub const REGION_SIZE: RangeInclusive<u32> = 16 * 1024..=4 * 1024 * 1024;
/// The valid sizes at which a container is put, in bytes.
pub const CONTAINER_SIZE: RangeInclusive<u32> = 4 * 1024 * 1024..=48 * 1024 * 1024;
/// The valid zstd levels.
pub const COMPRESSION_LEVEL: RangeInclusive<i32> = -7..=19;
/// The valid amounts of parity, in percent.
pub const PARITY_PERCENT: RangeInclusive<u32> = 0..=100;

/// The key of the parity. Programs that do not know it may ignore it.
const KEY_PARITY: u32 = KEY_OPTIONAL_MIN;
/// The key of the rule by which chunks are compared. The rule decides which chunks are stored as
/// delta chunks, but not the form of a delta chunk. Therefore it may be ignored, too.
const KEY_DELTA: u32 = KEY_OPTIONAL_MIN + 1;
/// The key of the kinds of storages that were probed. A writer that does not know it probes again.
const KEY_PROBED: u32 = KEY_OPTIONAL_MIN + 2;

/// Checks that a setting is within its range.
fn check_range<T: PartialOrd + Display>(
    name: &str,
    value: T,
    range: RangeInclusive<T>,
    unit: &str,
) -> Result<()> {
    if range.contains(&value) {
        return Ok(());
    }
    let (low, high) = range.into_inner();
    let problem = format!("{value}{unit} is out of range (expected {low}{unit} to {high}{unit})");
    Err(Error::invalid(name, problem))
}

/// Checks that a size is within its range. The ends of the range are whole KiB.
fn check_size(name: &str, size: u32, range: RangeInclusive<u32>) -> Result<()> {
    if range.contains(&size) {
        return Ok(());
    }
    let text = |size: u32| match size {
        _ if size.is_multiple_of(1 << 20) => format!("{} MiB", size >> 20),
        _ if size.is_multiple_of(1 << 10) => format!("{} KiB", size >> 10),
        _ => format!("{size} B"),
    };
    let expected = format!("expected {} to {}", text(*range.start()), text(*range.end()));
    Err(Error::invalid(name, format!("{} is out of range ({expected})", text(size))))
}

impl Config {
    /// Checks that the settings are valid.
    ///
    /// # Errors
    ///
    /// Returns an `Invalid` error that names the setting, its value, and the valid range.
    pub fn check(&self) -> Result<()> {
        check_size("region-size", self.region_size, REGION_SIZE)?;
        check_size("container-size", self.container_size, CONTAINER_SIZE)?;
        check_range("compression-level", self.compression_level, COMPRESSION_LEVEL, "")?;
        check_range("parity", self.parity_percent, PARITY_PERCENT, "%")
    }

    /// Returns `true` unless a probe has found that several puts of one name may all create the
    /// object. On such a storage, a client may end tickets of others, or delete, only if it is
    /// alone.
    pub fn creates_atomically(&self) -> bool {
        !self.features_write.iter().any(|feature| feature == NO_ATOMIC_CREATE)
    }

    /// Records the result of a probe.
    pub fn set_creates_atomically(&mut self, creates_atomically: bool) {
        self.features_write.retain(|feature| feature != NO_ATOMIC_CREATE);
        if !creates_atomically {
            self.features_write.push(NO_ATOMIC_CREATE.to_owned());
        }
    }

    /// Records the result of a probe of a storage that promises `visibility`.
    pub fn record_probe(&mut self, visibility: Visibility, may_be_shared: bool) {
        self.set_creates_atomically(may_be_shared);
        if let Visibility::IfProbed(kind) = visibility {
            self.probed.retain(|probed| probed != kind);
            if may_be_shared {
                self.probed.push(kind.to_owned());
            }
        }
    }

    /// Returns `true` if no probe has found a fault, and the storage of a client that promises
    /// `visibility` needs none or has passed one. The same objects may be a folder for one client and
    /// a bucket for another, by a server that keeps fewer promises than the folder.
    pub fn may_be_shared(&self, visibility: Visibility) -> bool {
        let is_probed = match visibility {
            Visibility::IfProbed(kind) => self.probed.iter().any(|probed| probed == kind),
            Visibility::AtOnce | Visibility::Later => true,
        };
        is_probed && self.creates_atomically()
    }

    /// Returns `true` if chunks that resemble others are stored as delta chunks.
    pub fn uses_delta_chunks(&self) -> bool {
        self.features_read.iter().any(|feature| feature == DELTA_CHUNKS)
    }

    /// Enables delta chunks for chunks that resemble others. Delta chunks cannot be disabled again,
    /// because stored ones have to be read.
    pub fn enable_delta_chunks(&mut self) {
        if !self.uses_delta_chunks() {
            self.features_read.push(DELTA_CHUNKS.to_owned());
        }
    }

    /// Returns the options of BURST, if chunks are compared by BURST.
    pub fn burst(&self) -> Option<BurstOptions> {
        self.delta.parse().ok().filter(|_| self.uses_delta_chunks())
    }

    /// Selects BURST as the rule by which chunks are compared, or the default rule if `options` is
    /// `None`. In both cases delta chunks are enabled.
    pub fn set_burst(&mut self, options: Option<BurstOptions>) {
        self.enable_delta_chunks();
        self.delta = options.map_or_else(String::new, |options| options.to_string());
    }

    /// Refuses a repository that needs features which this version lacks.
    ///
    /// # Errors
    ///
    /// Returns an `Unsupported` error that names the feature.
    pub fn check_features(&self, to_write: bool) -> Result<()> {
        let needed =
            self.features_read.iter().chain(self.features_write.iter().filter(|_| to_write));
        for feature in needed {
            if !FEATURES.contains(&feature.as_str()) {
                return Err(Error::new(
                    Kind::Unsupported,
                    "config",
                    format!(
                        "the repository requires the feature {feature:?}; use a newer cutpoint"
                    ),
                ));
            }
        }
        Ok(())
    }

    /// Encodes the body of the object.
    pub fn encode(&self) -> Vec<u8> {
        let mut map = MapWriter::new();
        map.bytes(0, &self.repository.0).uint(1, u64::from(self.suite.code()));
        map.text(2, &self.cut).bool(3, self.cut_is_keyed);
        map.uint(4, u64::from(self.region_size)).uint(5, u64::from(self.container_size));
        map.int(6, i64::from(self.compression_level)).int(7, self.created_ns);
        map.array_of_texts(8, &self.features_read).array_of_texts(9, &self.features_write);
        map.array_of_texts(10, &self.features_optional);
        if self.parity_percent > 0 {
            map.uint(KEY_PARITY, u64::from(self.parity_percent));
        }
        if !self.delta.is_empty() {
            map.text(KEY_DELTA, &self.delta);
        }
        if !self.probed.is_empty() {
            map.array_of_texts(KEY_PROBED, &self.probed);
        }
        map.extra(&self.extra);
        map.finish()
    }

    /// Decodes the body of the object.
    pub fn decode(bytes: &[u8]) -> Result<Config> {
        let d = &mut Decoder::new(bytes);
        let mut config = Config {
            repository: RepositoryId([0; 16]),
            suite: CipherSuite::None,
            cut: String::new(),
            cut_is_keyed: false,
            region_size: 0,
            container_size: 0,
            compression_level: 0,
            parity_percent: 0,
            delta: String::new(),
            probed: Vec::new(),
            created_ns: 0,
            features_read: Vec::new(),
            features_write: Vec::new(),
            features_optional: Vec::new(),
            extra: Extra::new(),
        };
        let (mut repository, mut suite, mut cut) = (None, None, None);
        config.extra = read_map(d, |key, d| {
            match key {
                0 => repository = Some(RepositoryId(read_fixed(d)?)),
                1 => suite = Some(CipherSuite::from_code(d.u8().map_err(malformed)?)?),
                2 => cut = Some(d.str().map_err(malformed)?.to_owned()),
                3 => config.cut_is_keyed = d.bool().map_err(malformed)?,
                4 => config.region_size = d.u32().map_err(malformed)?,
                5 => config.container_size = d.u32().map_err(malformed)?,
                6 => config.compression_level = d.i32().map_err(malformed)?,
                7 => config.created_ns = d.i64().map_err(malformed)?,
                8 => config.features_read = read_texts(d)?,
                9 => config.features_write = read_texts(d)?,
                10 => config.features_optional = read_texts(d)?,
                KEY_PARITY => config.parity_percent = d.u32().map_err(malformed)?,
                KEY_DELTA => config.delta = d.str().map_err(malformed)?.to_owned(),
                KEY_PROBED => config.probed = read_texts(d)?,
                _ => return Ok(false),
            }
            Ok(true)
        })?;
        at_end(d)?;
        config.repository = required(repository, "repository id in config")?;
        config.suite = required(suite, "suite in config")?;
        config.cut = required(cut, "cut in config")?;
        config.check().map_err(|error| Error::corrupt("", error))?;
        Ok(config)
    }
}

/// Decodes an array of texts.
pub(crate) fn read_texts(d: &mut Decoder<'_>) -> Result<Vec<String>> {
    read_array(d, |d| Ok(d.str().map_err(malformed)?.to_owned()))
}
