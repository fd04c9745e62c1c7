//! The heap of the GNU C library.

/// The size from which a buffer has memory of its own, in bytes, which returns to the system with
/// the buffer. Smaller ones leave gaps in the heap.
const MAPPED_LEN_MIN: i32 = 1 << 20;
/// The size of free memory at the end of the heap, in bytes, from which it returns to the system.
const FREE_LEN_MAX: i32 = 16 << 20;

/// Keeps the process small: all threads that start from now on share one heap. Otherwise each has its
/// own, which keeps the memory that the thread has freed.
pub(super) fn bound() {
    for (setting, value) in [
        (libc::M_ARENA_MAX, 1),
        (libc::M_MMAP_THRESHOLD, MAPPED_LEN_MIN),
        (libc::M_TRIM_THRESHOLD, FREE_LEN_MAX),
    ] {
        // SAFETY: the call changes a setting of the allocator, which locks itself for it.
        unsafe {
            libc::mallopt(setting, value);
        }
    }
}
