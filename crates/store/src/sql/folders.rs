//! Where sessions live beside the code, and how far their folders follow.

use async_trait::async_trait;
use jiff::Timestamp;
use rethread_domain::{Fact, SessionId};

use super::rows::{self, SessionRow};
use super::sql::{Connection, OptionalExtension, Row, SqlResult};
use super::summed::summed;
use super::{ThisStore, damage, facts, gone, sums};
use crate::Folders;
use crate::error::{Error, Result};
use crate::types::{Home, Housed};

/// A session without a path is one that is to have a folder as soon as something is said in it.
const COLUMNS: &str = "root, path, seq, last_id, folder.facts, told, log, card";

#[async_trait]
impl Folders for ThisStore {
    async fn home(&self, id: SessionId) -> Result<Option<Home>> {
        self.read(|connection| find(connection, id))
    }

    async fn homes(&self, root: &str) -> Result<Vec<Housed>> {
        self.read(|connection| {
            let mut statement = connection.prepare_cached(&format!(
                "select {COLUMNS}, id, last_seq, session.facts, deleted_at is not null from folder join session on session.no = folder.session
                 where root = ?1 and path <> '' order by folder.session"
            ))?;
            let mut found = statement.query([root])?;
            let mut homes = Vec::new();
            while let Some(row) = found.next()? {
                let id: String = row.get(8)?;
                let known = id.parse();
                let home = read(row)?;
                homes.push(Housed {
                    id: known.map_err(|_| Error::Damaged(format!("not a session id: {id:?}")))?,
                    is_behind: home.seq < row.get(9)? || home.facts != row.get::<_, u32>(10)?,
                    is_deleted: row.get(11)?,
                    home,
                });
            }
            Ok(homes)
        })
    }

    async fn await_home(&self, id: SessionId, root: &str) -> Result<()> {
        let home = Home { root: root.to_owned(), last_id: id.to_string(), ..Home::default() };
        self.place(id, home).await.map(drop)
    }

    async fn without_home(&self, root: &str) -> Result<Vec<SessionId>> {
        self.read(|connection| {
            let mut statement = connection.prepare_cached(
                "select id from folder join session on session.no = folder.session
                 where root = ?1 and path = '' and last_seq > 0 and deleted_at is null order by folder.session",
            )?;
            let ids = statement.query_map([root], |row| row.get::<_, String>(0))?;
            // One whose id is damaged is named by `doctor`.
            Ok(ids.filter_map(|id| id.ok()?.parse().ok()).collect())
        })
    }

    async fn set_home(&self, id: SessionId, home: Home) -> Result<()> {
        self.write(move |connection| {
            write(connection, rows::session_by_id(connection, id)?.no, &home)
        })
        .await
    }

    async fn place(&self, id: SessionId, home: Home) -> Result<Home> {
        self.write(move |connection| {
            if let Some(before) = find(connection, id)? {
                return Ok(before);
            }
            write(connection, rows::session_by_id(connection, id)?.no, &home)?;
            Ok(home)
        })
        .await
    }

    async fn bury(&self, ids: Vec<String>, at: Timestamp) -> Result<()> {
        self.write(move |connection| gone::bury(connection, &ids, at)).await
    }

    async fn unbury(&self, id: &str) -> Result<()> {
        if !self.is_buried(id).await? {
            return Ok(());
        }
        let id = id.to_owned();
        self.write(move |connection| gone::unbury(connection, &id)).await
    }

    async fn is_buried(&self, id: &str) -> Result<bool> {
        self.read(|connection| gone::is_buried(connection, id))
    }

    async fn deleted_before(&self, before: Timestamp) -> Result<Vec<SessionId>> {
        self.read(|connection| gone::deleted_before(connection, before))
    }

    async fn rehome(&self, from: &str, to: &str, at: Timestamp) -> Result<u32> {
        let (from, to) = (from.to_owned(), to.to_owned());
        self.write(move |connection| rehome(connection, &from, &to, at)).await
    }
}

fn find(connection: &Connection, id: SessionId) -> Result<Option<Home>> {
    let found = connection
        .prepare_cached(&format!(
            "select {COLUMNS} from folder where session = (select no from session where id = ?1) and path <> '' and {}",
            sums::insist("folder", "where the folder of a session is")
        ))?
        .query_row([id.to_string()], read)
        .optional()?;
    Ok(found)
}

fn read(row: &Row<'_>) -> SqlResult<Home> {
    Ok(Home {
        root: row.get(0)?,
        path: row.get(1)?,
        seq: row.get(2)?,
        last_id: row.get(3)?,
        facts: row.get(4)?,
        told: row.get(5)?,
        log: row.get(6)?,
        card: row.get(7)?,
    })
}

pub(super) fn write(connection: &Connection, no: i64, home: &Home) -> Result<()> {
    connection
        .prepare_cached(
            summed!("insert into folder (session, root, path, seq, last_id, facts, told, log, card)
             values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)
             on conflict (session) do update set root = excluded.root, path = excluded.path, seq = excluded.seq,
                last_id = excluded.last_id, facts = excluded.facts, told = excluded.told, log = excluded.log,
                card = excluded.card, sum = null"),
        )?
        .execute((
            no,
            &home.root,
            &home.path,
            home.seq,
            &home.last_id,
            home.facts,
            &home.told,
            &home.log,
            &home.card,
        ))?;
    Ok(())
}

fn rehome(connection: &Connection, from: &str, to: &str, at: Timestamp) -> Result<u32> {
    let inside = format!("{}/", from.trim_end_matches('/'));
    let sql = rows::select_session("where project = ?1 or instr(project, ?2) = 1");
    let moved: Vec<SessionRow> =
        damage::sessions(connection, &mut connection.prepare(&sql)?, (from, &inside))?;
    let count = u32::try_from(moved.len()).unwrap_or(u32::MAX);
    for mut row in moved {
        let rest = row.session.project.strip_prefix(from).unwrap_or_default();
        let fact = Fact::Rehomed { project: format!("{to}{rest}") };
        facts::add_told(connection, &mut row, &fact, at)?;
        rows::write_session(connection, row.no, &row.session)?;
    }
    connection.execute(summed!("update folder set root = ?2 where root = ?1"), (from, to))?;
    Ok(count)
}
