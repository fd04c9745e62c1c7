use super::{AVERAGES, Cases};

pub(crate) const CASES: Cases = Cases {
    algorithm: "mincdc",
    specs: &[
        "mincdc:min=4,max=4",
        "mincdc:min=4,max=60",
        "mincdc:min=100,max=300",
        "mincdc:min=99,max=101,value=plain",
        "mincdc:min=70,max=500,value=plain",
    ],
    vectors: &[(
        "mincdc",
        &["mincdc:min=4096,max=12288", "mincdc:avg=2048", "mincdc:min=1000,max=20000,value=plain"],
    )],
    averages: &[("mincdc:avg=", AVERAGES), ("mincdc:value=plain,avg=", &[2048, 16_384])],
};
