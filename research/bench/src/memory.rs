//! Memory for measurements.

use std::{fs, io};

use memmap2::{Advice, MmapMut};

/// A buffer on large pages, if the system provides them. The buffer is an anonymous mapping, for
/// which large pages are requested (`madvise`, `MADV_HUGEPAGE`). On small pages, a fast loop waits
/// for address translations.
#[derive(Debug)]
pub struct Buffer {
    map: MmapMut,
    size: usize,
}

/// The size of a large page in bytes, or a multiple of it. Mappings are a multiple of this size, so
/// that the last page is large, too.
const PAGE_SIZE: usize = 2 << 20;

impl Buffer {
    /// Maps `size` bytes, which are zero and take no memory until they are written.
    ///
    /// # Errors
    ///
    /// Returns the error of the system if it refuses the mapping. A lack of large pages is no
    /// error.
    pub fn new(size: usize) -> io::Result<Buffer> {
        let mapped = size.max(1).checked_next_multiple_of(PAGE_SIZE);
        let map = MmapMut::map_anon(mapped.ok_or(io::ErrorKind::OutOfMemory)?)?;
        #[cfg(target_os = "linux")]
        // Kernels without large pages refuse, and small pages are good enough.
        map.advise(Advice::HugePage).ok();
        Ok(Buffer { map, size })
    }

    /// Returns the bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.map[..self.size]
    }

    /// Returns the bytes for writing.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.map[..self.size]
    }

    /// Shortens the buffer to its first `size` bytes.
    pub fn truncate(&mut self, size: usize) {
        self.size = self.size.min(size);
    }

    /// Returns the number of bytes of the buffer that are currently on large pages as counted by
    /// the system, or `None` if the system does not tell.
    pub fn large_page_bytes(&self) -> Option<usize> {
        let smaps = fs::read_to_string("/proc/self/smaps").ok()?;
        let bytes = large_page_bytes(&smaps, self.map.as_ptr().addr())?;
        Some(bytes.min(self.size))
    }
}

/// Returns the size of the large pages of the mapping that contains `address`, in bytes.
fn large_page_bytes(smaps: &str, address: usize) -> Option<usize> {
    let has_address = |line: &str| {
        let (start, end) = line.split_ascii_whitespace().next()?.split_once('-')?;
        let start = usize::from_str_radix(start, 16).ok()?;
        let end = usize::from_str_radix(end, 16).ok()?;
        Some((start..end).contains(&address))
    };
    let mut lines = smaps.lines().skip_while(|line| has_address(line) != Some(true)).skip(1);
    let line = lines.find_map(|line| line.strip_prefix("AnonHugePages:"))?;
    let kib: usize = line.trim().strip_suffix(" kB")?.parse().ok()?;
    kib.checked_mul(1024)
}

/// Returns the number of bytes that a program can use without swapping, as estimated by the system,
/// or `None` if there is no estimate.
pub fn available_memory() -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: u64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
    kib.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_pages_are_those_of_the_mapping() {
        let smaps = "\
7f00-7f80 rw-p 00000000 00:00 0\n\
AnonHugePages:      4096 kB\n\
7f80-8000 rw-p 00000000 00:00 0\n\
Rss: 12 kB\n\
AnonHugePages:      2048 kB\n";
        assert_eq!(large_page_bytes(smaps, 0x7f7f), Some(4 << 20), "the first");
        assert_eq!(large_page_bytes(smaps, 0x7f80), Some(2 << 20), "the second");
        assert_eq!(large_page_bytes(smaps, 0x9000), None, "none");
    }

    #[test]
    fn buffer_has_the_requested_size() {
        let mut buffer = Buffer::new(3_000_000).expect("memory");
        buffer.bytes_mut().fill(1);
        assert_eq!(buffer.bytes().len(), 3_000_000, "size");
        buffer.truncate(10);
        assert_eq!(buffer.bytes(), [1; 10], "truncated");
        assert!(Buffer::new(usize::MAX).is_err(), "more than there can be");
    }
}
