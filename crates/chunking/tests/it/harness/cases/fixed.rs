use super::{AVERAGES, Cases};

pub(crate) const CASES: Cases = Cases {
    algorithm: "fixed",
    specs: &["fixed:size=1", "fixed:size=2", "fixed:size=3", "fixed:size=64", "fixed:size=1000"],
    vectors: &[("fixed", &["fixed:size=777", "fixed:size=8k", "fixed:size=1m"])],
    averages: &[("fixed:avg=", AVERAGES)],
};
