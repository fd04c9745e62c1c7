//! Compressed clusters.

use flate2::{Decompress, FlushDecompress};
use zstd::stream::raw::{DParameter, Decoder, InBuffer, Operation, OutBuffer};

use super::header::Compression;

/// The binary logarithm of the maximum distance of a match in bytes, which bounds the memory of the
/// decoder. A cluster has at most 2 MiB.
const WINDOW_LOG_MAX: u32 = 23;

/// Fills `cluster` from `bytes`, behind whose end other data may follow. Returns `false` if that is
/// impossible.
pub(super) fn decompress(method: Compression, bytes: &[u8], cluster: &mut [u8]) -> bool {
    match method {
        Compression::Deflate => inflate(bytes, cluster),
        Compression::Zstd => decode_zstd(bytes, cluster).unwrap_or(false),
    }
}

fn inflate(bytes: &[u8], cluster: &mut [u8]) -> bool {
    let mut decoder = Decompress::new(false);
    let done = decoder.decompress(bytes, cluster, FlushDecompress::Finish);
    done.is_ok() && decoder.total_out() == cluster.len() as u64
}

fn decode_zstd(bytes: &[u8], cluster: &mut [u8]) -> std::io::Result<bool> {
    let mut decoder = Decoder::new()?;
    decoder.set_parameter(DParameter::WindowLogMax(WINDOW_LOG_MAX))?;
    let mut input = InBuffer::around(bytes);
    let len = cluster.len();
    let mut output = OutBuffer::around(cluster);
    loop {
        let before = (input.pos(), output.pos());
        decoder.run(&mut input, &mut output)?;
        if output.pos() == len {
            return Ok(true);
        }
        if (input.pos(), output.pos()) == before {
            return Ok(false);
        }
    }
}
