//! Outputs of real runs, and of nobody's good will.

use std::time::Instant;

use proptest::prelude::*;

use super::*;

macro_rules! fixture {
    ($name:literal) => {
        include_str!(concat!("../../tests/fixtures/verdict/", $name, ".txt"))
    };
}

/// The output of a run that failed, whatever its command is called.
fn failing(output: &str, command: &str) -> Vec<String> {
    let state = read(output, Some(1), command);
    assert_eq!(state.phase, Phase::Red);
    assert!(state.output.len() <= MOST_OUTPUT && !state.output.contains('\u{1b}'));
    assert_eq!(read(output, Some(1), "make check").failing, state.failing, "by any name");
    state.failing
}

#[test]
fn cargo_names_its_failures() {
    let names = ["tests::panics", "tests::adds_more", "from_outside", "src/lib.rs - add (line 1)"];
    assert_eq!(failing(fixture!("cargo"), "cargo test"), names);
    assert_eq!(failing(fixture!("cargo-q"), "cargo test -q"), names);
    let names = ["demo tests::panics", "demo::it from_outside", "demo tests::adds_more"];
    assert_eq!(failing(fixture!("nextest"), "cargo nextest run"), names);
}

#[test]
fn pytest_names_its_failures() {
    let names = [
        "test_a.py::test_bad",
        "test_a.py::TestC::test_m",
        "test_a.py::test_p[a b]",
        "test_a.py::test_p[c - d]",
        "test_a.py::test_e",
    ];
    assert_eq!(failing(fixture!("pytest-v"), "pytest -v"), names);
    assert_eq!(failing(fixture!("pytest-color"), "python -m pytest"), names);
    let cut = fixture!("pytest-v").split("= ERRORS =").next().unwrap();
    assert_eq!(read(cut, None, "pytest -v").failing, names, "killed before its summary");
    assert_eq!(read(cut, None, "pytest -v").phase, Phase::Red);
}

#[test]
fn jest_and_vitest_name_their_failures() {
    let names = ["sum › adds > more", "sum › deep › throws", "alone"];
    assert_eq!(failing(fixture!("jest"), "npx jest"), names);
    assert_eq!(failing(fixture!("jest-v"), "npx jest --verbose"), names);
    for output in [fixture!("vitest"), fixture!("vitest-v")] {
        let names = failing(output, "npx vitest run");
        assert_eq!(names.len(), 6, "{names:?}");
        for name in ["sum.test.js > sum > adds > more", "other.test.js > sum > deep > throws"] {
            assert!(names.iter().any(|known| known == name), "{names:?}");
        }
    }
    assert_eq!(read("  ● Careful with that\n", Some(0), "npm test").phase, Phase::Green);
}

#[test]
fn go_names_its_failures() {
    let names = ["TestBad", "TestTable", "TestTable/three"];
    assert_eq!(failing(fixture!("go"), "go test ./..."), names);
    assert_eq!(failing(fixture!("go-v"), "go test -v ./..."), names);
}

#[test]
fn what_does_not_compile_is_red_without_names() {
    for (output, command) in [
        (fixture!("cargo-compile"), "cargo test"),
        (fixture!("pytest"), "pytest"),
        (fixture!("jest-bad"), "jest"),
        (fixture!("vitest-bad"), "vitest run"),
        (fixture!("go-compile"), "go test"),
    ] {
        assert_eq!(failing(output, command), Vec::<String>::new());
        assert!(!read(output, Some(1), command).output.is_empty());
    }
}

#[test]
fn the_phase_follows_the_code() {
    let ok = "running 1 test\ntest a ... ok\n";
    assert_eq!(read(ok, Some(0), "cargo test").phase, Phase::Green);
    assert_eq!(read(ok, Some(101), "cargo test").phase, Phase::Red);
    assert_eq!(read(ok, None, "cargo test").phase, Phase::Unknown);
    assert_eq!(read("test a ... FAILED\n", None, "cargo test").phase, Phase::Red);
    assert_eq!(read("", Some(0), "x").command.as_deref(), Some("x"));
}

#[test]
fn the_summary_is_kept_rather_than_the_end() {
    let noise = "some line of noise ünd more\n".repeat(1_000);
    let output = format!("{noise}{}{noise}", fixture!("cargo"));
    let kept = read(&output, Some(101), "cargo test").output;
    assert!(kept.starts_with("    tests::adds_more\n"), "{kept}");
    let kept = read(&noise, Some(1), "x").output;
    assert!(kept.starts_with("some line") && kept.ends_with("more") && kept.len() > 3_900);
    let kept = read(&"ü".repeat(9_000), Some(1), "x").output;
    assert_eq!(kept.len(), MOST_OUTPUT);
}

#[test]
fn names_are_told_once_and_not_without_end() {
    let many: String =
        (0..999).map(|at| format!("--- FAIL: T{at} (0.0s)\n")).collect::<Vec<String>>().concat();
    let names = read(&format!("{many}{many}"), Some(1), "go test").failing;
    assert_eq!((names.len(), names[199].as_str()), (MOST_NAMES, "T199"));
}

#[test]
fn huge_and_hostile_outputs_take_linear_time() {
    let mega = 1024 * 1024;
    for (unit, size) in [
        ("a line of output\n", 64),
        ("x", 64),
        ("\u{1b}[", 8),
        ("\u{1b}]0;", 8),
        ("failures:\n    a\n", 8),
        ("● \r", 8),
        ("\u{1b}]a\n", 8),
        ("[ - ", 8),
    ] {
        let output = unit.repeat(size * mega / unit.len());
        let since = Instant::now();
        let state = read(&output, None, "make");
        assert!(state.output.len() <= MOST_OUTPUT);
        // A few seconds at most; a square of this size takes days.
        assert!(since.elapsed().as_secs() < 60, "{unit:?} took {:?}", since.elapsed());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn any_output_is_read(output in "(\\PC|[\u{1b}\\[\\]\n\r (-]|FAIL|● |failures:\n    ){0,300}", code in any::<Option<i32>>()) {
        let state = read(&output, code, "x");
        prop_assert!(state.output.len() <= MOST_OUTPUT && state.failing.len() <= MOST_NAMES);
    }
}
