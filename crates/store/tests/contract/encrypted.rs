//! The way to a PostgreSQL server over the network.

use std::os::unix::fs::PermissionsExt as _;

use futures::executor::block_on;
use rethread_domain::SessionId;
use rethread_store::{Result, Store, open};
use rethread_testkit::postgres::Encrypted;
use rethread_testkit::{at, beginning};

const PASSWORD: &str = "p@ss/word!";

fn opened(url: &str) -> Result<std::sync::Arc<dyn Store>> {
    block_on(open(&url.parse().unwrap()))
}

#[test]
fn it_is_encrypted_and_the_server_is_who_it_says_as_far_as_that_is_asked_for() {
    let server = Encrypted::new("anna", PASSWORD);
    let port = server.port();
    let root = format!("sslrootcert={}", server.root().display());
    let own = format!("sslrootcert={}", server.certificate().display());
    let login = "anna:p%40ss%2Fword%21";
    let at_home = format!("postgres://{login}@localhost:{port}/sessions");
    let elsewhere = format!("postgres://{login}@db.example:{port}/sessions?hostaddr=127.0.0.1");
    for url in [
        at_home.clone(),
        format!("{at_home}?sslmode=require&channel_binding=require"),
        format!("{at_home}?sslmode=verify-full&{root}"),
        format!("{at_home}?sslmode=verify-full&{own}"),
        format!("postgres://{login}@127.0.0.1:{port}/sessions?sslmode=verify-full&{root}"),
        elsewhere.clone(),
        format!("{elsewhere}&sslmode=verify-ca&{root}"),
        format!("{elsewhere}&sslmode=verify-ca&{own}"),
        // The first server that takes a connection is used.
        format!("postgres://{login}@127.0.0.1,localhost/sessions?port=1,{port}&sslmode=require"),
    ] {
        let store = opened(&url).unwrap_or_else(|error| panic!("{url}: {error}"));
        block_on(store.start(SessionId::generate(), beginning(), at(0))).unwrap();
    }
    for (url, why) in [
        (format!("{at_home}?sslmode=disable"), "no encryption"),
        (format!("{at_home}?sslmode=verify-full"), "UnknownIssuer"),
        (format!("{elsewhere}&sslmode=verify-full&{root}"), "not valid for name"),
        (format!("{elsewhere}&sslmode=verify-full&{own}"), "not valid for name"),
        (at_home.replace("word", "sword"), "password authentication failed"),
        (format!("{at_home}?sslmode=require&sslrootcert=/nowhere"), "/nowhere"),
    ] {
        let told = opened(&url).err().map(|error| error.to_string()).unwrap_or_default();
        assert!(told.contains(why) && !told.contains("word!"), "{url}: {told}");
    }
}

#[test]
fn the_password_may_be_in_a_file_that_nobody_else_can_read() {
    let server = Encrypted::new("anna", PASSWORD);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("passwords");
    let port = server.port();
    std::fs::write(&file, format!("localhost:{port}:sessions:anna:{PASSWORD}\n")).unwrap();
    let url = format!("postgres://anna@localhost:{port}/sessions?passfile={}", file.display());
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o640)).unwrap();
    assert!(opened(&url).err().unwrap().to_string().contains("chmod 600"));
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
    drop(opened(&url).unwrap());
    assert!(opened(&url.replace("localhost", "127.0.0.1")).is_err(), "it is of another host");
}
