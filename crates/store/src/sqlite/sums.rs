//! Checksums: every row has one over all that is in it, written with the row (see `summed.rs`) and checked when the row is
//! read.
//!
//! A CRC notices every change within 32 bits in a row, and any other but one in four thousand million. It is there for
//! what disks and memory do by themselves; whoever changes a store on purpose can write a fitting checksum too.

use rusqlite::functions::FunctionFlags;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, Row};

use crate::error::Result;

/// Begins what SQLite says of a row that is damaged.
pub(crate) const DAMAGE: &str = "damaged row: ";

/// A table whose rows have checksums.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Table {
    pub(super) name: &'static str,
    pub(super) key: &'static [&'static str],
    /// What the checksum is made of, in this order.
    pub(super) columns: &'static [&'static str],
}

pub(super) const TABLES: &[Table] = &[
    Table {
        name: "session",
        key: &["no"],
        columns: &[
            "no",
            "id",
            "user",
            "project",
            "kind",
            "agent",
            "model",
            "command",
            "prompt_hash",
            "tools",
            "title",
            "title_from",
            "summary",
            "status",
            "archived_from",
            "started_at",
            "last_active_at",
            "deleted_at",
            "forked_from",
            "forked_at",
            "branch",
            "head",
            "facts",
            "last_seq",
            "base_seq",
            "indexed_seq",
            "conversations",
            "tokens",
            "runs",
            "input_tokens",
            "output_tokens",
            "cost_nano",
            "current",
            "turn",
            "epoch",
            "head_price",
            "title_price",
            "summary_prices",
            "parent",
            "title_indexed",
        ],
    },
    Table {
        name: "message",
        key: &["id"],
        columns: &[
            "id",
            "role",
            "conversation",
            "at",
            "tokens",
            "price",
            "cuts",
            "body",
            "head_bytes",
            "blob",
            "extras",
            "given_id",
            "purged_at",
            "prev",
            "bytes",
            "set_aside",
        ],
    },
    Table {
        name: "fact",
        key: &["session", "n"],
        columns: &["session", "n", "after", "at", "what"],
    },
    Table { name: "segment", key: &["session", "lo"], columns: &["session", "lo", "hi", "source"] },
    Table {
        name: "conversation",
        key: &["session", "n"],
        columns: &[
            "n",
            "name",
            "title",
            "created_at",
            "last_at",
            "last_seq",
            "messages",
            "tokens",
            "turn",
            "running",
            "summary",
            "name_price",
            "heading_price",
            "summary_prices",
            "session",
        ],
    },
    Table { name: "agent_use", key: &["session", "agent"], columns: &["session", "agent", "runs"] },
    Table {
        name: "holding",
        key: &["session", "conversation", "agent"],
        columns: &["session", "conversation", "agent", "what"],
    },
    Table {
        name: "underway",
        key: &["session", "conversation"],
        columns: &["session", "conversation", "at", "what"],
    },
    Table {
        name: "stream",
        key: &["no"],
        columns: &["no", "session", "conversation", "at", "what"],
    },
    Table {
        name: "permission",
        key: &["user", "project", "agent", "what"],
        columns: &["user", "project", "agent", "what", "allowed", "at"],
    },
    Table {
        name: "imported",
        key: &["source", "native"],
        columns: &["source", "native", "agent", "session", "stamp", "cursor", "seq", "gone_at"],
    },
    Table { name: "passage", key: &["id"], columns: &["id", "data"] },
    Table { name: "posting", key: &["no"], columns: &["no", "data"] },
    Table {
        name: "posting_run",
        key: &["no"],
        columns: &["no", "leaf", "leaves", "root", "depth", "lo", "hi", "messages"],
    },
    Table { name: "blob", key: &["no"], columns: &["no", "owner", "hash", "bytes", "uses"] },
    Table {
        name: "command",
        key: &["no"],
        columns: &["no", "session", "at", "what", "conversation", "prompt", "taken", "answer"],
    },
    Table {
        name: "folder",
        key: &["session"],
        columns: &["session", "root", "path", "seq", "last_id", "facts", "told", "log", "card"],
    },
    Table {
        name: "workflow",
        key: &["no"],
        columns: &[
            "no",
            "id",
            "user",
            "worktree",
            "title",
            "agent",
            "status",
            "tasks_done",
            "tasks",
            "sessions",
            "task",
            "paused_at",
            "pause_reason",
            "until",
            "created_at",
            "updated_at",
            "cost_usd",
            "tokens",
            "events",
            "epoch",
            "lease_until",
            "told",
        ],
    },
    Table { name: "workflow_event", key: &["id"], columns: &["id", "at", "what"] },
    Table {
        name: "workflow_session",
        key: &["session", "workflow"],
        columns: &["session", "workflow", "task"],
    },
    Table {
        name: "feed",
        key: &["no"],
        columns: &["no", "at", "user", "kind", "session", "workflow", "first", "last"],
    },
    Table {
        name: "token",
        key: &["no"],
        columns: &[
            "no",
            "id",
            "hash",
            "name",
            "role",
            "user",
            "pass",
            "created_at",
            "expires_at",
            "revoked_at",
            "used_at",
            "parent",
        ],
    },
    Table { name: "reserved", key: &["key"], columns: &["key", "request", "id", "at"] },
    Table {
        name: "usage_day",
        key: &["day", "session", "agent"],
        columns: &[
            "day",
            "session",
            "agent",
            "messages",
            "tokens",
            "input_tokens",
            "output_tokens",
            "cost_nano",
            "context",
        ],
    },
    Table {
        name: "opening_sum",
        key: &["user", "agent", "how", "why", "ms"],
        columns: &["user", "agent", "how", "why", "ms", "times"],
    },
];

impl Table {
    pub(super) fn of(name: &str) -> Option<&'static Self> {
        TABLES.iter().find(|table| table.name == name)
    }

    /// Whether a row is as it was written, in SQL.
    fn intact(&self) -> String {
        let columns: Vec<String> =
            self.columns.iter().map(|column| format!("{}.{column}", self.name)).collect();
        format!("({}.sum is checksum({}))", self.name, columns.join(", "))
    }
}

/// Whether a row of this table is as it was written, in SQL. Of a table that has no checksums everything is.
pub(super) fn intact(table: &str) -> String {
    Table::of(table).map_or_else(|| "1".to_owned(), Table::intact)
}

/// A condition in SQL that fails with an error where a row of this table is damaged.
pub(super) fn insist(table: &str, what: &str) -> String {
    format!("insist('{what}', {})", intact(table))
}

/// A checksum in the making. Most values are a few bytes long, and a CRC is much faster over many bytes at once: they are
/// gathered first.
#[derive(Debug)]
pub(super) struct Sum {
    crc: crc32fast::Hasher,
    gathered: [u8; GATHERED],
    count: usize,
}

/// More than most rows have.
const GATHERED: usize = 1024;
/// Bytes that every value has: its type, and its length or what it is.
const HEAD: usize = 9;

impl Default for Sum {
    fn default() -> Self {
        Self { crc: crc32fast::Hasher::new(), gathered: [0; GATHERED], count: 0 }
    }
}

impl Sum {
    /// Adds a value with its type and length: what stands side by side cannot be taken for one another.
    pub(super) fn add(&mut self, value: ValueRef<'_>) {
        let (kind, number, bytes): (u8, [u8; 8], &[u8]) = match value {
            ValueRef::Null => (0, [0; 8], &[]),
            ValueRef::Integer(number) => (1, number.to_le_bytes(), &[]),
            ValueRef::Real(number) => (2, number.to_bits().to_le_bytes(), &[]),
            ValueRef::Text(text) => (3, (text.len() as u64).to_le_bytes(), text),
            ValueRef::Blob(blob) => (4, (blob.len() as u64).to_le_bytes(), blob),
        };
        self.make_room(HEAD);
        let head = &mut self.gathered[self.count..self.count + HEAD];
        head[0] = kind;
        head[1..HEAD].copy_from_slice(&number);
        self.count += HEAD;
        if bytes.len() > GATHERED {
            self.make_room(GATHERED);
            self.crc.update(bytes);
        } else if !bytes.is_empty() {
            self.make_room(bytes.len());
            self.gathered[self.count..self.count + bytes.len()].copy_from_slice(bytes);
            self.count += bytes.len();
        }
    }

    fn make_room(&mut self, bytes: usize) {
        if bytes > GATHERED - self.count {
            self.crc.update(&self.gathered[..self.count]);
            self.count = 0;
        }
    }

    pub(super) fn value(mut self) -> i64 {
        self.make_room(GATHERED);
        i64::from(self.crc.finalize())
    }
}

/// How many columns of a table its checksum is made of, and a query for them with the checksum after them.
pub fn checked_columns(table: &str) -> Option<(usize, String)> {
    let columns = Table::of(table)?.columns;
    Some((columns.len(), format!("select {}, sum from {table}", columns.join(", "))))
}

/// Whether the first `columns` of a row fit the checksum that comes after them.
pub fn is_intact(row: &Row<'_>, columns: usize) -> bool {
    let mut sum = Sum::default();
    for column in 0..columns {
        match row.get_ref(column) {
            Ok(value) => sum.add(value),
            Err(_) => return false,
        }
    }
    matches!(row.get_ref(columns), Ok(ValueRef::Integer(kept)) if kept == sum.value())
}

/// Whether the first values of a row fit the checksum that comes after them.
pub(super) fn fits(row: &Row<'_>, values: &[ValueRef<'_>]) -> bool {
    let mut sum = Sum::default();
    for value in values {
        sum.add(*value);
    }
    matches!(row.get_ref(values.len()), Ok(ValueRef::Integer(kept)) if kept == sum.value())
}

/// Gives a connection to the file of a store the functions that checksums are made and checked with.
pub fn register(connection: &Connection) -> Result<()> {
    let flags = FunctionFlags::SQLITE_UTF8
        | FunctionFlags::SQLITE_DETERMINISTIC
        | FunctionFlags::SQLITE_INNOCUOUS;
    connection.create_scalar_function("checksum", -1, flags, |context| {
        let mut sum = Sum::default();
        for index in 0..context.len() {
            sum.add(context.get_raw(index));
        }
        Ok(sum.value())
    })?;
    // The checksum of a row that is changed: a wrong one where it was wrong before. No checksum is negative.
    connection.create_scalar_function("carried", 3, flags, |context| {
        let kept: Option<i64> = context.get(0)?;
        let (before, after): (i64, i64) = (context.get(1)?, context.get(2)?);
        Ok(if kept == Some(before) { after } else { !after })
    })?;
    // For rows that nothing can replace: whoever reads one that is damaged is told so.
    connection.create_scalar_function("insist", 2, flags, |context| {
        if context.get::<bool>(1)? {
            return Ok(true);
        }
        let what: String = context.get(0)?;
        let why =
            format!("{DAMAGE}{what} does not match its checksum; `rethread doctor` tells more");
        Err(rusqlite::Error::UserFunctionError(why.into()))
    })?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_bit_counts_and_values_are_told_apart() {
        let sum = |values: &[ValueRef<'_>]| {
            let mut sum = Sum::default();
            for value in values {
                sum.add(*value);
            }
            sum.value()
        };
        let text = "What was said, in some words.".as_bytes();
        let whole = sum(&[ValueRef::Text(text)]);
        for bit in 0..text.len() * 8 {
            let mut other = text.to_vec();
            other[bit / 8] ^= 1 << (bit % 8);
            assert_ne!(sum(&[ValueRef::Text(&other)]), whole, "bit {bit}");
        }
        assert_ne!(sum(&[ValueRef::Blob(text)]), whole);
        let [ab, a, b, empty] = [&b"ab"[..], b"a", b"b", b""].map(ValueRef::Text);
        assert_ne!(sum(&[ab, empty]), sum(&[a, b]));
        assert_ne!(sum(&[ValueRef::Null]), sum(&[ValueRef::Integer(0)]));
    }

    /// However values are gathered, the checksum is that of their bytes in a row.
    #[test]
    fn gathering_changes_nothing() {
        for length in [0, 1, 200, 988, 989, 1_005, 1_006, 1_015, 1_016, 1_024, 1_025, 3_000] {
            let text = vec![b'x'; length];
            let values = [ValueRef::Integer(7), ValueRef::Text(&text), ValueRef::Null];
            let mut sum = Sum::default();
            let mut bytes = Vec::new();
            for value in values.iter().cycle().take(12) {
                sum.add(*value);
                let (kind, number): (u8, i64) = match value {
                    ValueRef::Integer(number) => (1, *number),
                    ValueRef::Text(text) => (3, i64::try_from(text.len()).unwrap()),
                    _ => (0, 0),
                };
                bytes.push(kind);
                bytes.extend(number.to_le_bytes());
                if let ValueRef::Text(text) = value {
                    bytes.extend(*text);
                }
            }
            assert_eq!(sum.value(), i64::from(crc32fast::hash(&bytes)), "{length}");
        }
    }
}
