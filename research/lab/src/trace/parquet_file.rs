//! Traces as Apache Parquet. The columns have plain types and no compression, so that few parts of
//! the crate are built and every reader can read the traces.

use std::fs::File;
use std::io::{self, Write};
use std::sync::Arc;

use cutpoint_estimate::FINGERPRINT_LEN;
use parquet::basic::Encoding;
use parquet::column::reader::ColumnReader;
use parquet::data_type::{
    ByteArray, DataType, FixedLenByteArray, FixedLenByteArrayType, Int32Type, Int64Type,
};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use parquet::schema::types::ColumnPath;

use super::{Row, WriteRows, malformed};

pub(super) const MAGIC: &[u8] = b"PAR1";

/// The columns, in the order of [`Row`].
const SCHEMA: &str = "message trace {
    REQUIRED INT64 path_id;
    REQUIRED INT64 offset;
    REQUIRED INT64 length;
    REQUIRED FIXED_LEN_BYTE_ARRAY(16) fingerprint;
    REQUIRED INT32 flags;
}";
const COLUMN_COUNT: usize = 5;

/// The number of rows in a row group, the unit in which readers work.
const GROUP_ROW_COUNT: usize = 1 << 17;
/// The number of rows that are read from a file at once.
const BATCH_ROW_COUNT: usize = 1 << 14;

/// Converts an error of the crate, and restores an error of the system that it contains.
fn io_error(error: ParquetError) -> io::Error {
    match error {
        ParquetError::External(cause) => match cause.downcast::<io::Error>() {
            Ok(error) => *error,
            Err(cause) => malformed(cause.to_string()),
        },
        other => malformed(other.to_string()),
    }
}

pub(super) struct Writer<W: Write + Send> {
    file: Option<SerializedFileWriter<W>>,
    rows: Vec<Row>,
}

impl<W: Write + Send> Writer<W> {
    pub(super) fn new(output: W) -> io::Result<Writer<W>> {
        let schema = parse_message_type(SCHEMA).map_err(io_error)?;
        let column = |name: &str| ColumnPath::from(name);
        let properties = WriterProperties::builder()
            .set_created_by(concat!("cutpoint ", env!("CARGO_PKG_VERSION")).to_owned())
            // Offsets rise, lengths are small, and fingerprints have no order.
            .set_column_dictionary_enabled(column("offset"), false)
            .set_column_encoding(column("offset"), Encoding::DELTA_BINARY_PACKED)
            .set_column_dictionary_enabled(column("length"), false)
            .set_column_encoding(column("length"), Encoding::DELTA_BINARY_PACKED)
            .set_column_dictionary_enabled(column("fingerprint"), false);
        let file =
            SerializedFileWriter::new(output, Arc::new(schema), Arc::new(properties.build()));
        Ok(Writer { file: Some(file.map_err(io_error)?), rows: Vec::new() })
    }

    fn write_group(&mut self) -> Result<(), ParquetError> {
        let Some(file) = self.file.as_mut().filter(|_| !self.rows.is_empty()) else {
            return Ok(());
        };
        let numbers = |of: fn(&Row) -> u64| -> Vec<i64> {
            self.rows.iter().map(|row| of(row).cast_signed()).collect()
        };
        let mut group = file.next_row_group()?;
        for column in 0..COLUMN_COUNT {
            let Some(mut target) = group.next_column()? else { break };
            match column {
                0 => {
                    target.typed::<Int64Type>().write_batch(&numbers(|row| row.path_id), None, None)
                }
                1 => {
                    target.typed::<Int64Type>().write_batch(&numbers(|row| row.offset), None, None)
                }
                2 => {
                    target.typed::<Int64Type>().write_batch(&numbers(|row| row.length), None, None)
                }
                3 => {
                    let values = self.rows.iter().map(|row| row.fingerprint.to_vec());
                    let values: Vec<FixedLenByteArray> =
                        values.map(|bytes| ByteArray::from(bytes).into()).collect();
                    target.typed::<FixedLenByteArrayType>().write_batch(&values, None, None)
                }
                _ => {
                    let values: Vec<i32> =
                        self.rows.iter().map(|row| row.flags.cast_signed()).collect();
                    target.typed::<Int32Type>().write_batch(&values, None, None)
                }
            }?;
            target.close()?;
        }
        group.close()?;
        self.rows.clear();
        Ok(())
    }
}

impl<W: Write + Send> WriteRows for Writer<W> {
    fn push(&mut self, row: &Row) -> io::Result<()> {
        self.rows.push(*row);
        if self.rows.len() < GROUP_ROW_COUNT {
            return Ok(());
        }
        self.write_group().map_err(io_error)
    }

    fn finish(&mut self) -> io::Result<()> {
        self.write_group().map_err(io_error)?;
        let Some(file) = self.file.take() else { return Ok(()) };
        file.into_inner().map_err(io_error)?.flush()
    }
}

pub(super) fn read(file: File, on_row: &mut dyn FnMut(Row) -> io::Result<()>) -> io::Result<()> {
    let reader = SerializedFileReader::new(file).map_err(io_error)?;
    let schema = reader.metadata().file_metadata().schema_descr();
    let mut places = [0; COLUMN_COUNT];
    let names = ["path_id", "offset", "length", "fingerprint", "flags"];
    for (place, name) in places.iter_mut().zip(names) {
        let found = schema.columns().iter().position(|column| column.name() == name);
        *place = found.ok_or_else(|| malformed(format!("column {name}: missing")))?;
    }
    for number in 0..reader.num_row_groups() {
        let group = reader.get_row_group(number).map_err(io_error)?;
        let column = |place: usize| group.get_column_reader(places[place]).map_err(io_error);
        let mut path_ids = Column::<Int64Type>::new(names[0], column(0)?)?;
        let mut offsets = Column::<Int64Type>::new(names[1], column(1)?)?;
        let mut lengths = Column::<Int64Type>::new(names[2], column(2)?)?;
        let mut fingerprints = Column::<FixedLenByteArrayType>::new(names[3], column(3)?)?;
        let mut flags = Column::<Int32Type>::new(names[4], column(4)?)?;
        let mut left = group.metadata().num_rows();
        while left > 0 {
            let row = Row {
                path_id: path_ids.next()?.cast_unsigned(),
                offset: offsets.next()?.cast_unsigned(),
                length: lengths.next()?.cast_unsigned(),
                fingerprint: fingerprint(&fingerprints.next()?)?,
                flags: flags.next()?.cast_unsigned(),
            };
            on_row(row)?;
            left -= 1;
        }
    }
    Ok(())
}

fn fingerprint(value: &FixedLenByteArray) -> io::Result<[u8; FINGERPRINT_LEN]> {
    let found = value.data();
    found.try_into().map_err(|_| {
        malformed(format!("fingerprints have {} bytes (expected {FINGERPRINT_LEN})", found.len()))
    })
}

/// The values of a column in a row group, one after another.
struct Column<T: DataType> {
    name: &'static str,
    reader: parquet::column::reader::ColumnReaderImpl<T>,
    values: std::vec::IntoIter<T::T>,
}

/// The conversion of a column reader to the reader of a type.
trait Typed: DataType + Sized {
    fn typed(reader: ColumnReader) -> Option<parquet::column::reader::ColumnReaderImpl<Self>>;
}

macro_rules! typed {
    ($Type:ty, $Variant:ident) => {
        impl Typed for $Type {
            fn typed(
                reader: ColumnReader,
            ) -> Option<parquet::column::reader::ColumnReaderImpl<Self>> {
                match reader {
                    ColumnReader::$Variant(reader) => Some(reader),
                    _ => None,
                }
            }
        }
    };
}

typed!(Int64Type, Int64ColumnReader);
typed!(Int32Type, Int32ColumnReader);
typed!(FixedLenByteArrayType, FixedLenByteArrayColumnReader);

impl<T: Typed> Column<T> {
    fn new(name: &'static str, reader: ColumnReader) -> io::Result<Column<T>> {
        let reader =
            T::typed(reader).ok_or_else(|| malformed(format!("column {name}: wrong type")))?;
        Ok(Column { name, reader, values: Vec::new().into_iter() })
    }

    fn next(&mut self) -> io::Result<T::T> {
        if let Some(value) = self.values.next() {
            return Ok(value);
        }
        // A column with optional values has levels, and the crate returns an error without buffers
        // for them.
        let mut values = Vec::with_capacity(BATCH_ROW_COUNT);
        self.reader.read_records(BATCH_ROW_COUNT, None, None, &mut values).map_err(io_error)?;
        self.values = values.into_iter();
        self.values.next().ok_or_else(|| malformed(format!("column {}: too short", self.name)))
    }
}
