use cutpoint_chunking::*;
use cutpoint_testing::SplitMix64;
fn main() {
    let data = SplitMix64::bytes(1, 3 << 20);
    for t in ["rabin:bits=13,window=48", "rabin:bits=10,window=64"] {
        let s: Spec = t.parse().unwrap();
        let mut ends = vec![];
        s.chunker_at(Level::SCALAR).next_cuts(&data, 0, false, &mut ends);
        for l in [Level::EMULATED, Level::best()] {
            for n in [20_000, 100_000, 600_000, 3 << 20] {
                let mut e = vec![];
                s.chunker_at(l).next_cuts(&data[..n], 0, false, &mut e);
                let extra: Vec<_> = e.iter().filter(|x| !ends.contains(x)).collect();
                let missing: Vec<_> = ends.iter().filter(|x| **x < n && !e.contains(x)).collect();
                println!(
                    "{t} {l:?} {n}: {} extra {:?} missing {:?}",
                    e.len(),
                    &extra[..extra.len().min(9)],
                    &missing[..missing.len().min(9)]
                );
            }
        }
    }
}
