//! An object of a storage is cut by several threads, and by ranges that are read apart, like one
//! pass.

use std::io;
use std::num::NonZero;
use std::sync::Mutex;
use std::thread;

use bytes::Bytes;
use cutpoint_chunking::{Parallel, Ranges, Seams, Spec, cuts};
use cutpoint_storage::{Memory, Storage};
use cutpoint_testing::SplitMix64;

const NAME: &str = "config";
const SPECS: [&str; 3] = ["fastcdc:avg=16k", "seqcdc:avg=16k", "gear:bits=14,start=carry"];

/// Returns a storage with one object, and the bytes of the object: noise around a run of zeros.
fn stored() -> (Memory, Vec<u8>) {
    let mut data = SplitMix64::bytes(1, 5_000_003);
    data.resize(12_000_000, 0);
    data.extend(SplitMix64::bytes(2, 9_000_000));
    let storage = Memory::new();
    storage.put_new(NAME, Bytes::from(data.clone())).expect("it is put");
    (storage, data)
}

/// Reads an object at any offset by requests of ranges, which it records.
struct Object<'a> {
    storage: &'a Memory,
    size: u64,
    requests: Mutex<Vec<(u64, usize)>>,
}

impl<'a> Object<'a> {
    fn open(storage: &'a Memory) -> Object<'a> {
        let size = storage.head(NAME).expect("it is asked").expect("it exists");
        Object { storage, size, requests: Mutex::default() }
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let left = usize::try_from(self.size.saturating_sub(offset)).unwrap_or(usize::MAX);
        let len = buffer.len().min(left);
        if len == 0 {
            return Ok(0);
        }
        self.requests.lock().expect("no thread panics").push((offset, len));
        let bytes = self.storage.get_range(NAME, offset, len).map_err(io::Error::other)?;
        buffer[..len].copy_from_slice(&bytes);
        Ok(len)
    }
}

#[test]
fn threads_cut_object_like_one_pass() {
    let (storage, data) = stored();
    for text in SPECS {
        let spec: Spec = text.parse().expect("the spec is right");
        let object = Object::open(&storage);
        let threads = NonZero::new(3).expect("it is not 0");
        let parallel = Parallel::new(spec.chunker(), threads);
        let ends = parallel.read_at(
            |buffer, offset| object.read_at(buffer, offset),
            |chunks| {
                let mut ends = Vec::new();
                while let Some(chunk) = chunks.next().expect("it is read") {
                    let start = ends.last().copied().unwrap_or(0);
                    let end = start + chunk.len();
                    assert!(chunk == &data[start..end], "{spec}: bytes at {start}");
                    ends.push(end);
                }
                ends
            },
        );
        assert!(cuts(&*spec.chunker(), &data).eq(ends), "{spec}");
        let requests = object.requests.into_inner().expect("no thread panicked");
        // Blocks of 4 MiB, each by one request.
        assert_eq!(requests.len(), data.len().div_ceil(4 << 20), "{spec}: {requests:?}");
    }
}

#[test]
fn ranges_of_object_read_apart_are_cut_like_one_pass() {
    let (storage, data) = stored();
    let mut repaired_count = 0;
    for text in SPECS {
        let spec: Spec = text.parse().expect("the spec is right");
        let ranges = Ranges::new(spec.chunker());
        let size = NonZero::new(1_500_000).expect("it is not 0");
        let plan: Vec<_> = ranges.plan(data.len() as u64, size).collect();
        // Each range is a task of its own: another object, one request for all that it reads.
        let task = |owned: &std::ops::Range<u64>| {
            let object = Object::open(&storage);
            let reach = ranges.reach(owned);
            let mut bytes = vec![0; usize::try_from(reach.end.min(object.size) - reach.start)?];
            object.read_at(&mut bytes, reach.start)?;
            let read_at = |buffer: &mut [u8], offset: u64| {
                let start = usize::try_from(offset - reach.start).unwrap_or(usize::MAX);
                io::Read::read(&mut bytes.get(start..).unwrap_or_default(), buffer)
            };
            let mut chunks = ranges.chunks(read_at, owned.clone());
            let mut list = Vec::new();
            while let Some((offset, chunk)) = chunks.next()? {
                if list.is_empty() {
                    list.push(offset);
                }
                list.push(offset + chunk.len() as u64);
            }
            Ok::<_, Box<dyn std::error::Error + Send + Sync>>(list)
        };
        let lists: Vec<Vec<u64>> = thread::scope(|scope| {
            let tasks: Vec<_> = plan.iter().map(|owned| scope.spawn(move || task(owned))).collect();
            let lists = tasks.into_iter().map(|task| task.join().expect("it runs").expect("read"));
            lists.collect()
        });
        let object = Object::open(&storage);
        let (mut seams, mut ends) = (Seams::new(), Vec::new());
        for (owned, list) in plan.iter().zip(lists) {
            let span = list.first().zip(list.last()).map(|(&first, &end)| first..end);
            let mut first_true = 0;
            if !seams.holds(owned, span) {
                repaired_count += 1;
                let read_at = |buffer: &mut [u8], offset: u64| object.read_at(buffer, offset);
                let each = |offset: u64, chunk: &[u8]| ends.push(offset + chunk.len() as u64);
                first_true =
                    ranges.repair(&mut seams, read_at, owned.end, &list, each).expect("it is read");
            }
            ends.extend(list.iter().skip(first_true + 1));
        }
        let chunker = spec.chunker();
        let expected = cuts(&*chunker, &data).map(|end| end as u64);
        assert!(expected.eq(ends), "{spec}");
    }
    assert!(repaired_count > 0, "the run of zeros breaks a seam");
}
