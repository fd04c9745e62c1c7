//! `cut`: where an algorithm cuts a file.

use std::fs::File;
use std::io::{self, Read};
use std::num::NonZero;
use std::path::Path;
use std::thread::available_parallelism;

use anyhow::{Context, Result};
use cutpoint_chunking::{Chunker, Chunks, Level, Parallel, Spec};

use crate::args::{Cut, CutFormat};
use crate::event::{Event, Summary};
use crate::exit::Exit;
use crate::report::Report;

pub(crate) fn run(args: &Cut, report: &Report) -> Result<Exit> {
    let spec: Spec = args.algorithm.parse().context("--algorithm")?;
    let is_stdin = args.file == Path::new("-");
    let name = if is_stdin { "standard input".to_owned() } else { args.file.display().to_string() };
    let reader: Box<dyn Read> = if is_stdin {
        Box::new(io::stdin().lock())
    } else {
        Box::new(File::open(&args.file).with_context(|| name.clone())?)
    };
    let format = if report.is_json() { CutFormat::Json } else { args.format };
    let chunker = spec.chunker_at(args.level.unwrap_or_else(Level::best));
    let level = chunker.level().name();
    report.detail(|| format!("level {level}"));
    let threads = NonZero::new(args.threads)
        .unwrap_or_else(|| available_parallelism().unwrap_or(NonZero::<usize>::MIN));
    let mut chunks = Chunks::new(Parallel::new(chunker, threads), reader);
    let mut chunk_count = 0;
    let mut offset = 0;
    if format == CutFormat::Csv {
        report.line("offset,size,end_offset")?;
    }
    while let Some(chunk) = chunks.next().with_context(|| name.clone())? {
        let size = chunk.len() as u64;
        let end_offset = offset + size;
        match format {
            CutFormat::Offsets => report.line(&end_offset.to_string())?,
            CutFormat::Csv => report.line(&format!("{offset},{size},{end_offset}"))?,
            CutFormat::Json => report.event(&Event::Cut { offset, size, end_offset })?,
        }
        offset = end_offset;
        chunk_count += 1;
    }
    if format == CutFormat::Json {
        let algorithm = &spec.to_string();
        report.event(&Event::Summary(Summary::Cut {
            algorithm,
            level,
            chunk_count,
            size: offset,
        }))?;
    }
    Ok(Exit::Well)
}
