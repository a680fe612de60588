//! Which files need an answer of their own, by whatever name or way.

use super::*;

#[test]
fn what_git_runs_and_what_is_ours_is_warded() {
    let home = tempfile::TempDir::new().unwrap();
    let at = |name: &str| without_links(&home.path().join(name));
    std::fs::create_dir(at("data")).unwrap();
    std::fs::write(at("store.db"), "").unwrap();
    std::os::unix::fs::symlink(at(".git"), at("link")).unwrap();
    std::fs::create_dir(at(".git")).unwrap();
    let ward = ProtectedPaths::new(&[at("data"), at("store.db")]);
    for (name, read, write) in [
        ("src/a.rs", false, false),
        (".git/config", false, true),
        (".GIT/hooks/pre-commit", false, true),
        ("sub/.git", false, true),
        ("link/config", false, true),
        (".gitignore", false, false),
        ("store.db", true, true),
        ("store.db.token", true, true),
        ("store.db-wal", true, true),
        ("data/agents.json", true, true),
        ("database", false, false),
    ] {
        let path = at(name);
        assert_eq!(ward.why(&path, Access::Read).is_some(), read, "{name}");
        assert_eq!(ward.why(&path, Access::Write).is_some(), write, "{name}");
    }
}

#[test]
fn the_folder_of_the_repository_is_warded_under_any_name() {
    let home = tempfile::TempDir::new().unwrap();
    let at = |name: &str| without_links(&home.path().join(name));
    for folder in ["p/meta/worktrees/w", "p/src", "p/w"] {
        std::fs::create_dir_all(at(folder)).unwrap();
    }
    std::fs::write(at("p/.git"), format!("gitdir: {}\n", at("p/meta").display())).unwrap();
    std::fs::write(at("p/w/.git"), "gitdir: ../meta/worktrees/w\n").unwrap();
    std::fs::write(at("p/meta/worktrees/w/commondir"), "../..\n").unwrap();
    for project in ["p", "p/src", "p/w"] {
        let ward = ProtectedPaths::default().with_repository_of(&at(project));
        for (name, is_warded) in [
            ("p/meta/hooks/post-commit", true),
            ("p/meta/config", true),
            ("p/meta/worktrees/w/HEAD", true),
            ("p/metadata", false),
            ("p/src/a.rs", false),
        ] {
            let path = at(name);
            assert_eq!(ward.why(&path, Access::Write).is_some(), is_warded, "{project} {name}");
            assert_eq!(ward.why(&path, Access::Read), None, "{project} {name}");
        }
    }
    let ward = ProtectedPaths::default().with_repository_of(&at("p"));
    for (line, count) in [("echo x > meta/hooks/post-commit", 1), ("cat src/meta", 0)] {
        let mut intent = Intent { command: Some(line.into()), ..Intent::default() };
        ward.note(&mut intent, &at("p"));
        assert_eq!(intent.warnings.len(), count, "{line}");
    }
    // What leads nowhere protects nothing else.
    std::fs::write(at("p/.git"), "gitdir:\n").unwrap();
    let ward = ProtectedPaths::default().with_repository_of(&at("p"));
    assert_eq!(ward.why(&at("p/src/a.rs"), Access::Write), None);
}

#[test]
fn a_file_is_judged_by_its_real_path() {
    let project = tempfile::TempDir::new().unwrap();
    let root = project.path().canonicalize().unwrap();
    std::fs::create_dir_all(root.join("src")).unwrap();
    std::fs::create_dir(root.join("secrets")).unwrap();
    std::fs::write(root.join("secrets/key"), "").unwrap();
    std::os::unix::fs::symlink("../secrets", root.join("src/link")).unwrap();
    std::os::unix::fs::symlink("../secrets/key", root.join("src/key")).unwrap();
    std::os::unix::fs::symlink("/etc", root.join("src/outside")).unwrap();
    // Links to what is not there yet, one of them by way of another, and one that leads to itself.
    std::os::unix::fs::symlink("../.git/hooks/pre-push", root.join("src/notes")).unwrap();
    std::os::unix::fs::symlink("notes", root.join("src/more")).unwrap();
    std::os::unix::fs::symlink("loop", root.join("src/loop")).unwrap();
    let noted = |kind: &str, path: &str| {
        let paths = vec![path.to_owned()];
        let mut intent = Intent { kind: kind.into(), paths, ..Intent::default() };
        ProtectedPaths::default().note(&mut intent, &root);
        assert_eq!(intent.warnings.len(), usize::from(intent.paths[0] != path));
        intent.paths.remove(0)
    };
    for (path, found) in [
        ("src/a.rs", "src/a.rs"),
        ("src/new/a.rs", "src/new/a.rs"),
        ("src/../secrets/key", "secrets/key"),
        ("src/link/key", "secrets/key"),
        ("src/link/new", "secrets/new"),
        ("src/key", "secrets/key"),
        ("src/outside/passwd", "/etc/passwd"),
        ("src/..", "."),
        ("src/notes", ".git/hooks/pre-push"),
        ("src/more", ".git/hooks/pre-push"),
        ("src/loop", "src/loop"),
    ] {
        assert_eq!(noted("edit", path), found, "{path}");
        assert_eq!(noted("read", path), found, "{path}");
    }
    let noted_folder = |folder: &str| {
        let (command, folder) = (Some("./check.sh".to_owned()), Some(folder.to_owned()));
        let mut intent = Intent { command, folder, ..Intent::default() };
        ProtectedPaths::default().note(&mut intent, &root);
        intent.folder.unwrap()
    };
    assert_eq!(noted_folder("src"), "src");
    assert_eq!(noted_folder("src/outside"), "/etc");
    assert_eq!(noted("delete", "src/key"), "src/key");
    assert_eq!(noted("delete", "src/link/key"), "secrets/key");
}

#[test]
fn only_what_reads_is_taken_for_reading() {
    let root = tempfile::TempDir::new().unwrap();
    let root = root.path().canonicalize().unwrap();
    for (kind, is_guarded) in [
        ("read", false),
        ("search", false),
        ("edit", true),
        ("move", true),
        ("fetch", true),
        ("other", true),
    ] {
        let paths = vec![".git/hooks/pre-commit".to_owned()];
        let mut intent = Intent { kind: kind.into(), paths, ..Intent::default() };
        ProtectedPaths::default().note(&mut intent, &root);
        assert_eq!(!intent.guarded.is_empty(), is_guarded, "{kind}");
    }
    let home = std::env::home_dir().unwrap();
    let ours = ProtectedPaths::new(&[home.join("rethread-settings.toml")]);
    let paths = vec!["~/rethread-settings.toml".to_owned()];
    let mut intent = Intent { kind: "read".into(), paths, ..Intent::default() };
    ours.note(&mut intent, &root);
    assert_eq!(intent.guarded.len(), 1);
}

#[test]
fn a_place_is_protected_whatever_the_argument_that_names_it_is_called() {
    let project = tempfile::TempDir::new().unwrap();
    let root = project.path().canonicalize().unwrap();
    let data = tempfile::TempDir::new().unwrap();
    let data = data.path().canonicalize().unwrap();
    std::fs::create_dir(root.join("sub")).unwrap();
    std::os::unix::fs::symlink("../.git", root.join("sub/link")).unwrap();
    let ward = ProtectedPaths::new(&[data.join("store.db")]);
    let store = data.join("store.db.token").display().to_string();
    let pattern = format!("{}/*", data.display());
    for (kind, text, is_guarded) in [
        ("edit", ".git/config", true),
        ("edit", "sub/link/config", true),
        ("read", ".git/config", false),
        ("read", store.as_str(), true),
        ("search", pattern.as_str(), true),
        ("search", "TODO", false),
        ("search", "/", false),
        ("edit", "src/a", false),
    ] {
        let mentioned = vec![text.to_owned()];
        let mut intent = Intent { kind: kind.into(), mentioned, ..Intent::default() };
        ward.note(&mut intent, &root);
        assert_eq!(!intent.guarded.is_empty(), is_guarded, "{kind} {text}");
        // A rule and an answer are about it as about any file.
        assert_eq!(intent.paths.len(), usize::from(is_guarded), "{kind} {text}");
    }
    // A word is a place only where there is something of that name.
    for (text, places) in [("sub", 2), ("rm", 0), ("src/new", 2)] {
        let mentioned = vec![text.to_owned()];
        let mut intent = Intent { kind: "search".into(), mentioned, ..Intent::default() };
        ward.note(&mut intent, &root);
        assert_eq!(intent.mentioned.len(), places, "{text}");
    }
}

#[test]
fn a_folder_is_protected_for_what_is_taken_away_or_looked_through_with_it() {
    let home = tempfile::TempDir::new().unwrap();
    let home = home.path().canonicalize().unwrap();
    for folder in ["p/.git", "p/src", "p/sub/.git", "data/rethread"] {
        std::fs::create_dir_all(home.join(folder)).unwrap();
    }
    let root = home.join("p");
    let ward = ProtectedPaths::new(&[home.join("data/rethread")]).with_repository_of(&root);
    for (kind, path, is_guarded) in [
        ("delete", "p", true),
        ("delete", "p/sub", true),
        ("delete", "p/src", false),
        ("move", "data", true),
        ("search", "data", true),
        ("search", "", true),
        ("search", "p", false),
        ("search", "p/src", false),
    ] {
        let paths = vec![home.join(path).display().to_string()];
        let mut intent = Intent { kind: kind.into(), paths, ..Intent::default() };
        ward.note(&mut intent, &root);
        assert_eq!(!intent.guarded.is_empty(), is_guarded, "{kind} {path}");
    }
    // Where the project is the home itself, looking through it is not more than that.
    let mut intent = Intent { kind: "search".into(), paths: vec![".".into()], ..Intent::default() };
    ward.note(&mut intent, &home);
    assert!(intent.guarded.is_empty());
}

#[test]
fn a_command_that_names_them_says_so() {
    let ward = ProtectedPaths::new(&[PathBuf::from("/home/anna/store.db")]);
    let warned = |line: &str| {
        let mut intent = Intent { command: Some(line.into()), ..Intent::default() };
        ward.note(&mut intent, Path::new("/p"));
        intent.warnings.len()
    };
    assert_eq!(warned("echo x > .git/hooks/pre-commit"), 1);
    assert_eq!(warned("git config core.hooksPath x"), 1);
    assert_eq!(warned("cat /home/anna/store.db.token"), 1);
    assert_eq!(warned("git commit -m x"), 0);
}

#[test]
fn a_file_that_has_another_name_is_noted() {
    let project = tempfile::TempDir::new().unwrap();
    let root = project.path().canonicalize().unwrap();
    std::fs::write(root.join("key"), "").unwrap();
    std::fs::write(root.join("plain"), "").unwrap();
    std::fs::hard_link(root.join("key"), root.join("other")).unwrap();
    std::os::unix::fs::symlink("other", root.join("link")).unwrap();
    for (kind, path, linked) in [
        ("edit", "other", Some("other")),
        ("read", "link", Some("other")),
        ("edit", "plain", None),
        ("edit", "new", None),
        ("edit", ".", None),
        // Only the name goes.
        ("delete", "other", None),
    ] {
        let paths = vec![path.to_owned()];
        let mut intent = Intent { kind: kind.into(), paths, ..Intent::default() };
        ProtectedPaths::default().note(&mut intent, &root);
        assert_eq!(intent.linked.first().map(String::as_str), linked, "{kind} {path}");
    }
}
