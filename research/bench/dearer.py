#!/usr/bin/env python3
"""Backups by a build whose ordered dedup stage is made dearer, beside the law of stages.

    research/bench/dearer.py --build DIR --data DATA SET...

Stands in for more cores than the machine has: where the ordered stage takes k times as much CPU time, and everything
else the same, the share of that stage is as large as beside k times as many cores. The law says that a backup takes
no less than the larger of *all CPU time / cores* and *the largest ordered stage*. A pipeline that feeds all cores
takes little more.

The script makes a worktree of HEAD, inserts a loop into `crates/backup/src/save/dedup_stage.rs` that spins after each
batch for --times less one times the CPU time of that batch, builds that, and saves each set as stages.py does: new,
known (--force-read), resembling. Prints a Markdown table of wall time, CPU time, that of the dedup stage, the bound
by the law for this machine, and wall time / bound; medians of --rounds. Nothing else should run.
"""

import argparse
import os
import re
import resource
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path

STAGE = "crates/backup/src/save/dedup_stage.rs"
CALL = "let processed = self.process(&mut batch, &mut |dedup| sender.forward(dedup));"
SPIN = """
                let began_ns = dearer::thread_ns();
                %s
                dearer::spin(dearer::thread_ns() - began_ns);
"""
MODULE = """
/// Inserted by research/bench/dearer.py.
#[allow(clippy::all, missing_docs)]
mod dearer {
    use std::sync::atomic::{AtomicU64, Ordering};

    static STAGE_NS: AtomicU64 = AtomicU64::new(0);

    pub(super) fn thread_ns() -> u64 {
        let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
        time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
    }

    /// Spins as long as the factor in the environment asks for, after work of `work_ns`.
    pub(super) fn spin(work_ns: u64) {
        let times: u64 = std::env::var("DEARER_TIMES").unwrap().parse().unwrap();
        let end_ns = thread_ns() + work_ns * (times - 1);
        while thread_ns() < end_ns {
            std::hint::spin_loop();
        }
        STAGE_NS.fetch_add(work_ns * times, Ordering::Relaxed);
    }

    /// Writes the CPU time of the stage.
    pub(super) fn tell() {
        eprintln!("dedup stage: {} ns", STAGE_NS.load(Ordering::Relaxed));
    }
}
"""
END = "self.rebuilder.finish(&self.keys, &mut self.dedup)?;"


def build(work):
    """Returns the program of HEAD with a dearer stage."""
    root = Path(__file__).resolve().parents[2]
    tree = work / "worktree"
    subprocess.run(["git", "worktree", "add", "--detach", "--force", str(tree)], cwd=root, check=True)
    try:
        path = tree / STAGE
        text = path.read_text()
        for part in (CALL, END):
            if text.count(part) != 1:
                sys.exit(f"{STAGE} has changed: expected once: {part}")
        text = text.replace(CALL, SPIN % CALL).replace(END, f"dearer::tell();\n        {END}")
        path.write_text(text + MODULE)
        command = ["cargo", "build", "--release", "-p", "cutpoint", "--bin", "cutpoint"]
        environment = os.environ | {
            "CARGO_TARGET_DIR": str(work / "target"),
            "CARGO_PROFILE_RELEASE_LTO": "off",
            "CARGO_PROFILE_RELEASE_CODEGEN_UNITS": "16",
        }
        subprocess.run(command, cwd=tree, env=environment, check=True)
    finally:
        subprocess.run(["git", "worktree", "remove", "--force", str(tree)], cwd=root, check=True)
    return work / "target/release/cutpoint"


def backup(program, root, times, *words):
    """Returns wall time, CPU time and that of the dedup stage, in seconds."""
    environment = os.environ | {
        "HOME": str(root / "home"),
        "CUTPOINT_REPO": str(root / "repo"),
        "DEARER_TIMES": str(times),
    }
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    done = subprocess.run([program, *words], env=environment, capture_output=True, text=True, check=False)
    wall, after = time.monotonic() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        sys.exit(f"{words} ended with {done.returncode}: {done.stderr[-500:]}")
    told = re.search(r"dedup stage: (\d+) ns", done.stderr)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return wall, cpu, int(told[1]) / 1e9 if told else 0


def cases(program, root, versions, times):
    shutil.rmtree(root, ignore_errors=True)
    root.mkdir(parents=True)
    source = root / "source"
    backup(program, root, times, "init", "--quiet", "--encryption", "none")
    save = ("backup", str(source), "--quiet")
    shutil.copytree(versions[0], source, symlinks=True)
    yield "new", backup(program, root, times, *save)
    yield "known", backup(program, root, times, *save, "--force-read")
    if len(versions) > 1:
        shutil.rmtree(source)
        shutil.copytree(versions[1], source, symlinks=True)
        yield "resembling", backup(program, root, times, *save)
    shutil.rmtree(root)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sets", nargs="+", metavar="SET")
    parser.add_argument("--data", type=Path, default=Path("data"), help="folder of the data sets")
    parser.add_argument("--work", type=Path, default=Path("/dev/shm"), help="folder for copies and repositories")
    parser.add_argument("--build", type=Path, required=True, help="folder for the worktree and the build")
    parser.add_argument(
        "--times", type=int, nargs="+", default=[1, 2, 4, 8], help="CPU time of the stage (%(default)s)"
    )
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    program, cores = build(options.build.resolve()), os.cpu_count()
    print("| set, data | dedup stage | wall s | CPU s | dedup, CPU s | bound by the law, s | wall / bound |")
    print("| --- |" + " ---: |" * 6)
    for name in options.sets:
        versions = sorted((options.data / name).glob("v[0-9]*"))[:2]
        runs = {}
        # The factors take turns, so that other work on the machine meets all of them.
        for _ in range(options.rounds):
            for times in options.times:
                for case, run in cases(program, options.work / "dearer", versions, times):
                    runs.setdefault((case, times), []).append(run)
        for (case, times), each in sorted(runs.items(), key=lambda item: item[0][0]):
            wall, cpu, stage = (statistics.median(run[column] for run in each) for column in range(3))
            bound = max(cpu / cores, stage)
            cells = [f"{name}, {case}", f"x {times}", *(f"{it:.2f}" for it in (wall, cpu, stage, bound, wall / bound))]
            print(f"| {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
