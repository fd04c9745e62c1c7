//! Readers of disk images: raw files, block devices and qcow2.
//!
//! [`open`] returns an [`Image`], which says where it has data and reads it. An image is input that
//! is not trusted. A reader allocates a bounded amount of memory, whatever the image says, and opens
//! no file but those that the caller names: names of backing files and of external data files in an
//! image are never followed.
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let scratch = tempfile::tempdir()?;
//! # let path = scratch.path().join("image");
//! std::fs::write(&path, b"the bytes of a disk")?;
//! let mut opened = cutpoint_image::open(&path, None, &[])?;
//! assert_eq!(opened.format, cutpoint_image::Format::Raw);
//! let mut bytes = [0; 5];
//! opened.image.read(4, &mut bytes)?;
//! assert_eq!(&bytes, b"bytes");
//! # Ok(())
//! # }
//! ```

#![forbid(unsafe_code)]

mod bytes;
mod detect;
mod error;
mod image;
mod open;
mod qcow2;
mod raw;

pub use bytes::ByteSource;
pub use detect::Format;
pub use error::{Error, Kind, Result};
pub use image::{Extent, Image};
pub use open::{Opened, open, open_qcow2};
