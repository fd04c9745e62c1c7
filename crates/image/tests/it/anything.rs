//! Reads any bytes as a qcow2 image: for `random_input` and for the fuzz target `images`.

use cutpoint_image::open_qcow2;

/// The maximum number of extents of an image that are looked at.
const EXTENT_COUNT_MAX: usize = 2000;
/// The maximum number of bytes of an extent that are read.
const READ_MAX: u64 = 70_000;

/// Reads `bytes` as an image. Returns `true` if it is one without an error.
pub(crate) fn anything(bytes: &[u8]) -> bool {
    let Ok(mut opened) = open_qcow2("image", Box::new(bytes.to_vec())) else { return false };
    let image = &mut *opened.image;
    let size = image.size();
    let mut is_well = true;
    let mut at = 0;
    for _ in 0..EXTENT_COUNT_MAX {
        if at >= size {
            break;
        }
        // After an error, the next cluster may be readable.
        let Ok(extent) = image.extent(at) else {
            is_well = false;
            at += 512;
            continue;
        };
        assert!(extent.len > 0 && extent.len <= size - at, "{extent:?} at {at} of {size}");
        let len = usize::try_from(extent.len.min(READ_MAX)).expect("short");
        let mut buffer = vec![1; len];
        match image.read(at, &mut buffer) {
            Ok(()) if extent.is_zero => {
                assert!(buffer.iter().all(|byte| *byte == 0), "zeros at {at}");
            }
            Ok(()) => {}
            Err(_) => is_well = false,
        }
        at += extent.len;
    }
    assert!(image.read(size, &mut [0]).is_err(), "there is no byte behind the end");
    assert!(image.extent(size).is_err(), "there is no extent behind the end");
    is_well
}
