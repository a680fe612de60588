//! Accepts connections, with limits in total and for each address, and shuts down gracefully.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::ConnectInfo;
use hyper::body::Incoming;
use hyper_util::rt::{TokioIo, TokioTimer};
use rethread_engine::program::Program;
use rethread_engine::{Engine, Logged as _};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_util::task::TaskTracker;
use tower::ServiceExt;

use crate::metrics::Why;
use crate::rate_limit::ConcurrencyLimit;
use crate::router::router;
use crate::settings::Settings;
use crate::slow_clients::{TimedBody, WriteTimeout};
use crate::state::{App, Shared};

/// How long a TLS handshake may take.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// How often idle sessions are looked for.
const TIDY_EVERY: Duration = Duration::from_mins(1);
/// How long to wait after the system could not accept a connection.
const BREATHE: Duration = Duration::from_millis(50);

/// The parts of a server.
pub struct Server {
    pub engine: Engine,
    pub program: Arc<dyn Program>,
    pub settings: Settings,
    pub tls: Option<Arc<ServerConfig>>,
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server").field("settings", &self.settings).finish_non_exhaustive()
    }
}

impl Server {
    /// Serves until `ended`. Then requests are finished, turns are stopped and saved, and streams are closed.
    pub async fn run(
        self,
        listener: TcpListener,
        ended: impl Future<Output = ()> + Send,
    ) -> Result<(), rethread_engine::Error> {
        let app = Shared::new(self.engine, self.program, self.settings);
        let app = app.map_err(|error| {
            rethread_engine::Error::Settings(format!("the system gives no threads: {error}"))
        })?;
        let head = app.engine.feed_head().await?;
        let follows = tokio::spawn(Arc::clone(&app).follow_log(head));
        let tidies = tokio::spawn(tidy(Arc::clone(&app)));
        let routes = router(&app);
        let open = TaskTracker::new();
        let bounds = &app.settings.bounds;
        let room = Arc::new(Semaphore::new(bounds.connections));
        let limit = ConcurrencyLimit::new(bounds.connections, bounds.connections_each);
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
            let Some(seat) = limit.take(&site_of(address.ip())) else {
                refuse(&app, &stream, tls.is_some());
                continue;
            };
            let connection = Connection { app: Arc::clone(&app), routes: routes.clone(), address };
            let tls = tls.clone();
            open.spawn(async move {
                connection.serve(stream, tls).await;
                drop((permit, seat));
            });
        }
        drop(listener);
        tracing::info!("stopping");
        app.stop.cancel();
        let drain = app.settings.bounds.drain;
        let turns = app.turns.stop();
        open.close();
        // A client that does not read its response is not waited for.
        drop(tokio::time::timeout(drain, async { tokio::join!(open.wait(), turns) }).await);
        follows.abort();
        tidies.abort();
        tracing::info!("stopped");
        Ok(())
    }
}

type Taken = (TcpStream, SocketAddr, tokio::sync::OwnedSemaphorePermit);

/// The next connection, once there is room for it.
async fn take(listener: &TcpListener, room: &Arc<Semaphore>) -> Option<Taken> {
    let permit = Arc::clone(room).acquire_owned().await.ok()?;
    let (stream, address) = listener.accept().await.ok()?;
    // Small responses are sent at once (`TCP_NODELAY`).
    drop(stream.set_nodelay(true));
    Some((stream, address, permit))
}

/// Whose connections are counted together: an IPv4 address, or an IPv6 network.
fn site_of(address: IpAddr) -> String {
    match address.to_canonical() {
        IpAddr::V4(address) => address.to_string(),
        IpAddr::V6(address) => {
            let network = address.to_bits() >> 64 << 64;
            format!("{}/64", Ipv6Addr::from_bits(network))
        }
    }
}

/// The response to a connection beyond the limit. It is written without waiting, so that it cannot hold up others.
const REFUSAL: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/problem+json\r\n\
Connection: close\r\nRetry-After: 1\r\nContent-Length: 184\r\n\r\n\
{\"type\":\"about:blank\",\"title\":\"Too many connections\",\"status\":503,\"code\":\"too_many_connections\",\
\"detail\":\"this address has too many connections\",\"hint\":\"close some, or use them again\"}";

fn refuse(app: &App, stream: &TcpStream, is_tls: bool) {
    let code = "too_many_connections".to_owned();
    app.metrics.refusals.get_or_create(&Why { code }).inc();
    if !is_tls {
        // If the client does not take it, the connection is closed all the same.
        drop(stream.try_write(REFUSAL));
    }
}

async fn tidy(app: App) {
    loop {
        tokio::time::sleep(TIDY_EVERY).await;
        app.engine.tidy(app.settings.idle).await.or_log("idle sessions could not be paused");
        app.keep_up().await;
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
            routes.clone().oneshot(request.map(|body| Body::new(TimedBody::new(body, patience))))
        });
        let connection = hyper::server::conn::http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(bounds.patience)
            .max_buf_size(bounds.header_bytes.max(8_192))
            .max_headers(64)
            .serve_connection(TokioIo::new(WriteTimeout::new(stream, bounds.slowness)), service)
            .with_upgrades();
        tokio::pin!(connection);
        // A client that disconnects early is not an error.
        tokio::select! {
            over = connection.as_mut() => drop(over),
            () = app.stop.cancelled() => {
                connection.as_mut().graceful_shutdown();
                // The same during shutdown.
                drop(connection.await);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_refusal_is_as_long_as_it_says() {
        let text = std::str::from_utf8(REFUSAL).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert!(head.contains(&format!("Content-Length: {}", body.len())), "{} bytes", body.len());
        let problem: serde_json::Value = serde_json::from_str(body).unwrap();
        assert_eq!(
            (&problem["status"], &problem["code"]),
            (&503.into(), &"too_many_connections".into())
        );
    }

    #[test]
    fn one_network_counts_as_one_address() {
        let of = |text: &str| site_of(text.parse().unwrap());
        assert_eq!(of("192.0.2.1"), of("::ffff:192.0.2.1"));
        assert_ne!(of("192.0.2.1"), of("192.0.2.2"));
        assert_eq!(of("2001:db8:1:2::1"), of("2001:db8:1:2:ffff::9"));
        assert_ne!(of("2001:db8:1:2::1"), of("2001:db8:1:3::1"));
    }
}
