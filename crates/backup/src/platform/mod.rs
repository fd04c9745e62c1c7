//! What differs between systems, by the same functions on each.
//!
//! The module `linux` uses calls that only Linux has. The module `portable` does without them, on
//! FreeBSD and macOS. The modules `not_apple` and `apple` have what differs between macOS and both
//! others. What the program lacks on a system is in `docs/platforms.md`. All other modules use calls
//! that the three systems have, such as `openat`.

#[cfg(target_os = "linux")]
mod linux;
#[cfg(target_os = "linux")]
pub(crate) use linux::*;

#[cfg(not(target_os = "linux"))]
mod portable;
#[cfg(not(target_os = "linux"))]
pub(crate) use portable::*;

#[cfg(not(target_vendor = "apple"))]
mod not_apple;
#[cfg(not(target_vendor = "apple"))]
pub(crate) use not_apple::*;

#[cfg(target_vendor = "apple")]
mod apple;
#[cfg(target_vendor = "apple")]
pub(crate) use apple::*;

// Tests of Linux compare both.
#[cfg(all(test, target_os = "linux"))]
#[allow(dead_code, reason = "what has no counterpart to compare with")]
mod portable;
#[cfg(all(test, target_os = "linux"))]
mod tests;

/// The device and the mount on which a folder is. A mount of a folder of the same file system shows
/// only in the second number, which is 0 if the system does not tell it.
pub(crate) type MountId = (u64, u64);
