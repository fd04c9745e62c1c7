//! The heap of the GNU C library. On other systems, nothing is set.

/// Has all threads that start from now on share one heap. Otherwise each has its own, which keeps the
/// memory that the thread has freed.
pub(crate) fn share() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    gnu::set(libc::M_ARENA_MAX, 1);
}

/// Keeps the process small at the cost of time: threads share one heap, and freed memory returns to
/// the system.
#[cfg(all(feature = "mount", target_os = "linux"))]
pub(crate) fn bound() {
    share();
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    {
        gnu::set(libc::M_MMAP_THRESHOLD, gnu::MAPPED_LEN_MIN);
        gnu::set(libc::M_TRIM_THRESHOLD, gnu::FREE_LEN_MAX);
    }
}

#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[expect(unsafe_code, reason = "the C library is called")]
mod gnu {
    /// The size from which a buffer has memory of its own, in bytes, which returns to the system
    /// with the buffer. Smaller ones leave gaps in the heap.
    #[cfg(feature = "mount")]
    pub(super) const MAPPED_LEN_MIN: i32 = 1 << 20;
    /// The size of free memory at the end of the heap, in bytes, from which it returns to the system.
    #[cfg(feature = "mount")]
    pub(super) const FREE_LEN_MAX: i32 = 16 << 20;

    pub(super) fn set(setting: i32, value: i32) {
        // SAFETY: the call changes a setting of the allocator, which locks itself for it.
        unsafe {
            libc::mallopt(setting, value);
        }
    }
}
