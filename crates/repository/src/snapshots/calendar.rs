//! Days, weeks and months of the Gregorian calendar, which is extended without limit in both
//! directions.

/// The length of a day in seconds.
pub const DAY_S: i64 = 86_400;

/// Returns year, month (1 to 12) and day (1 to 31) for a number of days since 1970-01-01.
///
/// Source: Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms", `civil_from_days`.
pub fn civil(days: i64) -> (i64, i64, i64) {
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (year, month, day)
}

/// Returns the number of days since 1970-01-01; the inverse of [`civil`], for years within a
/// million.
///
/// Source: Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms", `days_from_civil`.
pub fn days(year: i64, month: i64, day: i64) -> i64 {
    let shifted_year = year - i64::from(month <= 2);
    let era = shifted_year.div_euclid(400);
    let year_of_era = shifted_year.rem_euclid(400);
    let shifted_month = if month > 2 { month - 3 } else { month + 9 };
    let day_of_year = (153 * shifted_month + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

/// Returns the same day of the month `months` months before `from`, or the last day of that month
/// if it is shorter. `months` is at most 12 million.
pub fn months_before(from: i64, months: i64) -> i64 {
    let (year, month, day) = civil(from);
    let first = year * 12 + month - 1 - months;
    let (year, month) = (first.div_euclid(12), first.rem_euclid(12) + 1);
    let next = first + 1;
    let length = days(next.div_euclid(12), next.rem_euclid(12) + 1, 1) - days(year, month, 1);
    days(year, month, day.min(length))
}

/// Returns the number of the week that contains a day, counted from an arbitrary week. Weeks begin
/// on Monday (ISO 8601).
pub fn week(days: i64) -> i64 {
    // 1970-01-01 was a Thursday.
    (days + 3).div_euclid(7)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn civil_date_converts_back_to_its_day() {
        for day in (-1_000_000..1_000_000).step_by(7) {
            let (year, month, of_month) = civil(day);
            assert_eq!(days(year, month, of_month), day, "{year}-{month}-{of_month}");
        }
        assert_eq!(civil(days(2026, 11, 21)), (2026, 11, 21), "a date");
        assert_eq!(days(1970, 1, 1), 0, "the first");
    }

    #[test]
    fn short_months_end_early() {
        let cases = [
            ((2026, 3, 31), 1, (2026, 2, 28)),
            ((2024, 3, 31), 1, (2024, 2, 29)),
            ((2024, 2, 29), 12, (2023, 2, 28)),
            ((2026, 1, 15), 1, (2025, 12, 15)),
            ((2026, 1, 15), 25, (2023, 12, 15)),
            ((2026, 1, 15), 0, (2026, 1, 15)),
        ];
        for ((year, month, day), months, expected) in cases {
            let found = civil(months_before(days(year, month, day), months));
            assert_eq!(found, expected, "{months} months before {year}-{month}-{day}");
        }
    }

    #[test]
    fn weeks_begin_on_monday() {
        // ISO 8601: 2026-W01 begins on Monday, 29 December 2025.
        let first = week(days(2025, 12, 29));
        assert_eq!(week(days(2025, 12, 28)), first - 1, "Sunday before");
        assert_eq!(week(days(2026, 1, 4)), first, "Sunday after");
        assert_eq!(week(days(2026, 1, 5)), first + 1, "the next Monday");
        assert_eq!(week(days(1969, 12, 28)), week(days(1969, 12, 29)) - 1, "before 1970");
    }
}
