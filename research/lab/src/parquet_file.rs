//! Rows in Parquet, with a column for each field, compressed by dictionaries only.

use std::sync::Arc;

use parquet::basic::{LogicalType, Repetition, Type as Physical};
use parquet::data_type::{ByteArray, ByteArrayType, DoubleType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::{Type, TypePtr};

use crate::Row;

/// The names of all columns, in the order of the fields of [`Row`].
pub(crate) const COLUMNS: [&str; 23] = [
    "cell",
    "measure",
    "data",
    "data_hash",
    "entropy",
    "input_bytes",
    "algorithm",
    "selection",
    "target",
    "spec",
    "level",
    "metric",
    "variant",
    "value",
    "unit",
    "lower_quartile",
    "upper_quartile",
    "count",
    "samples",
    "note",
    "commit",
    "machine",
    "time_s",
];

/// The values of a column.
enum Column {
    Texts(fn(&Row) -> &str),
    Counts(fn(&Row) -> u64),
    Numbers(fn(&Row) -> f64),
}

fn column(name: &str) -> Option<Column> {
    Some(match name {
        "cell" => Column::Texts(|row| &row.cell),
        "measure" => Column::Texts(|row| &row.measure),
        "data" => Column::Texts(|row| &row.data),
        "data_hash" => Column::Texts(|row| &row.data_hash),
        "entropy" => Column::Numbers(|row| row.entropy),
        "input_bytes" => Column::Counts(|row| row.input_bytes),
        "algorithm" => Column::Texts(|row| &row.algorithm),
        "selection" => Column::Texts(|row| &row.selection),
        "target" => Column::Counts(|row| row.target),
        "spec" => Column::Texts(|row| &row.spec),
        "level" => Column::Texts(|row| &row.level),
        "metric" => Column::Texts(|row| &row.metric),
        "variant" => Column::Texts(|row| &row.variant),
        "value" => Column::Numbers(|row| row.value),
        "unit" => Column::Texts(|row| &row.unit),
        "lower_quartile" => Column::Numbers(|row| row.lower_quartile),
        "upper_quartile" => Column::Numbers(|row| row.upper_quartile),
        "count" => Column::Counts(|row| row.count),
        "samples" => Column::Texts(|row| &row.samples),
        "note" => Column::Texts(|row| &row.note),
        "commit" => Column::Texts(|row| &row.commit),
        "machine" => Column::Texts(|row| &row.machine),
        "time_s" => Column::Counts(|row| row.time_s),
        _ => return None,
    })
}

fn schema() -> Result<TypePtr, ParquetError> {
    let mut fields = Vec::new();
    for name in COLUMNS {
        let (physical, logical) = match column(name) {
            Some(Column::Counts(_)) => (Physical::INT64, None),
            Some(Column::Numbers(_)) => (Physical::DOUBLE, None),
            _ => (Physical::BYTE_ARRAY, Some(LogicalType::String)),
        };
        let field = Type::primitive_type_builder(name, physical)
            .with_repetition(Repetition::REQUIRED)
            .with_logical_type(logical)
            .build()?;
        fields.push(Arc::new(field));
    }
    Ok(Arc::new(Type::group_type_builder("rows").with_fields(fields).build()?))
}

/// Returns the bytes of a Parquet file of these rows.
pub(crate) fn bytes(rows: &[Row]) -> Result<Vec<u8>, ParquetError> {
    let properties = WriterProperties::builder().set_created_by("cutpoint-lab".to_owned()).build();
    let mut writer = SerializedFileWriter::new(Vec::new(), schema()?, Arc::new(properties))?;
    let mut group = writer.next_row_group()?;
    for name in COLUMNS {
        let Some(mut target) = group.next_column()? else { break };
        match column(name) {
            Some(Column::Texts(of)) => {
                let values: Vec<ByteArray> = rows.iter().map(|row| of(row).into()).collect();
                target.typed::<ByteArrayType>().write_batch(&values, None, None)?;
            }
            Some(Column::Counts(of)) => {
                let values: Vec<i64> =
                    rows.iter().map(|row| i64::try_from(of(row)).unwrap_or(i64::MAX)).collect();
                target.typed::<Int64Type>().write_batch(&values, None, None)?;
            }
            Some(Column::Numbers(of)) => {
                let values: Vec<f64> = rows.iter().map(of).collect();
                target.typed::<DoubleType>().write_batch(&values, None, None)?;
            }
            None => {}
        }
        target.close()?;
    }
    group.close()?;
    writer.into_inner()
}

#[cfg(test)]
mod tests {
    use parquet::file::reader::{FileReader, SerializedFileReader};

    use super::*;

    #[test]
    fn written_rows_are_read_back() {
        let rows: Vec<Row> = (0..5)
            .map(|number| Row {
                target: number,
                cell: format!("cell {number}"),
                ..Row::new("mean", 0.5 + number as f64, "bytes")
            })
            .collect();
        let file =
            SerializedFileReader::new(bytes::Bytes::from(super::bytes(&rows).expect("a file")))
                .expect("it can be read");
        assert_eq!(file.metadata().file_metadata().num_rows(), 5, "rows");
        let fields: Vec<String> = file
            .metadata()
            .file_metadata()
            .schema()
            .get_fields()
            .iter()
            .map(|field| field.name().to_owned())
            .collect();
        assert_eq!(fields, COLUMNS, "columns");
        let read: Vec<String> = file
            .get_row_iter(None)
            .expect("rows")
            .map(|row| row.expect("a row").to_string())
            .collect();
        assert!(
            read[3].contains("cell: \"cell 3\"") && read[3].contains("value: 3.5"),
            "{}",
            read[3]
        );
    }

    /// The columns have the names of the fields in serde, as in the file of comma-separated values.
    #[test]
    fn columns_are_the_fields() {
        let json = serde_json::to_value(Row::default()).expect("a row");
        let mut fields: Vec<&str> =
            json.as_object().expect("fields").keys().map(String::as_str).collect();
        let mut columns = COLUMNS;
        fields.sort_unstable();
        columns.sort_unstable();
        assert_eq!(fields, columns, "fields");
        assert!(COLUMNS.iter().all(|name| column(name).is_some()), "every column has its values");
    }
}
