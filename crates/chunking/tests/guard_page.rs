//! No byte outside of the data is read: the memory before and behind it is inaccessible.
//!
//! The test has a process of its own, because a wrong read ends the process.

#![cfg(unix)]

#[path = "it/harness/mod.rs"]
mod harness;

use cutpoint_chunking::{Chunker, Level, Spec, cuts};
use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap_anonymous, mprotect};

use harness::cases;
use harness::inputs::{key_material, kinds};

/// The size of the accessible memory, a multiple of every page size.
const PART_SIZE: usize = 64 * 1024;

/// Returns memory whose neighbours on both sides end a program that reads them.
#[expect(unsafe_code, reason = "there is no safe way to memory that cannot be read")]
fn guarded() -> &'static mut [u8] {
    // SAFETY: the memory is new, at an address that the system chooses, and has no other users.
    let start = unsafe {
        mmap_anonymous(std::ptr::null_mut(), 3 * PART_SIZE, ProtFlags::empty(), MapFlags::PRIVATE)
    }
    .expect("there is memory");
    let middle = start.wrapping_byte_add(PART_SIZE);
    // SAFETY: this is the second of three parts of the memory that was just mapped, and has no
    // other users.
    unsafe { mprotect(middle, PART_SIZE, MprotectFlags::READ | MprotectFlags::WRITE) }
        .expect("it is ours");
    // SAFETY: these bytes are readable and writable, are zeros, and are never unmapped.
    unsafe { std::slice::from_raw_parts_mut(middle.cast(), PART_SIZE) }
}

#[test]
fn nothing_outside_of_the_data_is_read() {
    let memory = guarded();
    let texts = cases::chosen().flat_map(|cases| cases.specs);
    for (index, text) in texts.enumerate() {
        let spec: Spec = text.parse().expect("a spec");
        let min = spec.chunk_size_min();
        let sizes = [1, 2, 63, 64, 65, 66, 127, 130, 1000, 3001, min + 1, min + 65, 2 * min + 129];
        for size in sizes {
            for (name, data) in kinds(size, index as u64) {
                check(&spec, name, &data, memory);
            }
        }
    }
}

/// Cuts `data` at the start and at the end of the accessible memory, next to memory that cannot be
/// read.
fn check(spec: &Spec, name: &str, data: &[u8], memory: &mut [u8]) {
    let material = key_material(1);
    let chunkers = |level| {
        [Some(spec.chunker_at(level)), spec.keyed_chunker_at(&material, level).ok()]
            .into_iter()
            .flatten()
    };
    let ends = |chunker: &dyn Chunker, data: &[u8]| cuts(chunker, data).collect::<Vec<usize>>();
    let expected: Vec<_> = chunkers(Level::SCALAR).map(|chunker| ends(&*chunker, data)).collect();
    for level in Level::available() {
        for (chunker, expected) in chunkers(level).zip(&expected) {
            for place in [0..data.len(), PART_SIZE - data.len()..PART_SIZE] {
                memory[place.clone()].copy_from_slice(data);
                let ends = ends(&*chunker, &memory[place.clone()]);
                let level = level.name();
                assert_eq!(ends, *expected, "{spec}, {level}, {} of {name}, {place:?}", data.len());
            }
        }
    }
}
