//! `stats`: prints the size of the repository and the savings of each step, or the size of a
//! snapshot.

mod page;
mod snapshot;

use std::collections::HashSet;

use anyhow::Result;
use cutpoint_repository::format::segment::ContainerRecord;
use cutpoint_repository::format::toc::{ChunkRecord, Form, Toc};
use cutpoint_repository::index::Copies;
use cutpoint_repository::read::StoredBurst;
use cutpoint_repository::{Class, Fingerprint, ObjectName, Repository, View};
use cutpoint_storage::ObjectKind;
use cutpoint_terminal::OutputFile;

pub(crate) use self::page::Monitor;
use crate::args::{Global, StatsArgs};
use crate::event::{BurstStats, Event, Stats, Summary};
use crate::exit::Exit;
use crate::report::{Report, ReportObjects};
use crate::session::Session;
use crate::units;

pub(crate) fn run(args: &StatsArgs, global: &Global, report: &Report) -> Result<Exit> {
    if let Some(name) = &args.snapshot {
        return snapshot::run(name, &args.selection, global, report);
    }
    let html = args.html.as_deref().map(OutputFile::open).transpose()?;
    let mut session = Session::open(global, report)?;
    let view = session.view(report)?;
    let mut stats = Stats::default();
    stats.add_snapshots(&view);
    stats.add_objects(&session.repository)?;
    let condemned = view.condemned();
    let reader = session.reader(view, report)?;
    let is_burst = session.repository.config().burst().is_some();
    let mut bursts = (args.bursts || is_burst).then(Bursts::default);
    // Condemned containers will be deleted or are gone.
    let counts = |c: &ContainerRecord| !condemned.contains(&(c.class, c.name));
    let copies = reader.index().copies(counts)?;
    let containers = reader.index().containers().into_iter().filter(counts);
    let wanted = containers.map(|container| (container, Some(container)));
    reader.index().each_toc(wanted, |container, toc| {
        let name = ObjectName::Container(container.class, container.name);
        let toc = match toc.transpose() {
            Ok(Some(toc)) => toc,
            Ok(None) => return Ok(()),
            Err(error) => {
                report.unreadable(&name, &error);
                return Ok(());
            }
        };
        if let Some(bursts) = &mut bursts
            && container.class == Class::Data
            && container.has_delta_chunks
            && let Err(error) = reader.bursts(&container, |_, burst| bursts.add(burst.as_ref()))
        {
            report.unreadable(&name, &error);
        }
        stats.add_container(&container, &toc.toc, &copies);
        Ok(())
    })?;
    let index = reader.index().statistics();
    stats.index_memory_bytes = index.memory_bytes;
    stats.set_ratios();
    stats.bursts = bursts.map(Bursts::finish);
    if report.is_json() {
        report.event(&Event::Summary(Summary::Stats(stats)))?;
    } else {
        show(&stats, report)?;
    }
    if let Some(file) = html {
        report.flush()?;
        file.write(&page::html(&reader, global, report)?)?;
    }
    Ok(Exit::of_problems(report.problem_count()))
}

impl Stats {
    /// Adds the listed snapshots.
    fn add_snapshots(&mut self, view: &View) {
        for (_, snapshot) in view.snapshots() {
            self.snapshot_count += 1;
            self.file_count += snapshot.statistics.file_count;
            self.logical_bytes += snapshot.statistics.size;
        }
    }

    /// Adds all objects on the storage.
    fn add_objects(&mut self, repository: &Repository) -> Result<()> {
        for kind in ObjectKind::ALL {
            for (_, stored_len) in repository.storage().list(kind.folder())? {
                self.object_count += 1;
                self.stored_bytes += stored_len;
                if kind == ObjectKind::Segment {
                    self.index_stored_bytes += stored_len;
                }
            }
        }
        Ok(())
    }

    /// Adds the chunks of a container, except for `copies` of chunks in other containers.
    fn add_container(&mut self, container: &ContainerRecord, toc: &Toc, copies: &Copies) {
        self.container_count += 1;
        let is_copy = |chunk: &&ChunkRecord| copies.is_copy(container, &chunk.fingerprint);
        if container.class == Class::Meta {
            self.metadata_chunk_count += toc.chunks.iter().filter(|it| !is_copy(it)).count() as u64;
            self.metadata_bytes += u64::from(container.stored_len);
            return;
        }
        let mut copied_lens = vec![0; toc.regions.len()];
        for chunk in &toc.chunks {
            let chunk_len = u64::from(chunk.chunk_len);
            let payload_len = u64::from(chunk.payload_len);
            if is_copy(&chunk) {
                self.copied_bytes += chunk_len;
                copied_lens[usize::from(chunk.region)] += payload_len;
                continue;
            }
            match chunk.form {
                Form::Full => self.unique_bytes += chunk_len,
                Form::Literal => {
                    self.delta_chunk_stored_bytes += payload_len;
                    continue;
                }
                Form::Delta => {
                    self.unique_bytes += chunk_len;
                    self.delta_chunk_count += 1;
                    self.delta_chunk_bytes += chunk_len;
                    self.delta_chunk_stored_bytes += payload_len;
                }
            }
            self.data_chunk_count += 1;
        }
        for (region, copied_len) in toc.regions.iter().zip(copied_lens) {
            let raw_len = u64::from(region.raw_len);
            let counted_len = raw_len.saturating_sub(copied_len);
            self.matched_bytes += counted_len;
            // The share of the copies, as if all chunks of a region shrank alike.
            self.compressed_bytes += u64::from(region.stored_len) * counted_len / raw_len.max(1);
        }
    }
}

/// Counters of bursts.
#[derive(Default)]
struct Bursts {
    stats: BurstStats,
    references: HashSet<Fingerprint>,
}

impl Bursts {
    fn add(&mut self, burst: Option<&StoredBurst>) {
        let Some(burst) = burst else { return };
        let lens = [burst.prefix_len, burst.data_len, burst.suffix_len].map(u64::from);
        self.stats.count += 1;
        self.stats.bytes += lens.iter().sum::<u64>();
        self.stats.data_bytes += u64::from(burst.data_len);
        let bits = (u32::BITS - burst.data_len.leading_zeros()) as usize;
        let counts = &mut self.stats.data_len_counts;
        counts.resize(counts.len().max(bits + 1), 0);
        counts[bits] += 1;
        self.references.insert(burst.reference);
    }

    fn finish(mut self) -> BurstStats {
        self.stats.reference_count = self.references.len() as u64;
        self.stats
    }
}

/// Returns the smallest power of two that half of the data lengths are below.
fn half_below(bursts: &BurstStats) -> u64 {
    let mut left = bursts.count.div_ceil(2);
    let place = bursts.data_len_counts.iter().position(|count| {
        left = left.saturating_sub(*count);
        left == 0
    });
    1 << place.unwrap_or(0).min(32)
}

#[expect(clippy::cast_precision_loss, reason = "a few digits are shown")]
impl Stats {
    fn set_ratios(&mut self) {
        let savings = |part: u64, whole: u64| (whole > 0).then(|| 1.0 - part as f64 / whole as f64);
        self.dedup_ratio =
            (self.unique_bytes > 0).then(|| self.logical_bytes as f64 / self.unique_bytes as f64);
        self.dedup_space_savings = savings(self.unique_bytes, self.logical_bytes);
        self.delta_space_savings = savings(self.matched_bytes, self.unique_bytes);
        self.compression_space_savings = savings(self.compressed_bytes, self.matched_bytes);
        self.stored_space_savings = savings(self.stored_bytes, self.logical_bytes);
    }
}

fn show(stats: &Stats, report: &Report) -> Result<()> {
    // A percentage is meaningless if only a few bytes were saved, because their overhead is larger.
    let saves = |savings: Option<f64>, part: u64, whole: u64| match part.checked_sub(whole) {
        Some(more) if more > 0 => format!("adds {}", units::size(more)),
        _ => savings.map_or_else(
            || "saves nothing".to_owned(),
            |savings| format!("saves {:.1} %", (savings * 1000.0).round() / 10.0),
        ),
    };
    let ratio = stats.dedup_ratio.map_or_else(|| "-".to_owned(), |ratio| format!("{ratio:.2}"));
    let dedup = saves(stats.dedup_space_savings, stats.unique_bytes, stats.logical_bytes);
    let dedup = format!("dedup ratio {ratio}, {dedup}");
    let delta = saves(stats.delta_space_savings, stats.matched_bytes, stats.unique_bytes);
    let delta = format!(
        "delta encoding {delta}: {} of {} stored in {}",
        units::count(stats.delta_chunk_count, "chunk"),
        units::size(stats.delta_chunk_bytes),
        units::size(stats.delta_chunk_stored_bytes)
    );
    let compression =
        saves(stats.compression_space_savings, stats.compressed_bytes, stats.matched_bytes);
    let compression = format!("compression {compression}");
    let total = saves(stats.stored_space_savings, stats.stored_bytes, stats.logical_bytes);
    let total = format!("in total {total}");
    let of_snapshots = format!(
        "{}, {}",
        units::count(stats.snapshot_count, "snapshot"),
        units::count(stats.file_count, "file")
    );
    let bursts = stats.bursts.as_ref().map(|bursts| {
        let remark = format!(
            "{} on {}; {} new, median below {}",
            units::size(bursts.bytes),
            units::count(bursts.reference_count, "chunk"),
            units::size(bursts.data_bytes),
            units::size(half_below(bursts)),
        );
        ("bursts", bursts.count.to_string(), remark)
    });
    let lines = [
        ("logical", units::size(stats.logical_bytes), of_snapshots),
        ("unique", units::size(stats.unique_bytes), dedup),
        ("matched", units::size(stats.matched_bytes), delta),
        ("compressed", units::size(stats.compressed_bytes), compression),
        ("metadata", units::size(stats.metadata_bytes), "trees and recipes".to_owned()),
        ("stored", units::size(stats.stored_bytes), total),
        ("data chunks", stats.data_chunk_count.to_string(), average(stats)),
        ("metadata chunks", stats.metadata_chunk_count.to_string(), String::new()),
        ("containers", stats.container_count.to_string(), String::new()),
        ("objects", stats.object_count.to_string(), String::new()),
        (
            "index",
            units::size(stats.index_memory_bytes),
            format!("in memory, {} in the repository", units::size(stats.index_stored_bytes)),
        ),
    ];
    let copies = (stats.copied_bytes > 0).then(|| {
        let remark = "of chunks that lie in several containers; prune removes them".to_owned();
        ("copies", units::size(stats.copied_bytes), remark)
    });
    for (name, value, remark) in lines.into_iter().chain(copies).chain(bursts) {
        report.line(format!("{name:<16} {value:>12}  {remark}").trim_end())?;
    }
    Ok(())
}

fn average(stats: &Stats) -> String {
    match stats.unique_bytes.checked_div(stats.data_chunk_count) {
        Some(average) => format!("{} on average", units::size(average)),
        None => String::new(),
    }
}
