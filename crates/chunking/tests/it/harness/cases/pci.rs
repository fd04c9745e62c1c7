use super::{AVERAGES, Cases};

pub(crate) const CASES: Cases = Cases {
    algorithm: "pci",
    specs: &[
        "pci:window=1,threshold=6",
        "pci:window=7,threshold=34,max=7",
        "pci:window=16,threshold=72,max=300",
        "pci:window=40,threshold=177",
        "pci:window=100,threshold=800,max=700",
    ],
    vectors: &[("pci", &["pci:paper=1024", "pci:avg=2048", "pci:avg=5000,max=8000"])],
    averages: &[("pci:avg=", &[512, 1000]), ("pci:avg=", AVERAGES)],
};
