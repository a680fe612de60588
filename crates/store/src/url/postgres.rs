//! The address of a PostgreSQL store, with the parameters that libpq knows.

use std::collections::BTreeMap;
use std::fmt;

use super::target::Target;
use super::{passfile, service};
use crate::error::{Error, Result};

/// What may be said of a server, as libpq calls it, and the variable of the environment that says it where the address does not.
const PARAMETERS: &[(&str, &str)] = &[
    ("application_name", "PGAPPNAME"),
    ("channel_binding", "PGCHANNELBINDING"),
    ("connect_timeout", "PGCONNECT_TIMEOUT"),
    ("dbname", "PGDATABASE"),
    ("host", "PGHOST"),
    ("hostaddr", "PGHOSTADDR"),
    ("options", "PGOPTIONS"),
    ("passfile", "PGPASSFILE"),
    (PASSWORD, "PGPASSWORD"),
    ("port", "PGPORT"),
    (SERVICE, "PGSERVICE"),
    ("sslcert", "PGSSLCERT"),
    ("sslkey", "PGSSLKEY"),
    ("sslmode", "PGSSLMODE"),
    ("sslrootcert", "PGSSLROOTCERT"),
    ("user", "PGUSER"),
];

const PASSWORD: &str = "password";
const SERVICE: &str = "service";

/// A database of a PostgreSQL server. What is not said in it may be [filled in](Self::or).
#[derive(Clone, PartialEq, Eq)]
pub struct PostgresUrl {
    /// By the names that libpq gives them. Lists of hosts and ports are separated by commas.
    said: BTreeMap<&'static str, String>,
}

impl PostgresUrl {
    /// Reads what comes after `postgres://`, or says what is wrong with it.
    pub(super) fn parse(text: &str) -> std::result::Result<Self, String> {
        let mut url = Self { said: BTreeMap::new() };
        let (place, query) = text.split_once('?').unwrap_or((text, ""));
        let (authority, database) = place.split_once('/').unwrap_or((place, ""));
        let hosts = match authority.split_once('@') {
            Some((login, hosts)) => {
                let (user, password) = login.split_once(':').unwrap_or((login, ""));
                url.say("user", decode(user)?);
                url.say(PASSWORD, decode(password)?);
                hosts
            }
            None => authority,
        };
        if hosts.contains('@') {
            return Err("write @ in a user name or a password as %40".to_owned());
        }
        let (names, ports) = hosts_and_ports(hosts)?;
        url.say("host", names);
        url.say("port", ports);
        if database.contains('/') {
            return Err("write / in a user name, a password or a name as %2F".to_owned());
        }
        url.say("dbname", decode(database)?);
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').ok_or("a parameter has no value")?;
            let name = decode(name)?;
            // As JDBC has it.
            let (name, value) = match (name.as_str(), value) {
                ("ssl", "true") => ("sslmode", "require".to_owned()),
                (name, value) => (name, decode(value)?),
            };
            url.say(known(name)?, value);
        }
        Target::of(&url)?;
        Ok(url)
    }

    /// The empty text says nothing.
    fn say(&mut self, name: &'static str, value: String) {
        if !value.is_empty() {
            self.said.insert(name, value);
        }
    }

    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.said.get(name).map(String::as_str)
    }

    /// With what variables of the environment say (`PGUSER`, `PGPASSFILE` and so on), where the address does not. A service has
    /// to be looked up before: what it says comes first.
    pub fn or_from(mut self, environment: impl Fn(&str) -> Option<String>) -> Result<Self> {
        for (name, variable) in PARAMETERS.iter().filter(|(name, _)| *name != SERVICE) {
            if self.get(name).is_none()
                && let Some(value) = environment(variable)
            {
                self.say(name, value);
            }
        }
        self.checked()
    }

    /// With this value of a parameter, where nothing was said of it.
    pub fn or(mut self, name: &str, value: &str) -> Result<Self> {
        let name = known(name).map_err(|why| self.bad(why))?;
        if self.get(name).is_none() {
            self.say(name, value.to_owned());
        }
        self.checked()
    }

    /// The service that is to be looked up in a file of services.
    pub fn service(&self) -> Option<&str> {
        self.get(SERVICE)
    }

    /// With what a file of services says of the service, where the address does not; nothing where it has no such service.
    pub fn or_service(mut self, file: &str) -> Result<Option<Self>> {
        let Some(service) = self.service() else { return Ok(Some(self)) };
        let Some(said) = service::find(file, service).map_err(|why| self.bad(why))? else {
            return Ok(None);
        };
        for (name, value) in said {
            let name = known(name).map_err(|why| self.bad(why))?;
            if self.get(name).is_none() {
                self.say(name, value.to_owned());
            }
        }
        self.said.remove(SERVICE);
        self.checked().map(Some)
    }

    fn checked(self) -> Result<Self> {
        Target::of(&self).map_err(|why| self.bad(why))?;
        Ok(self)
    }

    fn bad(&self, why: String) -> Error {
        Error::BadUrl { url: self.to_string(), why }
    }

    /// Where to connect to, with all that is needed for it. Reads the file of passwords, where there is need of one.
    pub(crate) fn target(&self) -> Result<Target> {
        if let Some(service) = self.service() {
            return Err(self.bad(format!("there is no service {service:?}")));
        }
        let mut target = Target::of(self).map_err(|why| self.bad(why))?;
        if target.user.is_empty() {
            return Err(self.bad("it names no user: postgres://USER@HOST/DATABASE".to_owned()));
        }
        if target.password.is_none()
            && let Some(file) = self.get("passfile")
        {
            passfile::fill(file.as_ref(), &mut target)?;
        }
        Ok(target)
    }

    /// A name for files that belong to this database: of server, port and database.
    pub fn file_name(&self) -> String {
        let parts =
            ["host", "port", "dbname", "user"].map(|name| self.get(name).unwrap_or_default());
        let plain = |c: char| if c.is_ascii_alphanumeric() || c == '.' { c } else { '_' };
        let name: String = parts.join("-").chars().map(plain).collect();
        // As long as names of files may be, with what follows.
        name.chars().take(150).collect()
    }

    /// The password that the address has itself.
    pub fn password(&self) -> Option<&str> {
        self.get(PASSWORD)
    }

    pub(super) fn with_password(&self) -> String {
        self.text(self.password())
    }

    fn text(&self, password: Option<&str>) -> String {
        let mut text = "postgres://".to_owned();
        if let Some(user) = self.get("user") {
            text.push_str(&encode(user));
        }
        if let Some(password) = password {
            text.push_str(&format!(":{}", encode(password)));
        }
        if self.get("user").is_some() || password.is_some() {
            text.push('@');
        }
        // Lists of hosts, and those that are folders, can be read where they stand by their names.
        let host = self.get("host").filter(|host| is_plain_host(host));
        let port = self.get("port").filter(|port| host.is_some() && !port.contains(','));
        text.push_str(host.unwrap_or_default());
        if let Some(port) = port {
            text.push_str(&format!(":{port}"));
        }
        text.push('/');
        text.push_str(&encode(self.get("dbname").unwrap_or_default()));
        let mut sign = '?';
        for (name, value) in &self.said {
            let is_said = match *name {
                "user" | "dbname" | PASSWORD => true,
                "host" => host.is_some(),
                "port" => port.is_some(),
                _ => false,
            };
            if !is_said {
                text.push_str(&format!("{sign}{name}={}", encode_but(value, "/,:")));
                sign = '&';
            }
        }
        text
    }
}

impl fmt::Display for PostgresUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text(None))
    }
}

impl fmt::Debug for PostgresUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("PostgresUrl").field(&self.to_string()).finish()
    }
}

fn known(name: &str) -> std::result::Result<&'static str, String> {
    PARAMETERS.iter().map(|(known, _)| *known).find(|known| *known == name).ok_or_else(|| {
        let names: Vec<&str> = PARAMETERS.iter().map(|(known, _)| *known).collect();
        // What stands there may be anything, a password too.
        format!("it has a parameter that is not known; known are {}", names.join(", "))
    })
}

/// Names and ports, each as a list.
fn hosts_and_ports(text: &str) -> std::result::Result<(String, String), String> {
    let mut names = Vec::new();
    let mut ports = Vec::new();
    for one in text.split(',') {
        let (name, port) = match one.strip_prefix('[') {
            Some(rest) => {
                let (address, rest) = rest.split_once(']').ok_or("an address lacks its ]")?;
                (address.to_owned(), rest.strip_prefix(':').unwrap_or(rest))
            }
            None => {
                let (name, port) = one.split_once(':').unwrap_or((one, ""));
                (decode(name)?, port)
            }
        };
        names.push(name);
        ports.push(port);
    }
    let is_said = ports.iter().any(|port| !port.is_empty());
    Ok((names.join(","), if is_said { ports.join(",") } else { String::new() }))
}

/// Whether a host can stand where hosts stand, as it is.
fn is_plain_host(host: &str) -> bool {
    host.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_'))
}

fn decode(text: &str) -> std::result::Result<String, String> {
    let bad = || "a % is not followed by two hexadecimal digits (write % itself as %25)".to_owned();
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'%' => {
                let mut digit = || rest.next().and_then(|byte| char::from(byte).to_digit(16));
                let (high, low) = (digit().ok_or_else(bad)?, digit().ok_or_else(bad)?);
                u8::try_from(high * 16 + low).map_err(|_| bad())?
            }
            byte => byte,
        });
    }
    let text = String::from_utf8(bytes).map_err(|_| "it is not valid UTF-8".to_owned())?;
    if text.contains('\0') { Err("it has a NUL".to_owned()) } else { Ok(text) }
}

/// As it may stand anywhere in an address.
fn encode(text: &str) -> String {
    encode_but(text, "")
}

fn encode_but(text: &str, kept: &str) -> String {
    let mut encoded = String::new();
    for byte in text.bytes() {
        let c = char::from(byte);
        if c.is_ascii_alphanumeric() || "-_.~".contains(c) || kept.contains(c) {
            encoded.push(c);
        } else {
            encoded.push_str(&format!("%{byte:02X}"));
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::target::{Address, ChannelBinding, Password, Roots, SslMode};
    use super::*;
    use crate::StoreUrl;

    fn read(text: &str) -> PostgresUrl {
        let StoreUrl::Postgres(url) = text.parse().unwrap() else { panic!("{text}") };
        url
    }

    fn host(name: &str) -> Address {
        Address::Host(name.to_owned(), None)
    }

    #[test]
    fn an_address_says_where_and_who() {
        let url = concat!("postgresql://anna:", "p%40ss%2Fword@db.example:6432/work");
        let target = read(url).target().unwrap();
        assert_eq!(target.addresses, [(host("db.example"), 6432)]);
        assert_eq!((target.user.as_str(), target.database.as_str()), ("anna", "work"));
        assert_eq!(target.password, Some(Password("p@ss/word".to_owned())));
        assert_eq!((target.ssl, target.roots), (SslMode::Require, Roots::System));
        assert_eq!(target.application_name, "rethread");
    }

    #[test]
    fn several_servers_sockets_and_numbers_are_told_apart() {
        let several = read("postgres://anna@a:1,[::1]:2/work").target().unwrap();
        assert_eq!(several.addresses, [(host("a"), 1), (host("::1"), 2)]);
        for url in ["postgres://anna@/w?host=/run/x&port=7", "postgres://anna@%2Frun%2Fx:7/w"] {
            let socket = read(url).target().unwrap();
            assert_eq!(socket.addresses, [(Address::Socket("/run/x".into()), 7)]);
        }
        let number = read("postgres://anna@db/w?hostaddr=10.0.0.1").target().unwrap();
        let address = Address::Host("db".to_owned(), Some([10, 0, 0, 1].into()));
        assert_eq!(number.addresses, [(address, 5432)]);
    }

    #[test]
    fn a_server_elsewhere_is_reached_over_tls_if_nothing_else_is_said() {
        let mode = |url: &str| read(url).target().unwrap().ssl;
        assert_eq!(mode("postgres://a@db/w"), SslMode::Require);
        assert_eq!(mode("postgres://a@127.0.0.1/w"), SslMode::Prefer);
        assert_eq!(mode("postgres://a@localhost,db/w"), SslMode::Require);
        assert_eq!(mode("postgres://a@db/w?sslmode=disable"), SslMode::Disable);
        assert_eq!(mode("postgres://a@db/w?sslmode=verify-full"), SslMode::VerifyFull);
        assert_eq!(mode("postgres://a@db/w?ssl=true"), SslMode::Require);
    }

    #[test]
    fn parameters_are_those_of_libpq() {
        let target = read(
            "postgres://a@db/w?application_name=us%20two&connect_timeout=9&channel_binding=require\
             &sslrootcert=/ca.pem&sslcert=/own.pem&sslkey=/own.key&options=-c%20x%3D1",
        )
        .target()
        .unwrap();
        assert_eq!(target.application_name, "us two");
        assert_eq!(target.connect_timeout, Duration::from_secs(9));
        assert_eq!(target.channel_binding, ChannelBinding::Require);
        assert_eq!(target.roots, Roots::File("/ca.pem".into()));
        assert_eq!(target.certificate, Some(("/own.pem".into(), "/own.key".into())));
        assert_eq!(target.options.as_deref(), Some("-c x=1"));
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (url, why) in [
            ("postgres://a@db:x/w", "a port is"),
            ("postgres://a@db:0/w", "a port is"),
            ("postgres://a:p@q@db/w", "%40"),
            ("postgres://a:p/q@db/w", "%2F"),
            ("postgres://a@db/w?sslmode=no", "sslmode is"),
            ("postgres://a@db/w?sslcert=/x", "belong together"),
            ("postgres://a@db/w?colour=red", "known are"),
            ("postgres://a@db/w?user", "no value"),
            ("postgres://a@b,c:1,d:2/w?hostaddr=1.2.3.4", "same number"),
            ("postgres://a@db/%zz", "hexadecimal"),
            ("postgres://a@[::1/w", "]"),
        ] {
            let told = url.parse::<StoreUrl>().unwrap_err().to_string();
            assert!(told.contains(why), "{url}: {told}");
        }
        let nobody = read("postgres://db/w").target().unwrap_err().to_string();
        assert!(nobody.contains("names no user"), "{nobody}");
    }

    #[test]
    fn what_is_shown_has_no_password_and_what_is_handed_on_has() {
        let url = read(concat!(
            "postgresql://anna:",
            "p%40ss@[::1]:5433/a%2Fb?sslmode=require&password=",
            "new%21"
        ));
        let shown = "postgres://anna@/a%2Fb?host=::1&port=5433&sslmode=require";
        assert_eq!(url.to_string(), shown);
        assert_eq!(format!("{url:?}"), format!("PostgresUrl({shown:?})"));
        assert!(!format!("{:?}", url.target().unwrap()).contains("new!"));
        assert_eq!(read(&url.with_password()), url);
        assert_eq!(url.password(), Some("new!"));
        let plain = "postgres://anna@db:5433/work";
        assert_eq!(read(plain).to_string(), plain);
    }

    #[test]
    fn an_address_comes_before_a_service_and_that_before_the_environment() {
        let file = "# ours\n[other]\nuser=bert\n[work]\nhost=db\nuser = carl\n\n[work]\nuser=x\n";
        let url = read("postgres:///main?service=work");
        assert!(url.target().unwrap_err().to_string().contains("no service"));
        assert_eq!(url.clone().or_service("[other]\n").unwrap(), None);
        let url = url.or_service(file).unwrap().unwrap();
        let environment = |name: &str| match name {
            "PGUSER" => Some("dora".to_owned()),
            "PGPORT" => Some("7".to_owned()),
            "PGSERVICE" => Some("other".to_owned()),
            _ => None,
        };
        let target = url.or_from(environment).unwrap().target().unwrap();
        assert_eq!((target.user.as_str(), target.database.as_str()), ("carl", "main"));
        assert_eq!(target.addresses, [(host("db"), 7)]);
        let bad = read("postgres://anna@db/w").or_from(|_| Some("?".to_owned()));
        assert!(bad.is_err());
    }
}
