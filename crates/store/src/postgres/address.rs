//! From what an address says to what tokio-postgres is told: one way for each server that it names.

use std::time::Duration;

use tokio_postgres::Config;
use tokio_postgres::config::{self, TargetSessionAttrs};

use crate::url::{Address, ChannelBinding, Password, SslMode, Target};

/// How long the server lets things take, and what it does with a connection that nobody has any more.
const SETTINGS: &str = "-c search_path=rethread -c statement_timeout=30000 -c lock_timeout=10000 \
     -c idle_in_transaction_session_timeout=10000 -c client_connection_check_interval=2000 -c TimeZone=UTC -c jit=off \
     -c client_min_messages=warning";

/// The ways to the servers, in the order in which they are tried.
pub(super) fn ways(target: &Target) -> Vec<Config> {
    let addresses = target.addresses.iter().zip(&target.passwords);
    addresses
        .map(|((address, port), own)| {
            let mut config = Config::new();
            let is_socket = match address {
                Address::Socket(folder) => {
                    config.host_path(folder);
                    true
                }
                Address::Host(name, number) => {
                    config.host(name);
                    if let Some(number) = number {
                        config.hostaddr(*number);
                    }
                    false
                }
            };
            if let Some(Password(password)) = target.password.as_ref().or(own.as_ref()) {
                config.password(password);
            }
            // Of several servers, one is the primary.
            if target.addresses.len() > 1 {
                config.target_session_attrs(TargetSessionAttrs::ReadWrite);
            }
            let options = target.options.as_deref().unwrap_or_default();
            config
                .port(*port)
                .user(&target.user)
                .dbname(&target.database)
                .application_name(&target.application_name)
                .options(format!("{SETTINGS} {options}"))
                .ssl_mode(if is_socket { config::SslMode::Disable } else { ssl(target.ssl) })
                .channel_binding(binding(target.channel_binding))
                .connect_timeout(target.connect_timeout)
                .keepalives_idle(Duration::from_secs(5))
                .keepalives_interval(Duration::from_secs(2))
                .keepalives_retries(3)
                .tcp_user_timeout(Duration::from_secs(10));
            config
        })
        .collect()
}

/// What `verify-ca` and `verify-full` ask for beside, `tls.rs` looks at.
const fn ssl(mode: SslMode) -> config::SslMode {
    match mode {
        SslMode::Disable => config::SslMode::Disable,
        SslMode::Prefer => config::SslMode::Prefer,
        SslMode::Require | SslMode::VerifyCa | SslMode::VerifyFull => config::SslMode::Require,
    }
}

const fn binding(binding: ChannelBinding) -> config::ChannelBinding {
    match binding {
        ChannelBinding::Disable => config::ChannelBinding::Disable,
        ChannelBinding::Prefer => config::ChannelBinding::Prefer,
        ChannelBinding::Require => config::ChannelBinding::Require,
    }
}
