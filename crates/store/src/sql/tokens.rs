//! Tokens: who may come in, known by the hash of a secret.

use async_trait::async_trait;
use jiff::{SignedDuration, Timestamp};
use rethread_domain::access::{Pass, Token, TokenId};

use super::columns::Columns as _;
use super::rows::micros;
use super::sql::{Connection, OptionalExtension, Row, SqlResult};
use super::summed::summed;
use super::{ThisStore, sums};
use crate::Tokens;
use crate::error::{Error, Result};

/// How long one is kept after it has ended.
const KEPT_FOR: SignedDuration = SignedDuration::from_hours(30 * 24);

const COLUMNS: &str =
    "id, name, role, user, pass, created_at, expires_at, revoked_at, used_at, parent";

type Hash = [u8; 32];

fn hash(secret: &str) -> Hash {
    blake3::hash(secret.as_bytes()).into()
}

#[async_trait]
impl Tokens for ThisStore {
    async fn create_token(&self, token: Token, secret: &str) -> Result<Token> {
        let hash = hash(secret);
        self.write(move |connection| {
            let token = beneath_parent(connection, token)?;
            forget_old(connection, token.created_at)?;
            insert(connection, &token, hash)?;
            Ok(token)
        })
        .await
    }

    async fn token_by_secret(&self, secret: &str) -> Result<Option<Token>> {
        self.read(|connection| by_hash(connection, hash(secret)))
    }

    async fn token(&self, id: &TokenId) -> Result<Token> {
        self.read(|connection| by_id(connection, id))
    }

    async fn tokens(&self) -> Result<Vec<Token>> {
        self.read(|connection| {
            let sql = format!(
                "select {COLUMNS} from token where {} order by no desc",
                sums::intact("token")
            );
            let mut statement = connection.prepare_cached(&sql)?;
            Ok(statement.query_map([], read)?.collect::<SqlResult<_>>()?)
        })
    }

    async fn revoke_token(&self, id: &TokenId, at: Timestamp) -> Result<Token> {
        let id = id.clone();
        self.write(move |connection| revoke(connection, &id, at)).await
    }

    async fn redeem(
        &self,
        link_secret: &str,
        new: Token,
        new_secret: &str,
        now: Timestamp,
    ) -> Result<Option<Token>> {
        let (link, new_hash) = (hash(link_secret), hash(new_secret));
        // Whoever guesses does not keep others from writing.
        if self.read(|connection| usable_link(connection, link, now))?.is_none() {
            return Ok(None);
        }
        self.write(move |connection| redeem(connection, link, new, new_hash, now)).await
    }

    async fn touch_token(&self, id: &TokenId, at: Timestamp) -> Result<()> {
        let id = id.clone();
        self.write(move |connection| {
            connection
                .prepare_cached(summed!(
                    "update token set used_at = max(coalesce(used_at, ?2), ?2) where id = ?1"
                ))?
                .execute((id.as_str(), micros(at)))?;
            Ok(())
        })
        .await
    }
}

fn read(row: &Row<'_>) -> SqlResult<Token> {
    let parent: Option<String> = row.get(9)?;
    Ok(Token {
        id: row.parse(0)?,
        name: row.get(1)?,
        role: row.parse(2)?,
        user: row.get(3)?,
        pass: row.parse(4)?,
        created_at: row.time(5)?,
        expires_at: row.time_or_none(6)?,
        revoked_at: row.time_or_none(7)?,
        used_at: row.time_or_none(8)?,
        parent: parent.map(|_| row.parse(9)).transpose()?,
    })
}

fn by_hash(connection: &Connection, hash: Hash) -> Result<Option<Token>> {
    // Nobody comes in with one that is damaged: what it allows is not known.
    let sql = format!("select {COLUMNS} from token where hash = ?1 and {}", sums::intact("token"));
    Ok(connection.prepare_cached(&sql)?.query_row([hash], read).optional()?)
}

fn by_id(connection: &Connection, id: &TokenId) -> Result<Token> {
    let sql = format!("select {COLUMNS} from token where id = ?1 and {}", sums::intact("token"));
    let found = connection.prepare_cached(&sql)?.query_row([id.as_str()], read).optional()?;
    found.ok_or_else(|| Error::NoToken(id.clone()))
}

/// A new token as its parent allows it: not where that is not valid, and not for longer.
fn beneath_parent(connection: &Connection, mut token: Token) -> Result<Token> {
    let Some(id) = &token.parent else { return Ok(token) };
    let parent = by_id(connection, id)?;
    if !parent.is_valid(token.created_at) {
        return Err(Error::NoToken(id.clone()));
    }
    token.expires_at = match (token.expires_at, parent.expires_at) {
        (Some(own), Some(parents)) => Some(own.min(parents)),
        (own, parents) => own.or(parents),
    };
    Ok(token)
}

fn insert(connection: &Connection, token: &Token, hash: Hash) -> Result<()> {
    connection
        .prepare_cached(summed!(&format!(
            "insert into token ({COLUMNS}, hash) values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)"
        )))?
        .execute((
            token.id.as_str(),
            &token.name,
            token.role.as_str(),
            &token.user,
            token.pass.as_str(),
            micros(token.created_at),
            token.expires_at.map(micros),
            token.revoked_at.map(micros),
            token.used_at.map(micros),
            token.parent.as_ref().map(TokenId::as_str),
            hash,
        ))?;
    Ok(())
}

/// Removes what has been of no use for long.
fn forget_old(connection: &Connection, now: Timestamp) -> Result<()> {
    let before = micros(now.saturating_sub(KEPT_FOR).unwrap_or(now));
    connection
        .prepare_cached("delete from token where revoked_at < ?1 or expires_at < ?1")?
        .execute([before])?;
    Ok(())
}

fn revoke(connection: &Connection, id: &TokenId, at: Timestamp) -> Result<Token> {
    by_id(connection, id)?;
    connection
        .prepare_cached(
            summed!("with recursive ended (id) as
                (select id from token where id = ?1 union select token.id from token join ended on token.parent = ended.id)
             update token set revoked_at = ?2 where revoked_at is null and id in (select id from ended)"),
        )?
        .execute((id.as_str(), micros(at)))?;
    by_id(connection, id)
}

fn usable_link(connection: &Connection, hash: Hash, now: Timestamp) -> Result<Option<Token>> {
    let found = by_hash(connection, hash)?;
    Ok(found.filter(|link| link.pass == Pass::Link && link.is_valid(now)))
}

/// Whoever comes second finds the link revoked: there is one transaction at a time.
fn redeem(
    connection: &Connection,
    link: Hash,
    new: Token,
    hash: Hash,
    now: Timestamp,
) -> Result<Option<Token>> {
    let Some(link) = usable_link(connection, link, now)? else { return Ok(None) };
    let new = Token {
        role: link.role,
        user: link.user,
        parent: link.parent,
        pass: Pass::Browser,
        created_at: now,
        ..new
    };
    let new = match beneath_parent(connection, new) {
        Err(Error::NoToken(_)) => return Ok(None),
        new => new?,
    };
    forget_old(connection, now)?;
    connection
        .prepare_cached(summed!("update token set revoked_at = ?2, used_at = ?2 where id = ?1"))?
        .execute((link.id.as_str(), micros(now)))?;
    insert(connection, &new, hash)?;
    Ok(Some(new))
}
