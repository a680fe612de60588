//! The way to the server: who connects, and the thread on which connections live. It runs while nobody waits for an answer, so
//! that a connection that was closed is noticed at once.

use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

use futures::channel::oneshot;
use tokio::runtime::{Builder, Handle};
use tokio_postgres::{Config, NoTls};

use super::connection::Connection;
use super::failure::{lost, of};
use crate::error::{Error, Result};
use crate::url::{Address, Password, SslMode, Target};

/// How long the server lets things take, and what it does with a connection that nobody has any more.
const SETTINGS: &str = "-c search_path=rethread -c statement_timeout=30000 -c lock_timeout=10000 \
     -c idle_in_transaction_session_timeout=10000 -c client_connection_check_interval=2000 -c TimeZone=UTC -c jit=off \
     -c client_min_messages=warning";

/// What a connection is made with.
pub(super) fn config(target: &Target) -> Result<Config> {
    if !matches!(target.ssl, SslMode::Disable | SslMode::Prefer) {
        return Err(Error::CannotOpen(
            "this program cannot encrypt the way to PostgreSQL yet: connect by a socket or on this machine, or say \
             sslmode=disable in the address if you trust the network"
                .into(),
        ));
    }
    let mut config = Config::new();
    for (address, port) in &target.addresses {
        match address {
            Address::Socket(folder) => config.host_path(folder),
            Address::Host(name, number) => {
                if let Some(number) = number {
                    config.hostaddr(*number);
                }
                config.host(name)
            }
        };
        config.port(*port);
    }
    let password = target.password.as_ref().or_else(|| target.passwords.iter().flatten().next());
    if let Some(Password(password)) = password {
        config.password(password);
    }
    if let Some(options) = &target.options {
        config.options(options);
    }
    config
        .user(&target.user)
        .dbname(&target.database)
        .application_name(&target.application_name)
        .connect_timeout(target.connect_timeout);
    Ok(config)
}

/// A server, as it is connected to.
pub(super) struct Server {
    config: Config,
    wait: Duration,
    handle: Handle,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    pub(super) fn new(mut config: Config) -> Result<Arc<Self>> {
        let own = config.get_options().map(|own| format!("{SETTINGS} {own}"));
        config.options(own.unwrap_or_else(|| SETTINGS.to_owned()));
        config
            .keepalives_idle(Duration::from_secs(5))
            .keepalives_interval(Duration::from_secs(2))
            .keepalives_retries(3)
            .tcp_user_timeout(Duration::from_secs(10));
        let runtime = Builder::new_current_thread().enable_io().enable_time().build()?;
        let (stop, stopped) = oneshot::channel();
        let handle = runtime.handle().clone();
        let thread = std::thread::Builder::new()
            .name("store-postgres".into())
            // It ends when it is told to, or when nobody is left who could tell it.
            .spawn(move || runtime.block_on(stopped).unwrap_or(()))?;
        let wait = config.get_connect_timeout().copied().unwrap_or(Duration::from_secs(5));
        Ok(Arc::new(Self { config, wait, handle, stop: Some(stop), thread: Some(thread) }))
    }

    /// A new connection.
    pub(super) fn connect(&self) -> Result<Connection> {
        let (give, given) = mpsc::sync_channel(1);
        let (config, wait) = (self.config.clone(), self.wait * 2);
        self.handle.spawn(async move {
            match tokio::time::timeout(wait, config.connect(NoTls)).await {
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
        });
        let given = given.recv_timeout(wait + Duration::from_secs(5));
        given.map_err(|_| lost("nobody answered in time"))?.map(Connection::new)
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
            drop(thread.join());
        }
    }
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server").finish_non_exhaustive()
    }
}
