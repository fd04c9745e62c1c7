//! Tables of Markdown pages.

/// A table: the names of its columns, and its rows. The first cell of a row is its name.
#[derive(Debug)]
pub(super) struct Table<'a> {
    columns: Vec<&'a str>,
    rows: Vec<Vec<&'a str>>,
}

/// How the values of a row become one.
const ALL_COLUMNS: [&str; 4] = ["min", "max", "median", "sum"];

impl<'a> Table<'a> {
    /// Reads the tables in some lines.
    pub(super) fn all(lines: impl Iterator<Item = &'a str>) -> Vec<Table<'a>> {
        let mut tables: Vec<Table> = Vec::new();
        let mut is_inside = false;
        for line in lines {
            let Some(cells) = cells(line) else {
                is_inside = false;
                continue;
            };
            match tables.last_mut().filter(|_| is_inside) {
                Some(table) if !is_rule(&cells) => table.rows.push(cells),
                Some(_) => {}
                None => tables.push(Table { columns: cells, rows: Vec::new() }),
            }
            is_inside = true;
        }
        tables
    }

    /// Reads the tables of a page below a title: a heading, or a line in bold.
    pub(super) fn titled(page: &'a str, title: &str) -> Vec<Table<'a>> {
        let mut is_below = false;
        let lines = page.lines().map(move |line| {
            if let Some(found) = title_of(line) {
                is_below = found == title;
            }
            if is_below { line } else { "" }
        });
        Table::all(lines)
    }

    fn row(&self, name: &str) -> Option<&[&'a str]> {
        let row = self.rows.iter().find(|row| plain(row[0]) == name);
        row.map(Vec::as_slice)
    }

    /// Returns the value of a cell, or of all columns.
    pub(super) fn value(&self, row: &str, column: &str) -> Option<f64> {
        let quotient = row.split_once(" / ");
        if !ALL_COLUMNS.contains(&column) {
            let at = self.columns.iter().position(|name| plain(name) == column)?;
            return self
                .numbers(row)
                .or_else(|| self.quotients(row))?
                .get(at.checked_sub(1)?)
                .copied()?;
        }
        if let ("sum", Some((one, other))) = (column, quotient) {
            let pairs = self.numbers(one)?.into_iter().zip(self.numbers(other)?);
            let pairs: Vec<(f64, f64)> =
                pairs.filter_map(|(one, other)| Some((one?, other?))).collect();
            let total = |each: fn(&(f64, f64)) -> f64| pairs.iter().map(each).sum::<f64>();
            return Some(total(|it| it.0) / total(|it| it.1));
        }
        let numbers = self.numbers(row).or_else(|| self.quotients(row))?;
        let mut numbers: Vec<f64> = numbers.into_iter().flatten().collect();
        numbers.sort_by(f64::total_cmp);
        let middle = numbers.len() / 2;
        match column {
            "min" => numbers.first().copied(),
            "max" => numbers.last().copied(),
            "sum" => Some(numbers.iter().sum()),
            _ if numbers.is_empty() => None,
            _ if numbers.len() % 2 == 1 => Some(numbers[middle]),
            _ => Some(f64::midpoint(numbers[middle - 1], numbers[middle])),
        }
    }

    /// Returns the numbers of a row, one for each column but the first.
    fn numbers(&self, row: &str) -> Option<Vec<Option<f64>>> {
        Some(self.row(row)?[1..].iter().map(|cell| number(cell)).collect())
    }

    /// Returns the quotients of two rows, which have ` / ` between their names.
    fn quotients(&self, row: &str) -> Option<Vec<Option<f64>>> {
        let (one, other) = row.split_once(" / ")?;
        let pairs = self.numbers(one)?.into_iter().zip(self.numbers(other)?);
        Some(pairs.map(|(one, other)| Some(one? / other?)).collect())
    }

    /// Returns the first row that is not part of `whole`.
    pub(super) fn row_outside(&self, whole: &Table) -> Option<String> {
        let place = |name: &&str| whole.columns.iter().skip(1).position(|it| it == name);
        let places: Option<Vec<usize>> = self.columns.iter().skip(1).map(place).collect();
        let Some(places) = places else { return Some(self.columns.join(" | ")) };
        let is_outside = |row: &&Vec<&str>| {
            let Some(other) = whole.row(plain(row[0])) else { return true };
            let expected = places.iter().map(|at| other.get(at + 1));
            !expected.eq(row[1..].iter().map(Some))
        };
        self.rows.iter().find(is_outside).map(|row| row.join(" | "))
    }
}

/// Returns the cells of a line of a table.
pub(super) fn cells(line: &str) -> Option<Vec<&str>> {
    let row = line.strip_prefix('|')?.strip_suffix('|')?;
    Some(row.split('|').map(str::trim).collect())
}

/// Returns `true` for the line below the names of columns.
fn is_rule(cells: &[&str]) -> bool {
    cells.iter().all(|cell| !cell.is_empty() && cell.trim_matches(['-', ':']).is_empty())
}

/// Returns the text of a heading, or of a line in bold.
fn title_of(line: &str) -> Option<&str> {
    let heading = line.trim_start_matches('#');
    if heading.len() < line.len() {
        return Some(heading.trim());
    }
    line.strip_prefix("**")?.strip_suffix("**")
}

/// Returns a cell without marks for type.
fn plain(cell: &str) -> &str {
    cell.trim_matches(['*', '`'])
}

/// Returns the number at the beginning of a cell.
fn number(cell: &str) -> Option<f64> {
    let cell = plain(cell);
    let end = cell.find(|it: char| !it.is_ascii_digit() && !".,".contains(it));
    let digits = &cell[..end.unwrap_or(cell.len())];
    digits.trim_end_matches([',', '.']).replace(',', "").parse().ok()
}
