use super::{AVERAGES, Cases};

pub(crate) const CASES: Cases = Cases {
    algorithm: "ronomon",
    specs: &[
        "ronomon:min=64,average=256,max=1024",
        "ronomon:min=64,average=600,max=2000",
        "ronomon:min=1000,average=256,max=1024",
    ],
    vectors: &[(
        "ronomon",
        &["ronomon:min=2048,average=8192,max=65536", "ronomon:avg=2048", "ronomon:avg=5000"],
    )],
    averages: &[("ronomon:avg=", AVERAGES)],
};
