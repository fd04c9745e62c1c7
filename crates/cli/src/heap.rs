//! The heap: that of the GNU C library, or mimalloc in static programs. On other systems, nothing is
//! set.

/// Saves the time of the kernel that freed memory costs when it returns to the system and is taken
/// again. For commands that end with their work: the memory is theirs until then.
pub(crate) fn keep_freed() {
    #[cfg(target_env = "musl")]
    mimalloc::set(mimalloc::PURGE_DELAY, mimalloc::NEVER);
}

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

#[cfg(target_env = "musl")]
#[expect(unsafe_code, reason = "the allocator is called")]
mod mimalloc {
    use std::ffi::{c_int, c_long};

    /// `mi_option_purge_delay` of `mimalloc.h`: the time after which freed memory returns to the
    /// system, in milliseconds.
    pub(super) const PURGE_DELAY: c_int = 15;
    /// The delay without an end.
    pub(super) const NEVER: c_long = -1;

    unsafe extern "C" {
        /// Sets an option of the allocator.
        fn mi_option_set(option: c_int, value: c_long);
    }

    pub(super) fn set(option: c_int, value: c_long) {
        // SAFETY: the signature is that of `mimalloc.h`. The call writes one number, and the allocator
        // refuses an option that it does not have.
        unsafe { mi_option_set(option, value) }
    }
}
