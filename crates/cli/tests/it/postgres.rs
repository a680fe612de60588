//! A store on a PostgreSQL server, as it is used from the command line.

use serde_json::json;

use crate::env::TestEnv;

const SECRET: &str = "quite-secret-words";

#[test]
fn commands_work_on_it_as_on_a_file() {
    let env = TestEnv::on_postgres();
    let id = env.basket();
    let before = env.messages(&id);
    assert!(env.data(["list"]).contains("basket"));
    assert_eq!(env.json(["search", "basket"])[0]["session_id"], id.as_str());
    assert!(env.data(["context", &id, "--prompt", "Where is the basket?"]).contains("basket"));
    env.data(["rename", &id, "The lost basket"]);
    let fork = env.data(["fork", &id]);
    assert_eq!(env.messages(fork.trim()).len(), before.len());
    env.data(["pause", &id]);
    env.data(["delete", fork.trim()]);
    assert_eq!(env.messages(&id), before);
    env.assert_sound();
}

#[test]
fn a_backup_is_a_file_that_can_be_used_where_it_is() {
    let env = TestEnv::on_postgres();
    let id = env.basket();
    env.data(["backup", "copy.db"]);
    let copy = TestEnv::with_store(&env.path("project/copy.db"));
    assert_eq!(copy.messages(&id), env.messages(&id));
    copy.assert_sound();
    let output = env.run(["restore", "copy.db"]);
    assert_eq!(output.code, Some(1), "{output}");
    assert!(output.stderr.contains("--store sqlite:FILE"), "{output}");
}

#[test]
fn the_password_of_a_store_is_shown_nowhere() {
    let env = TestEnv::new();
    let nowhere = env.path("nowhere");
    let url = format!("postgres://anna:{SECRET}@/sessions?host={}", nowhere.display());
    for args in
        [&["list"][..], &["doctor"], &["doctor", "--json"], &["backup", "x"], &["restore", "x"]]
    {
        let mut command = env.command(args);
        command.env("RETHREAD_STORE", &url).env("RETHREAD_LOG", "trace");
        let output = env.finish(command, b"");
        assert_ne!(output.code, Some(0), "{output}");
        assert!(!output.to_string().contains(SECRET), "{output}");
        assert!(output.stderr.contains("postgres://anna@/sessions?host="), "{output}");
    }
    let mut command = env.command(["mcp", "install", "--client", "claude"]);
    command.env("RETHREAD_STORE", &url);
    let output = env.finish(command, b"");
    assert!(output.stderr.contains("others would see the password"), "{output}");
    let noted = env.tree().into_iter().map(|(path, _)| env.path(path.to_str().unwrap()));
    for file in noted.filter(|path| path.is_file()) {
        let bytes = std::fs::read(&file).unwrap();
        let is_there = bytes.windows(SECRET.len()).any(|part| part == SECRET.as_bytes());
        assert!(!is_there, "{}", file.display());
    }
}

#[test]
fn what_the_environment_and_the_file_of_passwords_say_is_used() {
    let env = TestEnv::on_postgres();
    let id = env.record(["--title", "Basket"], &[json!({"role": "user", "content": "Hello"})]);
    let url = env.url();
    let (database, socket) = url.split_once("@/").unwrap().1.split_once("?host=").unwrap();
    let list = |variables: &[(&str, &str)], address: &str| {
        let mut command = env.command(["list", "--json"]);
        command.env("RETHREAD_STORE", address).envs(variables.iter().copied());
        env.finish(command, b"")
    };
    let by_variables = [("PGHOST", socket), ("PGUSER", "rethread"), ("PGDATABASE", database)];
    assert!(list(&by_variables, "postgres://").succeeded().text().contains(&id));
    let services = format!("[sessions]\nhost={socket}\nuser=rethread\ndbname={database}\n");
    std::fs::write(env.path("home/.pg_service.conf"), services).unwrap();
    assert!(list(&[], "postgres://?service=sessions").succeeded().text().contains(&id));
    list(&[], "postgres://?service=other").assert_error(2, "bad_input");
    let passwords = env.path("home/.pgpass");
    std::fs::write(&passwords, "*:*:*:*:x\n").unwrap();
    let output = list(&[], &url);
    output.assert_error(1, "store_not_open");
    assert!(output.stderr.contains("chmod 600"), "{output}");
}

#[test]
fn settings_are_shown_without_the_password_in_them() {
    let env = TestEnv::new();
    for (url, shown) in [
        (format!("postgres://anna:{SECRET}@here/sessions"), "postgres://anna@here/sessions"),
        (format!("mysql://anna:{SECRET}@here/sessions"), "(not a valid address)"),
        ("sqlite:/a/store.db".to_owned(), "sqlite:/a/store.db"),
    ] {
        env.set("store", format!("url = {url:?}"));
        for args in [&["show"][..], &["show", "--json"], &["show", "store.url"]] {
            let output = env.data([&["config"], args].concat());
            assert!(output.contains(shown) && !output.contains(SECRET), "{output}");
        }
    }
}
