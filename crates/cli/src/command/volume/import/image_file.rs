//! An image file as the source of an import.

use std::path::Path;

use anyhow::Result;
use cutpoint_image::{Error, Format, Kind, Opened};

use super::{DiskReader, Extent};
use crate::args::{ImageFormat, VolumeImport};
use crate::exit::{Exit, Failure};
use crate::report::Report;
use crate::units;

/// An image file, or a block device.
pub(super) struct ImageFile(Opened);

impl ImageFile {
    pub(super) fn open(args: &VolumeImport, path: &Path, report: &Report) -> Result<ImageFile> {
        let format = args.format.map(|format| match format {
            ImageFormat::Raw => Format::Raw,
            ImageFormat::Qcow2 => Format::Qcow2,
        });
        let opened = cutpoint_image::open(path, format, &args.backing).map_err(failure)?;
        if opened.image.size() == 0 {
            return Err(Failure::failed(format!("{}: the disk is empty", path.display())).into());
        }
        if opened.snapshot_count > 0 {
            let count = units::count(opened.snapshot_count.into(), "snapshot");
            report.warning(path, &format!("{count} within the image ignored"));
        }
        Ok(ImageFile(opened))
    }

    /// Returns the name of the format.
    pub(super) fn format(&self) -> String {
        self.0.format.to_string()
    }
}

impl DiskReader for ImageFile {
    fn size(&self) -> u64 {
        self.0.image.size()
    }

    fn extent(&mut self, offset: u64) -> Result<Extent> {
        let cutpoint_image::Extent { len, is_zero } =
            self.0.image.extent(offset).map_err(failure)?;
        Ok(Extent { len, is_zero })
    }

    fn read(&mut self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        Ok(self.0.image.read(offset, buffer).map_err(failure)?)
    }
}

/// Returns the end of a run for an error of an image, with its remedy.
#[expect(clippy::needless_pass_by_value, reason = "the argument of map_err")]
fn failure(error: Error) -> Failure {
    let text = error.to_string();
    match error.kind() {
        Kind::NeedsBacking => Failure::failed(text)
            .with_remedy("name the backing file with --backing, or flatten the image: `qemu-img convert -O qcow2 IMAGE NEW`"),
        Kind::Unsupported => Failure::failed(text).with_remedy(
            "`qemu-img convert -O raw IMAGE NEW` makes an image that can be imported; --format raw imports \
             the file as it is",
        ),
        Kind::Corrupt => Failure::new(Exit::Damaged, text)
            .with_remedy("copy the image again; `qemu-img check IMAGE` lists the damage"),
        _ => Failure::failed(text),
    }
}
