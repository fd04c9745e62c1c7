//! `cut`: prints the cut-points of an algorithm in a file.

use std::fs::File;
use std::io::{self, Read};
use std::num::NonZero;
use std::path::Path;
use std::thread::available_parallelism;

use anyhow::{Context, Result};
use cutpoint_chunking::{Chunker, Chunks, Level, Parallel, ReadAhead, Spec};

use crate::args::{Cut, CutFormat};
use crate::event::{Event, Summary};
use crate::exit::Exit;
use crate::report::Report;

pub(crate) fn run(args: &Cut, report: &Report) -> Result<Exit> {
    let spec: Spec = args.algorithm.parse().context("--algorithm")?;
    let is_stdin = args.file == Path::new("-");
    let name = if is_stdin { "standard input".to_owned() } else { args.file.display().to_string() };
    let file = match is_stdin {
        true => None,
        false => Some(File::open(&args.file).with_context(|| name.clone())?),
    };
    let format = if report.is_json() { CutFormat::Json } else { args.format };
    let chunker = spec.chunker_at(args.level.unwrap_or_else(Level::best));
    let level = chunker.level().name();
    report.detail(|| format!("level {level}"));
    let threads = NonZero::new(args.threads)
        .unwrap_or_else(|| available_parallelism().unwrap_or(NonZero::<usize>::MIN));
    if format == CutFormat::Csv {
        report.line("offset,size,end_offset")?;
    }
    let mut chunk_count = 0;
    let mut offset = 0;
    let mut print = |next_size: &mut dyn FnMut() -> io::Result<Option<usize>>| -> Result<()> {
        while let Some(size) = next_size().with_context(|| name.clone())? {
            let size = size as u64;
            let end_offset = offset + size;
            match format {
                CutFormat::Offsets => report.line(&end_offset.to_string())?,
                CutFormat::Csv => report.line(&format!("{offset},{size},{end_offset}"))?,
                CutFormat::Json => {
                    report.event(&Event::Cut { offset, size_bytes: size, end_offset })?
                }
            }
            offset = end_offset;
            chunk_count += 1;
        }
        Ok(())
    };
    let parallel = Parallel::new(chunker, threads);
    let take = |chunks: &mut ReadAhead<'_>| print(&mut || Ok(chunks.next()?.map(<[u8]>::len)));
    match file {
        Some(file)
            if parallel.thread_count() > 1 && file.metadata().is_ok_and(|it| it.is_file()) =>
        {
            parallel.read_at(|buffer, offset| read_at(&file, buffer, offset), take)?;
        }
        file => {
            let reader: Box<dyn Read + Send> = match file {
                Some(file) => Box::new(file),
                None => Box::new(io::stdin()),
            };
            if parallel.thread_count() > 1 {
                parallel.read(reader, take)?;
            } else {
                let mut chunks = Chunks::new(parallel, reader);
                print(&mut || Ok(chunks.next()?.map(<[u8]>::len)))?;
            }
        }
    }
    if format == CutFormat::Json {
        let algorithm = &spec.to_string();
        report.event(&Event::Summary(Summary::Cut {
            cut: algorithm,
            level,
            chunk_count,
            size_bytes: offset,
        }))?;
    }
    Ok(Exit::Well)
}

/// Reads at `offset`, independently of the position of the file.
fn read_at(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    #[cfg(unix)]
    return std::os::unix::fs::FileExt::read_at(file, buffer, offset);
    #[cfg(windows)]
    return std::os::windows::fs::FileExt::seek_read(file, buffer, offset);
}
