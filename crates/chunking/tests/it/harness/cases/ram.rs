use super::{AVERAGES, Cases};

pub(crate) const CASES: Cases = Cases {
    algorithm: "ram",
    specs: &[
        "ram:window=1",
        "ram:window=60",
        "ram:window=250,max=1500",
        "ram:window=100,max=101",
        "ram:window=64,cut=before,max=500",
        "ram:window=30,equal=pass,max=900",
        "ram:window=7,cut=before,equal=pass",
    ],
    vectors: &[(
        "ram",
        &[
            "ram:avg=2048",
            "ram:avg=10007,cut=before",
            "ram:window=7936,max=32768",
            "ram:window=1000,equal=pass,max=30000",
        ],
    )],
    averages: &[("ram:avg=", AVERAGES), ("ram:cut=before,avg=", &[2048, 16_384])],
};
