//! Files and programs, inside of the project and outside of it.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::sync::Arc;

use rethread_domain::turn::Update;

use crate::world::{TestPermissions, World, answer, say, text};

#[tokio::test]
async fn files_of_the_project_are_read_and_written() {
    let world = World::new(&[]);
    let mut agent = world.open().await;
    let path = |name: &str| world.path(name).display().to_string();
    assert_eq!(answer(&mut *agent, &format!("write: {}=one", path("a/b/c.txt"))).await, "written");
    assert_eq!(fs::read_to_string(world.path("a/b/c.txt")).unwrap(), "one");
    assert_eq!(answer(&mut *agent, &format!("read: {}", path("a/b/c.txt"))).await, "one");
    assert_eq!(answer(&mut *agent, &format!("read: {}", path("a/../a/b/c.txt"))).await, "one");
    // What is not there before stays as it is.
    fs::set_permissions(world.path("a/b/c.txt"), fs::Permissions::from_mode(0o640)).unwrap();
    answer(&mut *agent, &format!("write: {}=two", path("a/b/c.txt"))).await;
    let mode = fs::metadata(world.path("a/b/c.txt")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o640);
    assert_eq!(fs::read_dir(world.path("a/b")).unwrap().count(), 1, "something was left behind");
    // A link inside of the project is followed, and stays a link.
    symlink("a/b/c.txt", world.path("link")).unwrap();
    answer(&mut *agent, &format!("write: {}=three", path("link"))).await;
    assert!(world.path("link").is_symlink());
    assert_eq!(fs::read_to_string(world.path("a/b/c.txt")).unwrap(), "three");
    let missing = answer(&mut *agent, &format!("read: {}", path("none"))).await;
    assert!(missing.starts_with("error -32002"), "{missing}");
}

#[tokio::test]
async fn nothing_outside_of_the_project_is_touched() {
    let outside = tempfile::TempDir::new().unwrap();
    let secret = outside.path().join("secret");
    fs::write(&secret, "secret").unwrap();
    let world = World::new(&[]);
    let name = outside.path().file_name().unwrap().to_str().unwrap();
    symlink(&secret, world.path("link")).unwrap();
    symlink(outside.path(), world.path("folder")).unwrap();
    symlink(format!("../{name}/secret"), world.path("relative")).unwrap();
    symlink("/proc/self/root", world.path("magic")).unwrap();
    symlink(world.path("dangling-target"), world.path("dangling")).unwrap();
    let inside = |path: &str| world.path(path).display().to_string();
    let mut agent = world.open().await;
    let escapes = [
        secret.display().to_string(),
        inside("link"),
        inside("folder/secret"),
        inside("relative"),
        inside(&format!("../{name}/secret")),
        inside(&format!("x/../../{name}/secret")),
        inside(&format!("magic{}", secret.display())),
        format!("{}-beside", world.folder.path().display()),
        "secret".to_owned(),
        "../secret".to_owned(),
        "/etc/passwd".to_owned(),
        "/dev/zero".to_owned(),
        "/proc/self/environ".to_owned(),
        inside("."),
        inside(""),
        inside("dangling"),
    ];
    for path in escapes {
        let read = answer(&mut *agent, &format!("read: {path}")).await;
        assert!(read.starts_with("error "), "{path}: {read}");
        let written = answer(&mut *agent, &format!("write: {path}=overwritten")).await;
        assert!(written.starts_with("error "), "{path}: {written}");
    }
    assert_eq!(fs::read_to_string(&secret).unwrap(), "secret");
    assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 1);
}

#[tokio::test]
async fn what_git_runs_and_what_is_ours_needs_an_answer_of_its_own() {
    for (choose, is_yes) in [("reject_once", false), ("allow_once", true)] {
        let mut world = World::new(&[]);
        let permissions =
            TestPermissions { choose: Some(choose), may_act: true, ..TestPermissions::default() };
        world.permissions = Arc::new(permissions);
        world.launcher.protected = vec![world.path("store.db")];
        fs::create_dir_all(world.path(".git/hooks")).unwrap();
        fs::create_dir(world.path("sub")).unwrap();
        symlink(".git", world.path("link")).unwrap();
        symlink(".git/config", world.path("config")).unwrap();
        fs::write(world.path(".git/config"), "old").unwrap();
        fs::write(world.path("store.db"), "old").unwrap();
        fs::write(world.path("store.db.token"), "secret").unwrap();
        fs::hard_link(world.path("store.db.token"), world.path("innocent")).unwrap();
        let mut agent = world.open().await;
        let path = |name: &str| world.path(name).display().to_string();
        for name in [
            ".git/hooks/a",
            ".GIT/b",
            "link/hooks/c",
            "sub/../.git/d",
            "sub/.git",
            "config",
            "store.db",
        ] {
            let told = answer(&mut *agent, &format!("write: {}=new", path(name))).await;
            assert_eq!(told == "written", is_yes, "{name}: {told}");
            let text = fs::read_to_string(world.path(name)).unwrap_or_default();
            assert_eq!(text == "new", is_yes, "{name}");
            let asked = world.permissions.asked.lock().unwrap().pop().expect(name);
            assert!(asked.intent.details().iter().any(|detail| detail.label == "note"), "{name}");
        }
        let read = answer(&mut *agent, &format!("read: {}", path("store.db.token"))).await;
        assert_eq!(read == "secret", is_yes, "{read}");
        // Under another name it is still ours.
        let read = answer(&mut *agent, &format!("read: {}", path("innocent"))).await;
        assert!(read.starts_with("error "), "{read}");
        // What git only reads is as free as any file.
        assert_eq!(
            answer(&mut *agent, &format!("write: {}=x", path(".gitignore"))).await,
            "written"
        );
        let read = answer(&mut *agent, &format!("read: {}", path(".git/config"))).await;
        assert!(read == "old" || read == "new", "{read}");
    }
}

#[tokio::test]
async fn the_folder_of_the_repository_needs_an_answer_of_its_own_under_any_name() {
    let mut world = World::new(&[]);
    let permissions = TestPermissions {
        choose: Some("reject_once"),
        may_act: true,
        ..TestPermissions::default()
    };
    world.permissions = Arc::new(permissions);
    fs::create_dir_all(world.path("meta/hooks")).unwrap();
    fs::write(world.path(".git"), "gitdir: meta\n").unwrap();
    let mut agent = world.open().await;
    for name in ["meta/hooks/post-commit", "meta/config"] {
        let path = world.path(name).display().to_string();
        let told = answer(&mut *agent, &format!("write: {path}=new")).await;
        assert!(told.starts_with("error "), "{name}: {told}");
        assert!(!world.path(name).exists(), "{name}");
        assert!(world.permissions.asked.lock().unwrap().pop().is_some(), "{name}");
    }
}

#[tokio::test]
async fn a_file_with_other_names_is_not_written_through() {
    let outside = tempfile::TempDir::new().unwrap();
    let other = outside.path().join("other");
    fs::write(&other, "old").unwrap();
    let world = World::new(&[]);
    fs::hard_link(&other, world.path("hard")).unwrap();
    symlink("hard", world.path("soft")).unwrap();
    let mut agent = world.open().await;
    let write = |name: &str| format!("write: {}=new", world.path(name).display());
    let through = answer(&mut *agent, &write("soft")).await;
    assert!(through.contains("other names"), "{through}");
    assert_eq!(answer(&mut *agent, &write("hard")).await, "written");
    assert_eq!(fs::read_to_string(world.path("hard")).unwrap(), "new");
    assert_eq!(fs::read_to_string(&other).unwrap(), "old");
}

#[tokio::test]
async fn what_is_no_file_does_not_block() {
    let world = World::new(&[]);
    let fifo = world.path("fifo");
    let made = std::process::Command::new("mkfifo").arg(&fifo).status().unwrap();
    assert!(made.success());
    fs::create_dir(world.path("folder")).unwrap();
    fs::write(world.path("binary"), b"\xff\xfe").unwrap();
    fs::File::create(world.path("huge")).unwrap().set_len(17 * 1024 * 1024).unwrap();
    let mut agent = world.open().await;
    for name in ["fifo", "folder", "binary", "huge"] {
        let path = world.path(name).display().to_string();
        let read = answer(&mut *agent, &format!("read: {path}")).await;
        assert!(read.starts_with("error "), "{name}: {read}");
    }
    for name in ["fifo", "folder"] {
        let path = world.path(name).display().to_string();
        let written = answer(&mut *agent, &format!("write: {path}=x")).await;
        assert!(written.starts_with("error "), "{name}: {written}");
    }
}

#[tokio::test]
async fn nothing_is_changed_where_the_desk_forbids_it() {
    let mut world = World::new(&[]);
    world.permissions = Arc::new(TestPermissions::default());
    fs::write(world.path("a"), "a").unwrap();
    let mut agent = world.open().await;
    let path = world.path("a").display().to_string();
    assert_eq!(answer(&mut *agent, &format!("read: {path}")).await, "a");
    for prompt in [format!("write: {path}=b"), format!("run: touch {path}.b")] {
        let refused = answer(&mut *agent, &prompt).await;
        assert!(refused.starts_with("error "), "{prompt}: {refused}");
    }
    assert_eq!(fs::read_dir(world.folder.path()).unwrap().count(), 1);
    assert_eq!(fs::read_to_string(world.path("a")).unwrap(), "a");
}

#[tokio::test]
async fn a_program_runs_in_the_project() {
    let world = World::new(&[]);
    let mut agent = world.open().await;
    let folder = world.folder.path().canonicalize().unwrap().display().to_string();
    assert_eq!(answer(&mut *agent, "run: pwd -P").await.trim(), folder);
    let missing = answer(&mut *agent, "run: no-such-program").await;
    assert!(missing.starts_with("error "), "{missing}");
    let failed = answer(&mut *agent, "run: ls no-such-file").await;
    assert!(failed.contains("no-such-file"), "{failed}");
}

/// An agent that shows a terminal as the output of a tool call and lets go of it before the call is done.
const SHOWS_A_TERMINAL: &str = r#"
    say() { read line; echo "$1"; }
    call() { echo "{\"id\":$1,\"method\":\"terminal/$2\",\"params\":{\"sessionId\":\"s\",$3}}"; }
    say '{"id":1,"result":{"protocolVersion":1}}'
    say '{"id":2,"result":{"sessionId":"s"}}'
    read line
    call 90 create '"command":"echo","args":["hello"],"outputByteLimit":4'
    say '{"method":"session/update","params":{"update":{"sessionUpdate":"tool_call","toolCallId":"t","title":"echo","content":[{"type":"terminal","terminalId":"terminal-1"}]}}}'
    call 91 wait_for_exit '"terminalId":"terminal-1"'
    read exit
    call 92 release '"terminalId":"terminal-1"'
    read line
    echo "{\"method\":\"session/update\",\"params\":{\"update\":{\"sessionUpdate\":\"agent_message_chunk\",\"content\":\"$(echo "$exit" | tr -d '"')\"}}}"
    echo '{"id":3,"result":{"stopReason":"end_turn"}}'
    read line
"#;

#[tokio::test]
async fn the_output_of_a_terminal_belongs_to_the_tool_call_that_showed_it() {
    let world = World::with(vec!["/bin/sh".into(), "-c".into(), SHOWS_A_TERMINAL.into()]);
    let mut agent = world.open().await;
    let (ended, updates) = say(&mut *agent, "go").await;
    ended.unwrap();
    let last = updates.iter().rev().find_map(|update| match update {
        Update::Tool(tool) => tool.output.clone(),
        _ => None,
    });
    // Four bytes were asked for.
    assert_eq!(last.as_deref(), Some("llo\n"), "{updates:?}");
    assert!(text(&updates).contains("exitCode:0"), "{updates:?}");
}
