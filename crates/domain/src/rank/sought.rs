//! Prompts that name nothing: "go on", "what was failing?", "what's next?".
//!
//! Such a prompt has no words to search by, and still asks for something: the errors that nobody has fixed, what is left to
//! do, the plan, the last request. Those are known by a few words of their own, which the outlines of the newest messages
//! hold as fingerprints, so nothing more is read than for any other prompt.

use super::{Excerpt, Found, LENGTH, Weighed, Why, marks, standing};
use crate::id::Seq;
use crate::message::Role;
use crate::outcome::Outcome;
use crate::passage::{self, Fingerprint, Outline};
use crate::terms;

/// What a prompt asks for beside what it names.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sought {
    /// It names nothing else: there are no words to search by.
    pub is_all: bool,
    /// It asks for what went wrong, not for the work in general.
    pub errors: bool,
}

/// What a passage is to a prompt that names nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    OpenError,
    Unfinished,
    Plan,
    Request,
    Question,
}

/// Words by which people ask to go on, folded; a star stands for any ending. English, German, French, Spanish, Italian,
/// Portuguese, Czech, Russian, Chinese.
const GO_ON: &str = "again already back carry continu* finish* forward getting go going help item* just keep last leave \
    left next now off ok okay pend* pick picking plan plans please previous* proceed* remain* rest \
    resum* still step steps stop stopped take task tasks thing* time todo* todos try unfinished up work \
    working yesterday open bitte mach mache machen nachst* offen* schritt* weiter* aufgabe* ubrig stand \
    etape* prochain* reprend* reste suite suivant* adelante falta paso* proximo pendiente* queda retom* \
    sigu* seguir andiamo avanti fare manca passo passi procedi* prosegui* prossim* resta resto riprend* \
    ripart* fazer passo* proxim* segue seguinte* vamos dal dalsi* krok* pokrac* zbyv* hotov* дальше \
    далее давай* задач* остал* остан* план плана планы поехали продолж* следующ* шаг* делать работ* \
    недодел* 一步 下一 接着 着做 继续 续吧 续做 还有 什么 剩下 计划 任务";

/// Words by which people ask for what went wrong.
const WRONG: &str = "bad broke broken bug bugs crash* error* exception* fail failed failing fails failure* fix fixed \
    fixing issue* problem* red wrong unresolved fehler* kaputt* scheiter* echec* echou* erreur* \
    probleme* fallo* fallando falla* roto errore errori falli* rotto rott* andav* storto erro erros \
    falh* quebra* chyb* nefung* selh* ошиб* пада* проблем* слом* упал* сбой сбои сбоя почин* исправ* 出错 \
    失败 报错 错误 问题 修复";

fn is_one_of(word: &str, list: &str) -> bool {
    list.split_whitespace().any(|known| match known.strip_suffix('*') {
        Some(start) => word.starts_with(start),
        None => known == word,
    })
}

impl Sought {
    /// Takes in a word that the prompt would be searched by, folded; gives whether it names nothing.
    pub(super) fn hear(&mut self, word: &str) -> bool {
        let is_wrong = is_one_of(word, WRONG);
        self.errors |= is_wrong;
        // The last character of a pair that was heard, in a script without spaces.
        let is_rest = word.chars().nth(1).is_none() && word.chars().all(terms::is_cjk);
        is_wrong || is_rest || is_one_of(word, GO_ON)
    }
}

/// Words of passages that tell of a failure, of what puts one right, and of what is left to do.
const FAILURE: &str = "error failed failing exception panicked traceback cannot denied refused undefined fatal crash broken \
    ошибка errore erro fehler erreur chyba 错误 失败";
const PUT_RIGHT: &str = "fixed resolved passed works solved исправлено risolto corrigido";
const LEFT_OPEN: &str = "todo remaining remains pending unfinished later tbd missing осталось позже manca prossimo pendente \
    zbývá offen остается 下一步 待办";

/// The fingerprints of the terms of a text.
fn fingerprints(words: &str) -> Vec<Fingerprint> {
    let mut all = Vec::new();
    terms::each(words, |term, _| {
        if term.chars().nth(1).is_some() {
            all.push(passage::fingerprint(term));
        }
    });
    all
}

fn have_any(own: &[Fingerprint], cues: &[Fingerprint]) -> bool {
    cues.iter().any(|cue| own.binary_search(cue).is_ok())
}

/// A passage counts half as much as a newer one so many messages on.
const HALF: f64 = 25.0;
/// Of one message later than a failure, this many of its words have to come again without it to close it.
const SAME_WORK: f64 = 0.3;
/// The newest failures that are looked at.
const MOST_ERRORS: usize = 24;
/// The last requests of the user that count.
const REQUESTS: usize = 2;

/// What each passage is worth to a prompt that names nothing.
pub(super) fn weigh(sought: Sought, outlines: &[(Seq, Outline)], newest: Seq) -> Vec<Weighed<'_>> {
    let [failure, put_right, left_open] = [FAILURE, PUT_RIGHT, LEFT_OPEN].map(fingerprints);
    let mut all = Vec::new();
    let (mut plans, mut requests, mut questions, mut errors) = (0, 0, 0, 0);
    for (at, (seq, outline)) in outlines.iter().enumerate().rev() {
        plans += usize::from(outline.is_plan);
        let is_said = matches!(outline.role, Role::User | Role::Assistant);
        requests += usize::from(outline.role == Role::User);
        questions += usize::from(outline.role == Role::Assistant && outline.asks);
        for (index, passage) in outline.passages.iter().enumerate() {
            let own = outline.words(passage);
            let has_failure = match outline.outcome {
                Some(outcome) => outcome == Outcome::Failed,
                None => have_any(own, &failure) && !have_any(own, &put_right),
            };
            let (kind, weight) = if outline.is_plan {
                (Kind::Plan, if plans == 1 { 1.6 } else { 0.1 })
            } else if has_failure && errors < MOST_ERRORS {
                errors += 1;
                let is_open = !is_closed(own, &outlines[at + 1..], &failure);
                let weight = if sought.errors { 1.6 } else { 0.9 };
                (Kind::OpenError, if is_open { weight } else { 0.2 })
            } else if is_said && have_any(own, &left_open) {
                (Kind::Unfinished, if sought.errors { 0.4 } else { 1.2 })
            } else if outline.role == Role::User && requests <= REQUESTS {
                (Kind::Request, 0.8)
            } else if outline.role == Role::Assistant && outline.asks && questions == 1 {
                (Kind::Question, 0.6)
            } else {
                continue;
            };
            let age = f64::from(newest.saturating_sub(*seq));
            let score = weight * standing(outline).sqrt() / (1.0 + age / HALF);
            let excerpt = Excerpt {
                worth: score / f64::from(passage.price + 8).powf(LENGTH),
                why: Why { kind: Some(kind), ..Why::default() },
                ..Excerpt::of(index, passage)
            };
            if !outline.is_bare {
                let found = Found { seq: *seq, excerpt };
                all.push(Weighed { found, words: own, outline, marks: marks(own) });
            }
        }
    }
    all
}

/// Whether what failed was done again later without failing.
fn is_closed(own: &[Fingerprint], later: &[(Seq, Outline)], failure: &[Fingerprint]) -> bool {
    later.iter().filter(|(_, outline)| outline.role == Role::Tool).any(|(_, outline)| {
        let passages = || outline.passages.iter().map(|one| outline.words(one));
        let has_failed = match outline.outcome {
            Some(outcome) => outcome == Outcome::Failed,
            None => passages().any(|words| have_any(words, failure)),
        };
        !has_failed && passages().any(|words| super::common_share(own, words) >= SAME_WORK)
    })
}
