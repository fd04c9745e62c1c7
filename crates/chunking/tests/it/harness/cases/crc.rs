use super::{AVERAGES, Cases};

pub(crate) const CASES: Cases = Cases {
    algorithm: "crc",
    specs: &[
        "crc:bits=7,window=16",
        "crc:bits=5,window=4,max=100",
        "crc:bits=6,window=48,cut=before,max=48",
        "crc:bits=7,window=13,min=50,max=600",
        "crc:bits=7,window=20,cut=before,min=64,max=1024",
    ],
    vectors: &[(
        "crc",
        &[
            "crc:avg=2048",
            "crc:avg=10007,window=256,max=65536",
            "crc:bits=12,window=256,cut=before,min=1024,max=16384",
        ],
    )],
    averages: &[("crc:avg=", AVERAGES), ("crc:window=64,cut=before,max=131072,avg=", &[256, 8192])],
};
