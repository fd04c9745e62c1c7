//! Traces as CSV.

use std::io::{self, BufRead, Write};

use cutpoint_estimate::Fingerprint;

use super::{Row, WriteRows, malformed};

const HEADER: &str = "path_id,offset,length,fingerprint,flags";

/// The maximum length of a line in bytes. The limit bounds memory, and no valid line is longer.
const LINE_LEN_MAX: u64 = 4096;

pub(super) struct Writer<W> {
    output: W,
}

impl<W: Write> Writer<W> {
    pub(super) fn new(mut output: W) -> io::Result<Writer<W>> {
        writeln!(output, "{HEADER}")?;
        Ok(Writer { output })
    }
}

impl<W: Write + Send> WriteRows for Writer<W> {
    fn push(&mut self, row: &Row) -> io::Result<()> {
        let Row { path_id, offset, length, fingerprint, flags } = row;
        let fingerprint = u128::from_be_bytes(*fingerprint);
        writeln!(self.output, "{path_id},{offset},{length},{fingerprint:032x},{flags}")
    }

    fn finish(&mut self) -> io::Result<()> {
        self.output.flush()
    }
}

pub(super) fn read(
    mut input: impl BufRead,
    on_row: &mut dyn FnMut(Row) -> io::Result<()>,
) -> io::Result<()> {
    let mut line = String::new();
    let mut number: u64 = 0;
    loop {
        number += 1;
        line.clear();
        let taken = io::Read::take(&mut input, LINE_LEN_MAX).read_line(&mut line);
        let count = match taken {
            Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                return Err(malformed("neither Parquet, nor CSV, nor a trace of fs-hasher"));
            }
            other => other?,
        };
        if number == 1 {
            if line.trim_end() != HEADER {
                return Err(malformed(format!(
                    "neither Parquet, nor a trace of fs-hasher, nor CSV that begins with `{HEADER}`"
                )));
            }
        } else if count == 0 {
            return Ok(());
        } else {
            let row = parse(line.trim_end()).ok_or_else(|| {
                malformed(format!("line {number}: not {HEADER} (found `{}`)", line.trim_end()))
            })?;
            on_row(row)?;
        }
    }
}

fn parse(line: &str) -> Option<Row> {
    let mut fields = line.split(',');
    let path_id = fields.next()?.parse().ok()?;
    let offset = fields.next()?.parse().ok()?;
    let length = fields.next()?.parse().ok()?;
    let fingerprint = parse_fingerprint(fields.next()?)?;
    let flags = fields.next()?.parse().ok()?;
    fields.next().is_none().then_some(Row { path_id, offset, length, fingerprint, flags })
}

fn parse_fingerprint(text: &str) -> Option<Fingerprint> {
    let is_hex = text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_hex.then(|| u128::from_str_radix(text, 16).ok().map(u128::to_be_bytes)).flatten()
}
