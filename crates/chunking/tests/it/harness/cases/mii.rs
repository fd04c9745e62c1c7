use super::Cases;

pub(crate) const CASES: Cases = Cases {
    algorithm: "mii",
    specs: &[
        "mii:length=2",
        "mii:length=3,max=3",
        "mii:length=4,first=0",
        "mii:length=5,max=400",
        "mii:length=7",
        "mii:length=32,first=0,max=700",
    ],
    vectors: &[("mii", &["mii:avg=888", "mii:length=5,first=0", "mii:length=7,max=20000"])],
    averages: &[("mii:avg=", &[149, 888, 6232])],
};
