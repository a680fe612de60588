//! Values as they go into PostgreSQL and come out of it. All text is bytes there: what came from outside may hold anything, and is
//! compared byte by byte.

use std::borrow::Cow;
use std::error::Error as StdError;

use bytes::BytesMut;
use tokio_postgres::types::{self, IsNull, Type};

use super::sql::{SqlError, SqlResult, unreadable};

/// A value.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Value {
    Null,
    Integer(i64),
    Real(f64),
    Bytes(Vec<u8>),
}

/// A value that lies in a row.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum ValueRef<'a> {
    Null,
    Integer(i64),
    Real(f64),
    Bytes(&'a [u8]),
}

impl Value {
    pub(super) fn as_ref(&self) -> ValueRef<'_> {
        match self {
            Self::Null => ValueRef::Null,
            Self::Integer(number) => ValueRef::Integer(*number),
            Self::Real(number) => ValueRef::Real(*number),
            Self::Bytes(bytes) => ValueRef::Bytes(bytes),
        }
    }
}

fn other(what: &str) -> SqlError {
    SqlError::Unreadable(format!("it is not {what}"))
}

impl<'a> ValueRef<'a> {
    pub(super) fn as_i64(self) -> SqlResult<i64> {
        match self {
            Self::Integer(number) => Ok(number),
            _ => Err(other("a whole number")),
        }
    }

    pub(super) fn as_bytes(self) -> SqlResult<&'a [u8]> {
        match self {
            Self::Bytes(bytes) => Ok(bytes),
            _ => Err(other("bytes")),
        }
    }

    pub(super) fn as_blob(self) -> SqlResult<&'a [u8]> {
        self.as_bytes()
    }

    pub(super) fn as_str(self) -> SqlResult<&'a str> {
        std::str::from_utf8(self.as_bytes()?).map_err(|_| other("UTF-8"))
    }

    pub(super) fn as_blob_or_null(self) -> SqlResult<Option<&'a [u8]>> {
        if self == Self::Null { Ok(None) } else { self.as_blob().map(Some) }
    }

    pub(super) fn as_str_or_null(self) -> SqlResult<Option<&'a str>> {
        if self == Self::Null { Ok(None) } else { self.as_str().map(Some) }
    }
}

/// What a value can be read as.
pub(super) trait FromSql: Sized {
    fn column_result(value: ValueRef<'_>) -> SqlResult<Self>;
}

macro_rules! whole_numbers {
    ($($kind:ty),*) => {$(
        impl FromSql for $kind {
            fn column_result(value: ValueRef<'_>) -> SqlResult<Self> {
                Self::try_from(value.as_i64()?).map_err(|_| other(stringify!($kind)))
            }
        }

        impl ToSql for $kind {
            fn value(&self) -> Value {
                Value::Integer(i64::try_from(*self).unwrap_or(i64::MAX))
            }
        }
    )*};
}

whole_numbers!(i64, u32, u64, usize);

impl FromSql for bool {
    fn column_result(value: ValueRef<'_>) -> SqlResult<Self> {
        Ok(value.as_i64()? != 0)
    }
}

impl FromSql for f64 {
    fn column_result(value: ValueRef<'_>) -> SqlResult<Self> {
        #[expect(clippy::cast_precision_loss, reason = "as SQLite does it")]
        match value {
            ValueRef::Real(number) => Ok(number),
            value => value.as_i64().map(|number| number as Self),
        }
    }
}

impl FromSql for String {
    fn column_result(value: ValueRef<'_>) -> SqlResult<Self> {
        value.as_str().map(str::to_owned)
    }
}

impl FromSql for Vec<u8> {
    fn column_result(value: ValueRef<'_>) -> SqlResult<Self> {
        value.as_blob().map(<[u8]>::to_vec)
    }
}

impl<const LENGTH: usize> FromSql for [u8; LENGTH] {
    fn column_result(value: ValueRef<'_>) -> SqlResult<Self> {
        value.as_blob()?.try_into().map_err(|_| other("of the right length"))
    }
}

impl<T: FromSql> FromSql for Option<T> {
    fn column_result(value: ValueRef<'_>) -> SqlResult<Self> {
        if value == ValueRef::Null { Ok(None) } else { T::column_result(value).map(Some) }
    }
}

/// What can be given to a statement.
pub(super) trait ToSql {
    fn value(&self) -> Value;
}

impl ToSql for bool {
    fn value(&self) -> Value {
        Value::Integer(i64::from(*self))
    }
}

impl ToSql for f64 {
    fn value(&self) -> Value {
        Value::Real(*self)
    }
}

impl ToSql for str {
    fn value(&self) -> Value {
        Value::Bytes(self.as_bytes().to_vec())
    }
}

impl ToSql for String {
    fn value(&self) -> Value {
        self.as_str().value()
    }
}

impl ToSql for Cow<'_, str> {
    fn value(&self) -> Value {
        self.as_ref().value()
    }
}

impl ToSql for [u8] {
    fn value(&self) -> Value {
        Value::Bytes(self.to_vec())
    }
}

impl ToSql for Vec<u8> {
    fn value(&self) -> Value {
        Value::Bytes(self.clone())
    }
}

impl<const LENGTH: usize> ToSql for [u8; LENGTH] {
    fn value(&self) -> Value {
        Value::Bytes(self.to_vec())
    }
}

impl ToSql for Value {
    fn value(&self) -> Value {
        self.clone()
    }
}

impl<T: ToSql> ToSql for Option<T> {
    fn value(&self) -> Value {
        self.as_ref().map_or(Value::Null, ToSql::value)
    }
}

impl<T: ToSql + ?Sized> ToSql for &T {
    fn value(&self) -> Value {
        (**self).value()
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::Bytes(text.into_bytes())
    }
}

impl From<Option<String>> for Value {
    fn from(text: Option<String>) -> Self {
        text.map_or(Self::Null, Into::into)
    }
}

impl From<i64> for Value {
    fn from(number: i64) -> Self {
        Self::Integer(number)
    }
}

impl From<u32> for Value {
    fn from(number: u32) -> Self {
        Self::Integer(number.into())
    }
}

/// What a statement is given, in its order.
pub(super) trait Params {
    fn values(self) -> Vec<Value>;
}

impl Params for [&(dyn ToSql + Send + Sync); 0] {
    fn values(self) -> Vec<Value> {
        Vec::new()
    }
}

impl Params for &[&dyn ToSql] {
    fn values(self) -> Vec<Value> {
        self.iter().map(ToSql::value).collect()
    }
}

/// Values one after the other.
pub(super) struct Many(Vec<Value>);

impl Params for Many {
    fn values(self) -> Vec<Value> {
        self.0
    }
}

pub(super) fn params_from_iter<T: ToSql>(values: impl IntoIterator<Item = T>) -> Many {
    Many(values.into_iter().map(|one| one.value()).collect())
}

macro_rules! arrays {
    ($($length:literal),*) => {$(
        impl<T: ToSql> Params for [T; $length] {
            fn values(self) -> Vec<Value> {
                self.iter().map(ToSql::value).collect()
            }
        }
    )*};
}

arrays!(1, 2, 3, 4);

macro_rules! tuples {
    ($(($($name:ident $at:tt),*))*) => {$(
        impl<$($name: ToSql),*> Params for ($($name,)*) {
            fn values(self) -> Vec<Value> {
                vec![$(self.$at.value()),*]
            }
        }
    )*};
}

tuples! {
    (A 0)
    (A 0, B 1)
    (A 0, B 1, C 2)
    (A 0, B 1, C 2, D 3)
    (A 0, B 1, C 2, D 3, E 4)
    (A 0, B 1, C 2, D 3, E 4, F 5)
    (A 0, B 1, C 2, D 3, E 4, F 5, G 6)
    (A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7)
    (A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8)
    (A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9)
    (A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9, K 10)
}

/// A row.
#[derive(Debug)]
pub(super) struct Row<'stmt> {
    values: Vec<Value>,
    statement: std::marker::PhantomData<&'stmt ()>,
}

/// What a column is named by: its place.
pub(super) trait RowIndex {
    fn place(self) -> usize;
}

impl RowIndex for usize {
    fn place(self) -> usize {
        self
    }
}

impl Row<'_> {
    pub(super) fn of(row: &tokio_postgres::Row) -> SqlResult<Self> {
        let values = (0..row.len()).map(|column| {
            row.try_get(column).map_err(|error| unreadable(column, error.to_string()))
        });
        Ok(Self { values: values.collect::<SqlResult<_>>()?, statement: std::marker::PhantomData })
    }

    pub(super) fn values(&self) -> &[Value] {
        &self.values
    }

    pub(super) fn get_ref(&self, index: usize) -> SqlResult<ValueRef<'_>> {
        let value = self.values.get(index).map(Value::as_ref);
        value.ok_or_else(|| unreadable(index, "there is no such column".into()))
    }

    pub(super) fn get<I: RowIndex, T: FromSql>(&self, index: I) -> SqlResult<T> {
        let index = index.place();
        T::column_result(self.get_ref(index)?).map_err(|error| unreadable(index, error.to_string()))
    }
}

impl<'a> types::FromSql<'a> for Value {
    fn from_sql(kind: &Type, raw: &'a [u8]) -> Result<Self, Box<dyn StdError + Sync + Send>> {
        Ok(match *kind {
            Type::BOOL => Self::Integer(i64::from(<bool as types::FromSql>::from_sql(kind, raw)?)),
            Type::INT2 => Self::Integer(i64::from(<i16 as types::FromSql>::from_sql(kind, raw)?)),
            Type::INT4 => Self::Integer(i64::from(<i32 as types::FromSql>::from_sql(kind, raw)?)),
            Type::INT8 => Self::Integer(<i64 as types::FromSql>::from_sql(kind, raw)?),
            Type::FLOAT8 => Self::Real(<f64 as types::FromSql>::from_sql(kind, raw)?),
            Type::NUMERIC => Self::Integer(whole(raw).ok_or("not a whole number of 64 bits")?),
            _ => Self::Bytes(raw.to_vec()),
        })
    }

    fn from_sql_null(_: &Type) -> Result<Self, Box<dyn StdError + Sync + Send>> {
        Ok(Self::Null)
    }

    fn accepts(_: &Type) -> bool {
        true
    }
}

/// A sum of whole numbers, as it is sent: how many digits to the base of 10,000, the weight of the first, its sign, how many
/// digits come after the point, and the digits.
fn whole(raw: &[u8]) -> Option<i64> {
    let word = |at: usize| Some(i16::from_be_bytes(raw.get(at..at + 2)?.try_into().ok()?));
    let (count, weight, sign) = (word(0)?, word(2)?, word(4)?);
    let mut number: i64 = 0;
    for place in 0..=weight {
        let digit = if place < count { word(8 + usize::try_from(place).ok()? * 2)? } else { 0 };
        number = number.checked_mul(10_000)?.checked_add(i64::from(digit))?;
    }
    match sign {
        0 => Some(number),
        0x4000 => Some(-number),
        _ => None,
    }
}

impl types::ToSql for Value {
    fn to_sql(
        &self,
        kind: &Type,
        out: &mut BytesMut,
    ) -> Result<IsNull, Box<dyn StdError + Sync + Send>> {
        match (self, kind) {
            (Self::Null, _) => Ok(IsNull::Yes),
            (Self::Integer(number), &Type::INT2) => i16::try_from(*number)?.to_sql(kind, out),
            (Self::Integer(number), &Type::INT4) => i32::try_from(*number)?.to_sql(kind, out),
            (Self::Integer(number), &Type::INT8) => number.to_sql(kind, out),
            (Self::Integer(number), &Type::BOOL) => (*number != 0).to_sql(kind, out),
            #[expect(clippy::cast_precision_loss, reason = "as SQLite does it")]
            (Self::Integer(number), &Type::FLOAT8) => (*number as f64).to_sql(kind, out),
            (Self::Real(number), &Type::FLOAT8) => number.to_sql(kind, out),
            (Self::Bytes(bytes), &Type::BYTEA) => bytes.to_sql(kind, out),
            (value, kind) => Err(format!("{value:?} is not of the type {kind}").into()),
        }
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    types::to_sql_checked!();
}
