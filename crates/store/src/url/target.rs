//! What an address comes to: where the server is, who asks, and how the connection is kept from others.

use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use super::postgres::PostgresUrl;

const PORT: u16 = 5432;
/// Where the server of the same machine listens, if nothing else is said.
const USUAL_SOCKETS: &str = "/var/run/postgresql";
const USUAL_NAME: &str = "rethread";
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Where to connect to, and as whom.
#[derive(Debug, Clone)]
pub(crate) struct Target {
    /// At least one; the first that can be used is.
    pub(crate) addresses: Vec<(Address, u16)>,
    /// Empty where none is named.
    pub(crate) user: String,
    pub(crate) database: String,
    /// The one that is said in the address goes to all servers.
    pub(crate) password: Option<Password>,
    /// Those of the file of passwords, one for each address.
    pub(crate) passwords: Vec<Option<Password>>,
    pub(crate) ssl: SslMode,
    pub(crate) roots: Roots,
    /// A certificate of our own, and its key.
    pub(crate) certificate: Option<(PathBuf, PathBuf)>,
    pub(crate) channel_binding: ChannelBinding,
    pub(crate) application_name: String,
    pub(crate) connect_timeout: Duration,
    pub(crate) options: Option<String>,
}

/// A server: a folder with its socket, or a name with the address that it has, where that is said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Address {
    Socket(PathBuf),
    Host(String, Option<IpAddr>),
}

impl Address {
    /// Whether nobody is in between.
    fn is_on_this_machine(&self) -> bool {
        match self {
            Self::Socket(_) => true,
            Self::Host(_, Some(address)) => address.is_loopback(),
            Self::Host(name, None) => {
                name == "localhost"
                    || name.parse().is_ok_and(|address: IpAddr| address.is_loopback())
            }
        }
    }
}

/// A password, which nothing shows.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Password(pub(crate) String);

impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Password")
    }
}

/// As libpq has it. What is not said is `require`, unless the server is on this machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SslMode {
    Disable,
    Prefer,
    Require,
    VerifyCa,
    VerifyFull,
}

/// Whose certificates are believed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Roots {
    System,
    File(PathBuf),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ChannelBinding {
    Disable,
    Prefer,
    Require,
}

impl Target {
    /// What an address says, with what is usual where it says nothing; or what is wrong with it.
    pub(super) fn of(url: &PostgresUrl) -> Result<Self, String> {
        let user = url.get("user").unwrap_or_default().to_owned();
        let database = url.get("dbname").map_or_else(|| user.clone(), str::to_owned);
        let addresses = addresses(url)?;
        let is_near = addresses.iter().all(|(address, _)| address.is_on_this_machine());
        let roots = match url.get("sslrootcert") {
            None | Some("system") => Roots::System,
            Some(file) => Roots::File(file.into()),
        };
        let certificate = match (url.get("sslcert"), url.get("sslkey")) {
            (Some(certificate), Some(key)) => Some((certificate.into(), key.into())),
            (None, None) => None,
            _ => return Err("sslcert and sslkey belong together".to_owned()),
        };
        let wait = url.get("connect_timeout").map(|seconds| {
            let bad = |_| "connect_timeout is not a number of seconds".to_owned();
            seconds.parse().map_err(bad).map(Duration::from_secs)
        });
        Ok(Self {
            passwords: vec![None; addresses.len()],
            addresses,
            user,
            database,
            password: url.password().map(|password| Password(password.to_owned())),
            ssl: ssl(url.get("sslmode"), is_near)?,
            roots,
            certificate,
            channel_binding: channel_binding(url.get("channel_binding"))?,
            application_name: url.get("application_name").unwrap_or(USUAL_NAME).to_owned(),
            // Nobody waits for ever, as 0 would mean.
            connect_timeout: wait
                .transpose()?
                .filter(|wait| !wait.is_zero())
                .unwrap_or(CONNECT_TIMEOUT),
            options: url.get("options").map(str::to_owned),
        })
    }
}

fn ssl(said: Option<&str>, is_near: bool) -> Result<SslMode, String> {
    Ok(match said {
        Some("disable") => SslMode::Disable,
        // Whoever lets a plain connection pass has nothing against one that is not.
        Some("allow" | "prefer") => SslMode::Prefer,
        Some("require") => SslMode::Require,
        Some("verify-ca") => SslMode::VerifyCa,
        Some("verify-full") => SslMode::VerifyFull,
        Some(_) => {
            return Err("sslmode is disable, prefer, require, verify-ca or verify-full".to_owned());
        }
        None if is_near => SslMode::Prefer,
        None => SslMode::Require,
    })
}

fn channel_binding(said: Option<&str>) -> Result<ChannelBinding, String> {
    Ok(match said {
        Some("disable") => ChannelBinding::Disable,
        None | Some("prefer") => ChannelBinding::Prefer,
        Some("require") => ChannelBinding::Require,
        Some(_) => return Err("channel_binding is disable, prefer or require".to_owned()),
    })
}

fn addresses(url: &PostgresUrl) -> Result<Vec<(Address, u16)>, String> {
    let list = |name| -> Vec<&str> {
        url.get(name).map(|list| list.split(',').collect()).unwrap_or_default()
    };
    let (names, numbers, ports) = (list("host"), list("hostaddr"), list("port"));
    let count = names.len().max(numbers.len()).max(1);
    let fits = |length: usize| length == 0 || length == count;
    if !fits(names.len()) || !fits(numbers.len()) || !(fits(ports.len()) || ports.len() == 1) {
        return Err("its hosts and ports are not of the same number".to_owned());
    }
    (0..count)
        .map(|n| {
            let number = numbers.get(n).copied().filter(|number| !number.is_empty());
            let number = number.map(|number| {
                number.parse::<IpAddr>().map_err(|_| "hostaddr is not an IP address".to_owned())
            });
            let name = names.get(n).copied().unwrap_or_default();
            let port = ports.get(n).or(ports.first()).copied().unwrap_or_default();
            Ok((address(name, number.transpose()?), self::port(port)?))
        })
        .collect()
}

fn address(name: &str, number: Option<IpAddr>) -> Address {
    match (name, number) {
        ("", Some(number)) => Address::Host(number.to_string(), Some(number)),
        ("", None) if std::path::Path::new(USUAL_SOCKETS).is_dir() => {
            Address::Socket(USUAL_SOCKETS.into())
        }
        ("", None) => Address::Host("localhost".to_owned(), None),
        (folder, None) if folder.starts_with('/') => Address::Socket(folder.into()),
        (name, number) => Address::Host(name.to_owned(), number),
    }
}

fn port(text: &str) -> Result<u16, String> {
    if text.is_empty() {
        return Ok(PORT);
    }
    let number = text.parse().ok().filter(|number| *number > 0);
    number.ok_or_else(|| "a port is a number from 1 to 65535".to_owned())
}
