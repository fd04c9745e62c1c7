//! The data to cut, in memory: the files of a data set, or generated data.

use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use crate::made::Made;
use crate::searched::Searched;
use crate::size::size;
use crate::{DataPart, LabError};

/// A data set in memory.
#[derive(Clone, Debug)]
pub struct DataSet {
    /// The name of the data set.
    pub name: String,
    /// The versions in order, which together have at least one byte.
    pub versions: Vec<Version>,
    /// The first 16 hexadecimal digits of BLAKE3 over versions, names and bytes.
    pub hash: String,
    /// The Shannon entropy of order 0, in bits per byte.
    pub entropy: f64,
    /// The size after compression by gzip, level 6, as a share of the size.
    pub gzip_ratio: f64,
    /// The parameters that were found on this data set until now.
    pub(crate) searched: Searched,
}

/// The files of one version, sorted by name.
#[derive(Clone, Debug, Default)]
pub struct Version {
    /// The bytes of each file.
    pub streams: Vec<Vec<u8>>,
}

/// The maximum size of the sample of a data set that is compressed for the gzip ratio, in bytes.
/// The sample consists of pieces of a mebibyte at equal distances.
const GZIP_SIZE: usize = 32 << 20;

impl DataSet {
    /// Generates the data set of `part`, or reads its files below `folder`. `goes_on` is called
    /// between files, and ends the loading by returning `false`.
    ///
    /// # Errors
    ///
    /// Returns [`LabError::File`] if a file is missing or cannot be read, [`LabError::Data`] if
    /// there is not a single byte, and [`LabError::Interrupted`] if `goes_on` returns `false`.
    pub fn load(
        part: &DataPart,
        folder: &Path,
        goes_on: &dyn Fn() -> bool,
    ) -> Result<DataSet, LabError> {
        let limit = part.size.as_ref().and_then(|text| size(text.get_ref())).unwrap_or(usize::MAX);
        let name = part.name.get_ref().clone();
        let versions_max =
            part.versions.as_ref().map_or(usize::MAX, |count| *count.get_ref() as usize);
        let mut hasher = blake3::Hasher::new();
        let mut versions = Vec::new();
        if let Some(path) = &part.path {
            let path = folder.join(path.get_ref());
            for root in version_roots(&path)?.into_iter().take(versions_max) {
                let mut version = Version::default();
                let mut left = limit;
                hasher.update(b"version");
                for file in files_below(&root)? {
                    if left == 0 {
                        break;
                    }
                    if !goes_on() {
                        return Err(LabError::Interrupted);
                    }
                    let bytes = read(&file, left)?;
                    left -= bytes.len();
                    let below = file.strip_prefix(&root).unwrap_or(&file);
                    hash_file(&mut hasher, below.as_os_str().as_encoded_bytes(), &bytes);
                    version.streams.push(bytes);
                }
                versions.push(version);
            }
        } else {
            let made = part.made.as_ref().and_then(|made| Made::named(made.get_ref()));
            let made = made.unwrap_or(Made::Random);
            let count = versions_max.min(made.version_count());
            let mut maker = made.maker(part.seed, limit);
            for _ in 0..count {
                if !goes_on() {
                    return Err(LabError::Interrupted);
                }
                let bytes = maker();
                hasher.update(b"version");
                hash_file(&mut hasher, b"", &bytes);
                versions.push(Version { streams: vec![bytes] });
            }
        }
        if part.join {
            for version in &mut versions {
                version.streams = vec![version.streams.concat()];
            }
        }
        let set = DataSet {
            name,
            versions,
            hash: hasher.finalize().to_hex()[..16].to_owned(),
            entropy: 0.0,
            gzip_ratio: 0.0,
            searched: Searched::default(),
        };
        if set.size() == 0 {
            let message = "empty; build the data set (research/datasets), or remove it from the \
                 definition";
            return Err(LabError::Data { name: set.name, message: message.to_owned() });
        }
        Ok(DataSet { entropy: entropy(set.streams()), gzip_ratio: gzip_ratio(&set), ..set })
    }

    /// Returns the streams of all versions, in order.
    pub fn streams(&self) -> impl Iterator<Item = &[u8]> + Clone {
        self.versions.iter().flat_map(|version| &version.streams).map(Vec::as_slice)
    }

    /// Returns the number of bytes.
    pub fn size(&self) -> usize {
        self.streams().map(<[u8]>::len).sum()
    }

    /// Returns the number of streams.
    pub fn stream_count(&self) -> usize {
        self.streams().count()
    }

    /// Returns the concatenation of all streams, at most `limit` bytes.
    pub fn joined(&self, limit: usize) -> Vec<u8> {
        let mut joined = Vec::with_capacity(self.size().min(limit));
        for stream in self.streams() {
            let room = limit - joined.len();
            joined.extend_from_slice(&stream[..stream.len().min(room)]);
        }
        joined
    }
}

fn hash_file(hasher: &mut blake3::Hasher, name: &[u8], bytes: &[u8]) {
    hasher.update(&(name.len() as u64).to_le_bytes()).update(name);
    hasher.update(&(bytes.len() as u64).to_le_bytes()).update(bytes);
}

/// Returns the folders of the versions of a data set, sorted: the folders whose name is `v` and
/// digits, or the data set itself if there are none.
fn version_roots(path: &Path) -> Result<Vec<PathBuf>, LabError> {
    let kind = fs::metadata(path).map_err(LabError::of(path))?;
    let mut roots = Vec::new();
    if kind.is_dir() {
        for entry in entries(path)? {
            let name = entry.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let is_version = name.strip_prefix('v').is_some_and(|digits| {
                !digits.is_empty()
                    && digits
                        .split('.')
                        .next()
                        .is_some_and(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()))
            });
            if is_version {
                roots.push(entry);
            }
        }
    }
    if roots.is_empty() {
        roots.push(path.to_owned());
    }
    Ok(roots)
}

/// Returns the entries of a folder, sorted by name.
fn entries(path: &Path) -> Result<Vec<PathBuf>, LabError> {
    let list: io::Result<Vec<PathBuf>> =
        fs::read_dir(path).and_then(|entries| entries.map(|entry| Ok(entry?.path())).collect());
    let mut list = list.map_err(LabError::of(path))?;
    list.sort();
    Ok(list)
}

/// Returns all regular files at or below `path`, in the order of their names. Links are not
/// followed.
fn files_below(path: &Path) -> Result<Vec<PathBuf>, LabError> {
    let kind = fs::symlink_metadata(path).map_err(LabError::of(path))?;
    let mut files = Vec::new();
    if kind.is_dir() {
        for entry in entries(path)? {
            files.extend(files_below(&entry)?);
        }
    } else if kind.is_file() {
        files.push(path.to_owned());
    }
    Ok(files)
}

fn read(path: &Path, limit: usize) -> Result<Vec<u8>, LabError> {
    let mut bytes = Vec::new();
    let file = fs::File::open(path).map_err(LabError::of(path))?;
    file.take(limit as u64).read_to_end(&mut bytes).map_err(LabError::of(path))?;
    Ok(bytes)
}

fn entropy<'a>(streams: impl Iterator<Item = &'a [u8]>) -> f64 {
    let mut counts = [0_u64; 256];
    for stream in streams {
        stream.iter().for_each(|byte| counts[usize::from(*byte)] += 1);
    }
    let sum: u64 = counts.iter().sum();
    let shares = counts.iter().filter(|count| **count > 0).map(|count| *count as f64 / sum as f64);
    shares.map(|share| share * (1.0 / share).log2()).sum()
}

fn gzip_ratio(set: &DataSet) -> f64 {
    const PIECE: usize = 1 << 20;
    let step = set.size().div_ceil(GZIP_SIZE).max(1);
    let pieces = set.streams().flat_map(|stream| stream.chunks(PIECE)).step_by(step);
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::new(6));
    let mut size = 0;
    for piece in pieces {
        size += piece.len();
        if io::Write::write_all(&mut encoder, piece).is_err() {
            return f64::NAN;
        }
    }
    encoder.finish().map_or(f64::NAN, |compressed| compressed.len() as f64 / size.max(1) as f64)
}
