//! What a prompt asks for, and which passages are worth most for it.

use jiff::Timestamp;

use super::*;
use crate::number;

fn wanted(prompt: &str) -> (String, Vec<(String, String)>) {
    let wanted = Wanted::of(prompt, 2022..=2023, &[]);
    let shown = |day: i64| number::day(jiff::Timestamp::from_second(day * 86_400).unwrap());
    (wanted.terms.join(" "), wanted.days.iter().map(|(a, b)| (shown(*a), shown(*b))).collect())
}

fn check(prompt: &str, terms: &str, days: &[(&str, &str)]) {
    let days = days.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect();
    assert_eq!(wanted(prompt), (terms.to_owned(), days), "{prompt}");
}

#[test]
fn a_prompt_is_its_words_without_those_that_say_little() {
    check("What did the login test say, and who fixed the login?", "login test say fix", &[]);
    check("", "", &[]);
}

#[test]
fn days_are_understood() {
    check("what broke on 5 May 2023?", "break", &[("2023-05-05", "2023-05-05")]);
    check("May 5th, 2023", "", &[("2023-05-05", "2023-05-05")]);
    check("in February", "", &[("2022-02-01", "2022-02-28"), ("2023-02-01", "2023-02-28")]);
    check("since 2023-01-31.", "", &[("2023-01-31", "2023-01-31")]);
    check("may it march on", "march", &[]);
    check("31 June 2023", "", &[]);
}

#[test]
fn rare_words_and_neighbours_of_finds_come_first() {
    let common = Places { seqs: (1..=100).rev().collect(), cut: false };
    let rare = Places { seqs: vec![40], cut: false };
    let list = shortlist(&[common, rare], &[], 100);
    let order: Vec<Seq> = list.iter().take(5).map(|(seq, _)| *seq).collect();
    assert_eq!(order, [40, 41, 39, 42, 38]);
}

#[test]
fn a_word_that_was_cut_off_is_known_to_be_common() {
    let dense = Places { seqs: (991..=1000).rev().collect(), cut: true };
    let thin = Places { seqs: (91..=1000).rev().step_by(91).collect(), cut: true };
    assert!(spread(&dense, 1000) > 900.0);
    assert!(spread(&thin, 1000) < 20.0);
}

/// Messages of a session from the first on, each at its outline.
fn outlines(said: &[(Role, &str)]) -> Vec<(Seq, Outline)> {
    let outline =
        |(role, text): &(Role, &str)| Outline::of(*role, Timestamp::UNIX_EPOCH, text, None);
    (1..).zip(said.iter().map(outline)).collect()
}

/// The passages that are chosen for a prompt, best first.
fn chosen(said: &[(Role, &str)], prompt: &str, tokens: u32) -> Vec<(Seq, usize)> {
    let outlines = outlines(said);
    let wanted = Wanted::of(prompt, 1970..=1970, &[]);
    let newest = Seq::try_from(said.len()).unwrap();
    let places: Vec<Places> = wanted
        .forms()
        .map(|forms| {
            let forms: Vec<_> = forms.map(passage::fingerprint).collect();
            let has = |(_, outline): &&(Seq, Outline)| forms.iter().any(|form| outline.has(*form));
            Places {
                seqs: outlines.iter().filter(has).map(|one| one.0).rev().collect(),
                cut: false,
            }
        })
        .collect();
    let found = choose(&wanted, &places, &outlines, newest, tokens);
    found.into_iter().map(|one| (one.seq, one.excerpt.index)).collect()
}

#[test]
fn the_passage_that_has_the_words_is_chosen_out_of_a_long_message() {
    let filling = "Nothing of note happened on this day, as on most others. ".repeat(20);
    let text = format!("{filling}\n\nThe port of the staging database is 5433.\n\n{filling}");
    let found = chosen(&[(Role::Assistant, &text)], "which port has the database?", 1);
    let at = text.find("5433").unwrap();
    let range = &passage::cut(&text)[found[0].1];
    assert!(range.contains(&at), "{found:?}");
}

#[test]
fn what_was_said_comes_before_what_a_tool_printed_and_titles_never_come() {
    let text = "The cache is kept for an hour and then thrown away.";
    let said = [
        (Role::Tool, "cache of an hour: \nprinted by something else"),
        (Role::User, text),
        (Role::Tool, "cat cache.rs"),
    ];
    let found = chosen(&said, "how long is the cache kept", 1000);
    assert_eq!(found.iter().map(|one| one.0).collect::<Vec<_>>(), [2, 1]);
}

#[test]
fn of_passages_that_are_nearly_the_same_the_newest_is_chosen() {
    let text = "The deploy script fails because the folder of the release is missing there.";
    let said = [[(Role::Assistant, text); 2].as_slice(), &[(Role::User, "Paint it."); 9]].concat();
    let found = chosen(&said, "why does the deploy fail?", 1000);
    assert!(found.contains(&(2, 0)) && !found.contains(&(1, 0)), "{found:?}");
}

#[test]
fn a_word_is_found_in_another_form_of_its_language() {
    let said = [
        (Role::User, "Nella cartella ci sono dei progetti che non vanno."),
        (Role::User, "Il gatto dorme sul tetto di una casa e non fa niente."),
        (Role::Assistant, "I have no idea of it."),
    ];
    let found = chosen(&said, "dove sta il progetto?", 1000);
    assert_eq!(found[0], (1, 0), "{found:?}");
    let wanted = Wanted::of("quali progetti?", 2026..=2026, &[]);
    assert_eq!(
        (wanted.terms, wanted.stems),
        (vec!["progetti".into()], vec![Some("progett".into())])
    );
}

#[test]
fn places_of_two_forms_are_known_as_far_back_as_both() {
    let mut places = Places { seqs: vec![9, 5, 2], cut: false };
    places.add(Places { seqs: vec![8, 5], cut: false });
    assert_eq!(places, Places { seqs: vec![9, 8, 5, 2], cut: false });
    places.add(Places { seqs: vec![7, 4], cut: true });
    assert_eq!(places, Places { seqs: vec![9, 8, 7, 5, 4], cut: true });
}

#[test]
fn no_more_is_chosen_than_can_be_paid_for() {
    let lines: Vec<String> = (0..50)
        .map(|n| format!("Step {n} of the release took {n} minutes in room {n}{n}."))
        .collect();
    let said: Vec<_> = lines.iter().map(|line| (Role::User, line.as_str())).collect();
    let few = chosen(&said, "release", 60).len();
    assert!((2..8).contains(&few), "{few}");
    assert!(chosen(&said, "release", 100_000).len() > 40);
}

#[test]
fn small_words_of_other_languages_are_not_looked_for() {
    check("in quale directory gira il progetto?", "directori gira progetto", &[]);
    check("на каком порту открывать сайт?", "порт открыва сайт", &[]);
}

#[test]
fn a_prompt_that_names_nothing_is_known_in_many_languages() {
    for prompt in [
        "continue",
        "Please go on.",
        "what's next?",
        "pick up where we left off",
        "go on with what was failing",
        "продолжай",
        "что дальше?",
        "continua",
        "qual è il prossimo passo?",
        "continue com o próximo passo",
        "pokračuj dál",
        "weiter bitte",
        "继续",
        "下一步",
    ] {
        let wanted = Wanted::of(prompt, 2026..=2026, &[]);
        assert!(wanted.sought.is_all && wanted.terms.is_empty(), "{prompt}: {wanted:?}");
    }
    for prompt in [
        "continue with the parser",
        "what is the password?",
        "restart the api",
        "which machine is it?",
        "the fixture",
        "",
        "...",
    ] {
        assert!(!Wanted::of(prompt, 2026..=2026, &[]).sought.is_all, "{prompt}");
    }
    assert!(Wanted::of("go on with what was failing", 2026..=2026, &[]).sought.errors);
    assert!(!Wanted::of("what's next?", 2026..=2026, &[]).sought.errors);
}

#[test]
fn what_failed_and_was_not_done_again_is_an_open_error() {
    let said = [
        (
            Role::Tool,
            "$ make docs\nerror: the page about bicycles is missing in the manual\nexit code 2",
        ),
        (
            Role::Tool,
            "$ cargo check\nerror: undefined symbol frobnicate in the linker stage\nexit code 1",
        ),
        (Role::Assistant, "I look at the manual first, since that is quickly done."),
        (Role::Tool, "$ make docs\nthe page about bicycles in the manual is built\nexit code 0"),
    ];
    let outlines = outlines(&said);
    let wanted = Wanted::of("what was failing?", 2026..=2026, &[]);
    let found = choose(&wanted, &[], &outlines, 4, 1000);
    assert_eq!(found[0].seq, 2, "{found:?}");
    assert_eq!(found[0].excerpt.why.kind, Some(Kind::OpenError));
    let closed = found.iter().find(|one| one.seq == 1).unwrap();
    assert!(closed.excerpt.worth < found[0].excerpt.worth / 2.0, "{found:?}");
}

/// The states of the two statements about a port, said by these.
fn states(speakers: [Role; 2], end: char) -> [Option<State>; 2] {
    let before =
        "The preview server of the shop listens on port 5173 behind the proxy on my laptop";
    let now = "The preview server of the shop listens on port 8080 behind the proxy, moved by Anna";
    let [first, last] = speakers;
    // Of what a tool printed the first line is its title.
    let title = |role| if role == Role::Tool { "shell\n" } else { "" };
    let (before, now) =
        (format!("{}{before}{end}", title(first)), format!("{}{now}{end}", title(last)));
    let said =
        [(first, before.as_str()), (Role::Assistant, "Noted, thanks."), (last, now.as_str())];
    let outlines = outlines(&said);
    let wanted = Wanted::of("which port has the preview server?", 2026..=2026, &[]);
    let places: Vec<Places> =
        wanted.terms.iter().map(|_| Places { seqs: vec![3, 1], cut: false }).collect();
    let found = choose(&wanted, &places, &outlines, 3, 1000);
    [1, 3].map(|seq| found.iter().find(|one| one.seq == seq).expect("found").excerpt.state)
}

#[test]
fn the_later_of_two_statements_about_a_thing_is_what_holds_now() {
    let marked = [Some(State::Earlier), Some(State::Now)];
    assert_eq!(states([Role::User, Role::User], '.'), marked);
    assert_eq!(states([Role::Assistant, Role::Assistant], '.'), marked);
}

#[test]
fn what_only_looks_alike_is_not_taken_for_an_earlier_state() {
    assert_eq!(states([Role::Tool, Role::Tool], '.'), [None, None]);
    assert_eq!(states([Role::User, Role::Assistant], '.'), [None, None]);
    assert_eq!(states([Role::User, Role::User], '?'), [None, None]);
}
