//! The columns of a row, and what they are read as.

use super::sql::{FromSql, Row, SqlResult, ValueRef, unreadable};
use jiff::Timestamp;
use rethread_domain::price::decode_numbers;

use super::sums;

/// A row whose columns can be read.
pub(super) trait Columns {
    fn value(&self, index: usize) -> SqlResult<ValueRef<'_>>;

    fn read<T: FromSql>(&self, index: usize) -> SqlResult<T> {
        T::column_result(self.value(index)?).map_err(|error| unreadable(index, error.to_string()))
    }

    fn time(&self, index: usize) -> SqlResult<Timestamp> {
        let micros: i64 = self.read(index)?;
        Timestamp::from_microsecond(micros).map_err(|error| unreadable(index, error.to_string()))
    }

    fn time_or_none(&self, index: usize) -> SqlResult<Option<Timestamp>> {
        self.read::<Option<i64>>(index)?.map(|_| self.time(index)).transpose()
    }

    fn parse<T: std::str::FromStr>(&self, index: usize) -> SqlResult<T> {
        let text = self.value(index)?.as_str()?;
        text.parse().map_err(|_| unreadable(index, text.to_owned()))
    }

    fn unsigned(&self, index: usize) -> SqlResult<u64> {
        let number: i64 = self.read(index)?;
        Ok(u64::try_from(number).unwrap_or(0))
    }

    fn numbers(&self, index: usize) -> SqlResult<Vec<u32>> {
        Ok(self.value(index)?.as_blob_or_null()?.map(decode_numbers).unwrap_or_default())
    }

    fn one_of<T: Copy>(&self, index: usize, all: &[T], number: impl Fn(T) -> i64) -> SqlResult<T> {
        let found: i64 = self.read(index)?;
        let known = all.iter().copied().find(|value| number(*value) == found);
        known.ok_or_else(|| unreadable(index, format!("unknown number {found}")))
    }
}

impl Columns for Row<'_> {
    fn value(&self, index: usize) -> SqlResult<ValueRef<'_>> {
        self.get_ref(index)
    }
}

/// The first columns of a row, which its checksum comes after. Each is asked of SQLite once, which takes longer than to sum
/// it up: so what is read is also just what was checked.
#[derive(Debug)]
pub(super) struct Checked<'row, const COLUMNS: usize> {
    values: [ValueRef<'row>; COLUMNS],
    pub(super) is_intact: bool,
}

impl<'row, const COLUMNS: usize> Checked<'row, COLUMNS> {
    pub(super) fn of(row: &'row Row<'_>) -> SqlResult<Self> {
        let mut values = [ValueRef::Null; COLUMNS];
        for (index, value) in values.iter_mut().enumerate() {
            *value = row.get_ref(index)?;
        }
        let is_intact = sums::fits(row, &values);
        Ok(Self { values, is_intact })
    }
}

impl<const COLUMNS: usize> Columns for Checked<'_, COLUMNS> {
    fn value(&self, index: usize) -> SqlResult<ValueRef<'_>> {
        self.values.get(index).copied().ok_or(unreadable(index, "there is no such column".into()))
    }
}
