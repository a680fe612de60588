//! Taking connections: so many at once, none for ever, and an end that loses nothing.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::ConnectInfo;
use hyper::body::Incoming;
use hyper_util::rt::{TokioIo, TokioTimer};
use rethread_engine::Engine;
use rethread_engine::program::Program;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_util::task::TaskTracker;
use tower::ServiceExt;

use crate::log::Log;
use crate::patient::{Patient, Upload};
use crate::router::router;
use crate::settings::Settings;
use crate::state::{App, Shared};

/// How long a TLS handshake may take.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// How often is looked for sessions in which nothing is said any more.
const TIDY_EVERY: Duration = Duration::from_mins(1);
/// How long to wait after the system had no room for a connection.
const BREATHE: Duration = Duration::from_millis(50);

/// Everything that a server is made of.
pub struct Server {
    pub engine: Engine,
    pub program: Arc<dyn Program>,
    pub settings: Settings,
    pub log: Log,
    pub tls: Option<Arc<ServerConfig>>,
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server").field("settings", &self.settings).finish_non_exhaustive()
    }
}

impl Server {
    /// Answers until `ended`; then what is asked is finished, agents are stopped and saved, streams are closed.
    pub async fn run(
        self,
        listener: TcpListener,
        ended: impl Future<Output = ()> + Send,
    ) -> Result<(), rethread_engine::Error> {
        let app = Shared::new(self.engine, self.program, self.settings, self.log);
        let app = app.map_err(|error| {
            rethread_engine::Error::Settings(format!("the system gives no threads: {error}"))
        })?;
        let head = app.engine.feed_head().await?;
        let follows = tokio::spawn(Arc::clone(&app).follow_log(head));
        let tidies = tokio::spawn(tidy(Arc::clone(&app)));
        let routes = router(&app);
        let open = TaskTracker::new();
        let room = Arc::new(Semaphore::new(app.settings.bounds.connections));
        let tls = self.tls.map(TlsAcceptor::from);
        tokio::pin!(ended);
        loop {
            let taken = tokio::select! {
                taken = take(&listener, &room) => taken,
                () = &mut ended => break,
            };
            let Some((stream, address, permit)) = taken else {
                tokio::time::sleep(BREATHE).await;
                continue;
            };
            let connection = Connection { app: Arc::clone(&app), routes: routes.clone(), address };
            let tls = tls.clone();
            open.spawn(async move {
                connection.serve(stream, tls).await;
                drop(permit);
            });
        }
        drop(listener);
        app.log.event("stopping", &[]);
        app.stop.cancel();
        let drain = app.settings.bounds.drain;
        let turns = app.turns.stop();
        open.close();
        // A client that does not take its answer is not waited for.
        drop(tokio::time::timeout(drain, async { tokio::join!(open.wait(), turns) }).await);
        follows.abort();
        tidies.abort();
        app.log.event("stopped", &[]);
        app.log.flush();
        Ok(())
    }
}

type Taken = (TcpStream, SocketAddr, tokio::sync::OwnedSemaphorePermit);

/// The next connection, once there is room for it.
async fn take(listener: &TcpListener, room: &Arc<Semaphore>) -> Option<Taken> {
    let permit = Arc::clone(room).acquire_owned().await.ok()?;
    let (stream, address) = listener.accept().await.ok()?;
    // Small answers are not held back.
    drop(stream.set_nodelay(true));
    Some((stream, address, permit))
}

async fn tidy(app: App) {
    loop {
        tokio::time::sleep(TIDY_EVERY).await;
        // Whoever opens the store next tries again.
        drop(app.engine.tidy(app.settings.idle).await);
        app.program.gather().await;
    }
}

struct Connection {
    app: App,
    routes: Router,
    address: SocketAddr,
}

impl Connection {
    async fn serve(self, stream: TcpStream, tls: Option<TlsAcceptor>) {
        self.app.metrics.connections.inc();
        let app = Arc::clone(&self.app);
        match tls {
            None => self.answer(stream).await,
            Some(tls) => {
                if let Ok(Ok(stream)) = tokio::time::timeout(HANDSHAKE, tls.accept(stream)).await {
                    self.answer(stream).await;
                }
            }
        }
        app.metrics.connections.dec();
    }

    async fn answer(self, stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static) {
        let Self { app, routes, address } = self;
        let bounds = &app.settings.bounds;
        let patience = bounds.patience;
        let service = hyper::service::service_fn(move |mut request: hyper::Request<Incoming>| {
            request.extensions_mut().insert(ConnectInfo(address));
            routes.clone().oneshot(request.map(|body| Body::new(Upload::new(body, patience))))
        });
        let connection = hyper::server::conn::http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(bounds.patience)
            .max_buf_size(bounds.header_bytes.max(8_192))
            .max_headers(64)
            .serve_connection(TokioIo::new(Patient::new(stream, bounds.slowness)), service)
            .with_upgrades();
        tokio::pin!(connection);
        // A client that breaks off harms nobody.
        tokio::select! {
            over = connection.as_mut() => drop(over),
            () = app.stop.cancelled() => {
                connection.as_mut().graceful_shutdown();
                drop(connection.await);
            }
        }
    }
}
