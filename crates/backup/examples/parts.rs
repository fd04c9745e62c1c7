//! Prints the cost of reading, cutting and fingerprinting a file, together and separately, in one
//! thread. This is the minimum cost of a backup of known data.
//!
//! `cargo run --release -p cutpoint-backup --example parts FILE [ROUNDS]`;
//! `research/peers/reread.py` compares it with a backup.

use std::fs::File;
use std::hint::black_box;
use std::io::Read;

use cutpoint_chunking::{Chunks, KeyMaterial, Spec};
use cutpoint_repository::{CipherSuite, Class, Keyring, Keys, RepositoryId, Secret};
use cutpoint_testing::thread_cpu_time;

/// The default cut specification of repositories.
const CUT: &str = "fastcdc:avg=64k";

fn main() {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().expect("a file is named");
    let rounds: usize = arguments.next().map_or(5, |text| text.parse().expect("a number"));
    let secret = Secret([7; 32]);
    let keyring = Keyring { repository: RepositoryId([0; 16]), epochs: vec![(1, secret)] };
    let keys = Keys::derive(&keyring, CipherSuite::Aes256Gcm);
    let spec: Spec = CUT.parse().expect("the spec is right");
    let material = KeyMaterial::new(keys.cut_material());
    let chunker = || spec.keyed_chunker(&material).expect("it can be keyed");
    let open = || File::open(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    for _ in 0..rounds {
        let mut buffer = vec![0; 1 << 20];
        let read = measure(|| {
            let mut file = open();
            while file.read(black_box(&mut buffer)).expect("the file is read") > 0 {}
        });
        let mut count = 0;
        let cut = measure(|| {
            let mut chunks = Chunks::new(chunker(), open());
            while chunks.next().expect("the file is read").is_some() {
                count += 1;
            }
        });
        let all = measure(|| {
            // Reads a mebibyte at a time, as the pipeline does. The end of each is cut like the end
            // of the file.
            let (chunker, mut file) = (chunker(), open());
            loop {
                let size = file.read(black_box(&mut buffer)).expect("the file is read");
                if size == 0 {
                    break;
                }
                let mut rest = &buffer[..size];
                let mut chunks = Vec::new();
                while let Some(cut) = chunker.next_cut(rest, false) {
                    let (chunk, behind) = rest.split_at(cut);
                    chunks.push(chunk);
                    rest = behind;
                }
                black_box(keys.fingerprints(Class::Data, &chunks));
            }
        });
        println!(
            "{{\"read_cpu_s\": {read:.4}, \"read_cut_cpu_s\": {cut:.4}, \
             \"read_cut_fingerprint_cpu_s\": {all:.4}, \"chunk_count\": {count}}}"
        );
    }
}

/// Returns the CPU time of `work` in seconds, including system time.
fn measure(work: impl FnOnce()) -> f64 {
    let before = thread_cpu_time().as_secs_f64();
    work();
    thread_cpu_time().as_secs_f64() - before
}
