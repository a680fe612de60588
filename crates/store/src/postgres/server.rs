//! The way to the server: who connects, and the thread on which connections live. It runs while nobody waits for an answer, so
//! that a connection that was closed is noticed at once.

use std::sync::Arc;
use std::sync::mpsc::{self, SyncSender};
use std::thread::JoinHandle;
use std::time::Duration;

use futures::channel::oneshot;
use tokio::runtime::{Builder, Handle};
use tokio_postgres::config::SslMode;
use tokio_postgres::tls::MakeTlsConnect;
use tokio_postgres::{Client, Config, NoTls, Socket};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::connection::Connection;
use super::failure::{lost, of};
use super::{address, tls};
use crate::error::{Error, Result};
use crate::url::Target;

/// A server, as it is connected to.
pub(super) struct Server {
    ways: Vec<Config>,
    tls: Option<MakeRustlsConnect>,
    wait: Duration,
    handle: Handle,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    pub(super) fn new(target: &Target) -> Result<Arc<Self>> {
        let (ways, tls) = (address::ways(target), tls::connector(target)?);
        let runtime = Builder::new_current_thread().enable_io().enable_time().build()?;
        let (stop, stopped) = oneshot::channel();
        let handle = runtime.handle().clone();
        let thread = std::thread::Builder::new()
            .name("store-postgres".into())
            // It ends when it is told to, or when nobody is left who could tell it.
            .spawn(move || runtime.block_on(stopped).unwrap_or(()))?;
        let wait = target.connect_timeout;
        Ok(Arc::new(Self { ways, tls, wait, handle, stop: Some(stop), thread: Some(thread) }))
    }

    /// A new connection, to the first server that takes it.
    pub(super) fn connect(&self) -> Result<Connection> {
        let mut refused = lost("it names no server");
        for way in &self.ways {
            match self.connect_to(way) {
                Err(error) => refused = error,
                connected => return connected,
            }
        }
        Err(refused)
    }

    fn connect_to(&self, way: &Config) -> Result<Connection> {
        let (give, given) = mpsc::sync_channel(1);
        let (way, wait) = (way.clone(), self.wait * 2);
        match &self.tls {
            Some(tls) if way.get_ssl_mode() != SslMode::Disable => {
                self.handle.spawn(live(way, tls.clone(), wait, give));
            }
            _ => {
                self.handle.spawn(live(way, NoTls, wait, give));
            }
        }
        let given = given.recv_timeout(wait + Duration::from_secs(5));
        given.map_err(|_| lost("nobody answered in time"))?.map(Connection::new)
    }
}

/// Connects, gives what asks, and does what it asks for until the connection ends.
async fn live<T>(way: Config, tls: T, wait: Duration, give: SyncSender<Result<Client>>)
where
    T: MakeTlsConnect<Socket>,
{
    match tokio::time::timeout(wait, way.connect(tls)).await {
        Ok(Ok((client, connection))) => {
            if give.send(Ok(client)).is_ok() {
                // Whoever uses it is told how it ended.
                drop(connection.await);
            }
        }
        // Nobody waits any more.
        Ok(Err(error)) => drop(give.send(Err(refused(&error)))),
        Err(_) => drop(give.send(Err(lost("nobody answered in time")))),
    }
}

/// Why there is no connection: nothing was lost.
fn refused(error: &tokio_postgres::Error) -> Error {
    match of(error) {
        Error::CannotOpen(_) => {
            let why = std::error::Error::source(error).map(ToString::to_string);
            Error::CannotOpen(why.unwrap_or_else(|| error.to_string()))
        }
        Error::Failed(why) => Error::CannotOpen(why),
        error => error,
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(stop) = self.stop.take() {
            // Whether it has ended already does not matter.
            stop.send(()).unwrap_or(());
        }
        if let Some(thread) = self.thread.take() {
            // A panic in it has been told already.
            drop(thread.join());
        }
    }
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server").finish_non_exhaustive()
    }
}
