//! Searches in random stores, against one that reads everything: the same finds, in the same order, on the same pages.

use futures::executor::block_on;
use rethread_domain::message::{Extras, NewMessage};
use rethread_domain::search::{self, Answer, Filter, Found, Place, Query, Rank};
use rethread_domain::{Role, Session, SessionId};
use rethread_store::Search;
use rethread_testkit::{TestStore, Texts, at, message, seed};

/// So many finds are ranked together.
const WINDOW: usize = 100;

/// From common to rare; some are parts of others, some are written in different ways.
const WORDS: &[&str] = &[
    "the",
    "error",
    "run",
    "function",
    "running",
    "staging",
    "stage",
    "handler",
    "getUserName",
    "getusername",
    "C++",
    "src/main.rs",
    "12",
    "数据库",
    "heron",
    "herons",
    "handler_12",
    "handLer_12",
    "handler_7",
    "snake_case_name",
    "don't",
    "Zürich",
];

fn word(dice: &mut Texts) -> &'static str {
    // The lowest of some throws: the first words are common, the last ones rare.
    let throws = [dice.below(WORDS.len()), dice.below(WORDS.len()), dice.below(WORDS.len())];
    WORDS[if dice.below(12) == 0 { throws[0] } else { throws.into_iter().min().unwrap() }]
}

fn text(dice: &mut Texts) -> String {
    let most = match dice.below(60) {
        0 => 2_500,
        1 if dice.below(3) == 0 => 8_000,
        _ => 30,
    };
    let count = 1 + dice.below(most);
    (0..count).map(|_| word(dice)).collect::<Vec<_>>().join(if dice.below(3) == 0 {
        "\n"
    } else {
        " "
    })
}

fn next_message(dice: &mut Texts, number: usize) -> NewMessage {
    let role = Role::ALL[dice.below(Role::ALL.len())];
    let rules = if dice.below(2) == 0 { 0 } else { rethread_redact::VERSION };
    let extras = Extras { rules, ..Extras::default() };
    let minute = i64::try_from(number).unwrap() * 700;
    NewMessage { extras, at: at(minute), ..message(role, &text(dice)) }
}

fn typed(dice: &mut Texts) -> String {
    let mut one = || match dice.below(12) {
        0 => format!("\"{} {}\"", word(dice), word(dice)),
        1 => format!("{}*", word(dice).trim_end_matches(['+', '#'])),
        2 => WORDS[dice.below(WORDS.len())].to_owned(),
        _ => word(dice).to_owned(),
    };
    let words: Vec<String> = [one(), one(), one()].into();
    words[..=dice.below(3)].join(" ")
}

/// All that is in a store: sessions in the order of their numbers, and what was said in each.
struct Model {
    sessions: Vec<(Session, Vec<NewMessage>)>,
}

/// A find as it should be.
struct Expected {
    rank: Rank,
    session: SessionId,
    place: Place,
    excerpt: String,
}

impl Model {
    /// Everything that matches a query and was not found before.
    fn stage(&self, query: &Query, before: &[Query], filter: &Filter) -> Vec<Expected> {
        let is_new =
            |text: &str| query.matches(text) && !before.iter().any(|before| before.matches(text));
        let find = |rank: Rank, session: &Session, place: Place, text: &str| Expected {
            rank,
            session: session.id,
            place,
            excerpt: search::excerpt(query, text, 160),
        };
        let (mut titles, mut messages) = (Vec::new(), Vec::new());
        for (no, (session, said)) in (1i64..).zip(&self.sessions) {
            if filter.session.is_some_and(|id| id != session.id) {
                continue;
            }
            let title = session.title.as_deref().filter(|title| is_new(title));
            if let Some(title) = title.filter(|_| !filter.is_about_messages()) {
                let score = search::score(query, title) + 0.5;
                let at = session.last_active_at;
                let rank = Rank { score, at, is_message: false, key: no * 2 };
                titles.push(find(rank, session, Place::Title, title));
            }
            for (seq, said) in (1..).zip(said) {
                let (role, at, text) = (said.role, said.at, said.content.as_str());
                let is_wanted =
                    filter.has_time(at) && filter.role.is_none_or(|wanted| wanted == role);
                if is_wanted && is_new(text) {
                    let score = search::score(query, &text[..text.floor_char_boundary(8 * 1024)]);
                    let key = no << 32 | i64::from(seq);
                    let rank = Rank { score, at, is_message: true, key };
                    messages.push(find(rank, session, Place::Message { seq, role, at }, text));
                }
            }
        }
        messages.sort_by_key(|find| std::cmp::Reverse(find.rank.key));
        let mut all = Vec::new();
        while !titles.is_empty() || !messages.is_empty() {
            let mut window = std::mem::take(&mut titles);
            window.extend(messages.drain(..messages.len().min(WINDOW)));
            window.sort_by(|a, b| a.rank.order(&b.rank));
            all.extend(window);
        }
        all
    }
}

async fn fill(store: &TestStore, dice: &mut Texts) -> Model {
    let mut sessions = Vec::new();
    for _ in 0..=dice.below(3) {
        sessions.push((store.begin().await, Vec::new()));
    }
    for round in 0..3 {
        for (id, said) in &mut sessions {
            let from = said.len();
            let count = 1 + dice.below(160);
            let messages: Vec<_> = (0..count).map(|n| next_message(dice, from + n)).collect();
            said.extend(messages.clone());
            store.add(*id, messages).await.unwrap();
        }
        // Some is in the index, some of it lags.
        if round == 1 || dice.below(2) == 0 {
            store.index(u32::try_from(dice.below(600)).unwrap()).await.unwrap();
        }
    }
    let mut model = Model { sessions: Vec::new() };
    for (id, said) in sessions {
        model.sessions.push((store.session(id).await.unwrap(), said));
    }
    model
}

fn filter(dice: &mut Texts, model: &Model) -> Filter {
    let mut filter = Filter::default();
    match dice.below(6) {
        0 => filter.session = Some(model.sessions[dice.below(model.sessions.len())].0.id),
        1 => filter.role = Some(Role::ALL[dice.below(Role::ALL.len())]),
        2 => filter.since = Some(at(20_000)),
        3 => filter.until = Some(at(90_000)),
        _ => (),
    }
    filter
}

/// All pages of a search; what has only some of the words comes last and is not among them.
async fn pages(store: &TestStore, words: &str, filter: &Filter, limit: u32) -> Vec<search::Hit> {
    let (mut hits, mut after) = (Vec::new(), None);
    loop {
        let search = Search { after, ..Search::new(words, filter.clone(), limit) };
        let Found { hits: more, next, is_partial, .. } = store.search(&search).await.unwrap();
        assert!(!is_partial, "{words}");
        hits.extend(more.into_iter().filter(|hit| hit.answer != Answer::Some));
        match next {
            Some(next) => after = Some(next.to_string().parse().unwrap()),
            None => return hits,
        }
    }
}

async fn expect_the_same(store: &TestStore, dice: &mut Texts, model: &Model, told: &str) {
    let words = typed(dice);
    let filter = filter(dice, model);
    let limit = [5, 20, 100][dice.below(3)];
    let whole = Query::parse(&words);
    let mut expected = model.stage(&whole, &[], &filter);
    let count = expected.len();
    if let Some(unfinished) = whole.unfinished() {
        expected.extend(model.stage(&unfinished, std::slice::from_ref(&whole), &filter));
    }
    let found = pages(store, &words, &filter, limit).await;
    let told = format!("{told}: {words:?}, at most {limit}, {filter:?}");
    for (at, (hit, expected)) in found.iter().zip(&expected).enumerate() {
        let answer = if at < count { Answer::Words } else { Answer::Beginning };
        assert_eq!((hit.session, &hit.place), (expected.session, &expected.place), "{told}: {at}");
        assert_eq!((hit.answer, &hit.excerpt), (answer, &expected.excerpt), "{told}: {at}");
        assert!((hit.score - expected.rank.score).abs() < f64::EPSILON, "{told}: {at}");
    }
    assert_eq!(found.len(), expected.len(), "{told}");
}

#[test]
fn a_search_finds_what_reading_everything_finds() {
    let seed = seed();
    block_on(async {
        for round in 0..3 {
            for store in TestStore::each().await {
                let mut dice = Texts::new(seed.wrapping_add(round));
                let model = fill(&store, &mut dice).await;
                for is_indexed in [false, true] {
                    if is_indexed {
                        store.index_all().await;
                    }
                    for number in 0..12 {
                        let told = format!("seed {seed}, round {round}, {is_indexed}, {number}");
                        expect_the_same(&store, &mut dice, &model, &told).await;
                    }
                }
            }
        }
    });
}
