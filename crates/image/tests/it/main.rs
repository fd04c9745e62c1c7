//! Tests of the readers of images: images of QEMU, damaged and hostile ones, raw files.

mod anything;
mod damage;
mod made;
mod qemu;
mod random_input;
mod raw;
