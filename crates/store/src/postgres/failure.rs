//! What an error of PostgreSQL means.

use tokio_postgres::error::SqlState;

use crate::error::Error;

/// The server, or the way there, is gone.
pub(super) fn lost(why: &str) -> Error {
    Error::CannotOpen(format!("the connection to PostgreSQL was lost: {why}"))
}

pub(super) fn of(error: &tokio_postgres::Error) -> Error {
    let Some(told) = error.as_db_error() else {
        let why = std::error::Error::source(error).map(ToString::to_string);
        return match why {
            _ if error.is_closed() => lost("it was closed"),
            Some(why) => lost(&why),
            None => lost(&error.to_string()),
        };
    };
    let why = told.message().to_owned();
    match told.code() {
        &SqlState::DISK_FULL => Error::Full,
        &SqlState::T_R_SERIALIZATION_FAILURE
        | &SqlState::T_R_DEADLOCK_DETECTED
        | &SqlState::LOCK_NOT_AVAILABLE
        | &SqlState::OUT_OF_MEMORY
        | &SqlState::TOO_MANY_CONNECTIONS => Error::Busy,
        &SqlState::READ_ONLY_SQL_TRANSACTION => Error::ReadOnly(why),
        &SqlState::ADMIN_SHUTDOWN
        | &SqlState::CRASH_SHUTDOWN
        | &SqlState::CANNOT_CONNECT_NOW
        | &SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT => lost(&why),
        &SqlState::INVALID_PASSWORD
        | &SqlState::INVALID_AUTHORIZATION_SPECIFICATION
        | &SqlState::INVALID_CATALOG_NAME => Error::CannotOpen(why),
        &SqlState::UNIQUE_VIOLATION | &SqlState::DATA_CORRUPTED | &SqlState::INDEX_CORRUPTED => {
            Error::Damaged(why)
        }
        code if code.code().starts_with("08") => lost(&why),
        code => Error::Failed(format!("PostgreSQL: {why} ({})", code.code())),
    }
}
