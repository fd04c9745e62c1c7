use super::{AVERAGES, Cases};

pub(crate) const CASES: Cases = Cases {
    algorithm: "aes",
    specs: &[
        "aes:bits=7",
        "aes:bits=7,window=16",
        "aes:bits=1,min=2,max=32",
        "aes:bits=6,window=16,max=100",
        "aes:bits=8,min=50,max=600",
        "aes:bits=7,window=16,min=64,max=1024",
    ],
    vectors: &[("aes", &["aes:avg=2048", "aes:avg=10007,window=16,max=65536", "aes:bits=11"])],
    averages: &[("aes:avg=", AVERAGES), ("aes:window=16,max=131072,avg=", &[256, 8192])],
};
