//! The counts of another implementation of the same encoding, for texts of every kind.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout)] // Tests may panic and talk.

use std::fmt::Write as _;
use std::path::Path;
use std::{env, fs, iter};

use rethread_tokens::count;
use tiktoken_rs::{CoreBPE, o200k_base};

/// Numbers that follow from a seed.
struct Dice(u64);

impl Dice {
    fn throw(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 33).unwrap() % sides
    }

    fn one_of<'a, T: ?Sized>(&mut self, all: &[&'a T]) -> &'a T {
        all[self.throw(all.len())]
    }
}

fn seed() -> u64 {
    let given = env::var_os("SEED").map(|seed| seed.to_str().unwrap().parse().unwrap());
    given.unwrap_or_else(|| u64::from(std::process::id()) << 20 | 1)
}

fn check(reference: &CoreBPE, text: &str) {
    let expected = reference.encode_ordinary(text).len();
    assert_eq!(count(text), expected, "{:?}", text.chars().take(400).collect::<String>());
}

const PIECES: [&str; 64] = [
    "the ",
    "Token",
    "getUserName",
    "don't",
    "WE'LL",
    "it'S",
    "x'\u{17f}y",
    "'re",
    "'",
    "''d",
    " ",
    "  ",
    "   \n",
    "\n",
    "\r\n",
    "\t",
    "\n\n  ",
    "\u{a0}",
    "\u{3000}",
    "\u{2028}",
    "\u{85}",
    "0",
    "42",
    "1234567",
    "３",
    "½",
    "Ⅷ",
    "/",
    "//",
    "/\n",
    "!",
    "!?",
    "...",
    "====",
    "+++---",
    "#!/",
    "()",
    "{}",
    "«»",
    "€",
    "\u{200b}",
    "\u{feff}",
    "\0",
    "\u{1b}[0m",
    "e\u{301}",
    "\u{301}",
    "\u{301}A",
    "\u{301}A\u{301}b",
    "ǅ",
    "ʰ",
    "ªº",
    "漢字",
    "かな",
    "カナ",
    "한국어",
    "العربية",
    "עברית",
    "हिन्दी",
    "ไทย",
    "Ελληνικά",
    "Привет",
    "İıſ",
    "👩‍👩‍👧‍👦",
    "\u{1f3f4}\u{e0067}",
];

/// A text of pieces that were chosen to be split in odd places, and of characters of any kind.
fn random_text(dice: &mut Dice) -> String {
    let mut text = String::new();
    for _ in 0..=dice.throw(24) {
        match dice.throw(8) {
            0 => text.extend(char::from_u32(u32::try_from(dice.throw(0x11_0000)).unwrap())),
            1 => text.push(char::from(u8::try_from(dice.throw(128)).unwrap())),
            2 => {
                let letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJ_";
                let word = (0..=dice.throw(30)).map(|_| dice.throw(letters.len()));
                text.extend(word.map(|at| &letters[at..=at]));
            }
            3 => text.push_str(&dice.one_of(&PIECES).repeat(1 + dice.throw(40))),
            _ => text.push_str(dice.one_of(&PIECES)),
        }
    }
    text
}

#[test]
fn a_hundred_thousand_random_texts_count_the_same() {
    let seed = seed();
    println!("SEED={seed}");
    let (reference, mut dice) = (o200k_base().unwrap(), Dice(seed));
    for _ in 0..100_000 {
        check(&reference, &random_text(&mut dice));
    }
}

/// Prose as it is written in several languages: the sentences that our own documents and tests have, and these.
const PROSE: [&str; 10] = [
    "The session was paused at noon, and nobody knew why the build had failed until the clock was looked at.\n",
    "Die Sitzung wurde mittags angehalten; überraschenderweise wußte zunächst niemand, weshalb die Übersetzung mißlang.\n",
    "La séance a été interrompue à midi, et personne ne savait pourquoi l'intégration avait échoué cet été-là.\n",
    "La sesión se detuvo al mediodía: ¿quién habría pensado que el año bisiesto rompería la prueba?\n",
    "Сессия была приостановлена в полдень, и никто не знал, почему сборка завершилась с ошибкой.\n",
    "会議は正午に中断され、時計を確認するまでビルドが失敗した理由は誰にもわからなかった。\n",
    "会话在中午暂停了，直到检查时钟之前没有人知道构建为什么失败。\n",
    "세션은 정오에 중단되었고, 시계를 확인할 때까지 빌드가 왜 실패했는지 아무도 몰랐다.\n",
    "توقفت الجلسة عند الظهر، ولم يعرف أحد سبب فشل البناء حتى تم فحص الساعة.\n",
    "सत्र दोपहर में रोक दिया गया था, और घड़ी देखने तक किसी को नहीं पता था कि बिल्ड क्यों विफल हुआ।\n",
];

/// Every source file and document of this repository.
fn sources(folder: &Path, into: &mut String) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, into);
        } else if path.extension().is_some_and(|kind| {
            ["rs", "sql", "md", "toml", "html", "css", "js"].contains(&kind.to_str().unwrap())
        }) {
            into.push_str(&fs::read_to_string(&path).unwrap());
        }
    }
}

fn base64(dice: &mut Dice, length: usize) -> String {
    let letters = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    iter::repeat_with(|| char::from(letters[dice.throw(letters.len())])).take(length).collect()
}

#[test]
fn ten_megabytes_of_mixed_text_count_the_same() {
    let (reference, mut dice) = (o200k_base().unwrap(), Dice(7));
    let mut text = String::new();
    sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join(".."), &mut text);
    let mut number = 0;
    while text.len() < 10 * 1024 * 1024 {
        number += 1;
        for _ in 0..=dice.throw(8) {
            text.push_str(dice.one_of(&PROSE));
        }
        let (hour, status, took) = (dice.throw(24), 200 + dice.throw(300), dice.throw(99_999));
        writeln!(text, "2026-11-17T{hour:02}:00:07.{took:05}Z INFO request id={number:016x} status={status} took={took}µs").unwrap();
        let length = 1 + dice.throw(300);
        writeln!(text, "data:image/png;base64,{}=", base64(&mut dice, length)).unwrap();
        text.push_str(&random_text(&mut dice));
    }
    // In parts, so that a difference shows where it is.
    let mut rest = text.as_str();
    while !rest.is_empty() {
        let (part, after) = rest.split_at(rest.floor_char_boundary(20_000));
        check(&reference, part);
        rest = after;
    }
}

#[test]
fn every_token_by_itself_and_with_a_neighbour_counts_the_same() {
    let (reference, mut dice) = (o200k_base().unwrap(), Dice(11));
    let mut token = |of: u32| {
        reference.decode_bytes(&[of]).ok().and_then(|bytes| String::from_utf8(bytes).ok())
    };
    let words: Vec<String> = (0..199_998).filter_map(&mut token).collect();
    assert!(words.len() > 190_000, "{}", words.len());
    for word in &words {
        check(&reference, word);
        let other = &words[dice.throw(words.len())];
        check(&reference, &format!("{word}{other}"));
    }
}

/// Lengths at which the reference is still quick; what is longer goes on in the same way.
#[test]
fn repetitions_count_the_same() {
    let reference = o200k_base().unwrap();
    for unit in PIECES.into_iter().chain(["a", "ab", "aB", "=-", " \n", "\t ", "xyz", "'s", "a's"])
    {
        for times in [2, 3, 7, 31, 128, 129, 1000] {
            check(&reference, &unit.repeat(times));
        }
    }
}

/// A counter that is quadratic, or recurses, on such texts would not come back, or die.
#[test]
fn texts_made_to_hurt_a_tokenizer_are_counted() {
    for unit in PIECES.into_iter().chain(["a", "^", "ab", "aB", "\t ", " \n", "zq", "ACGT"]) {
        let text = unit.repeat(1024 * 1024 / unit.len());
        let tokens = count(&text);
        assert!(tokens > 0 && tokens <= text.len(), "{unit:?}");
    }
}
