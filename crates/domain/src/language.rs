//! The languages that people write in: their words that say little about what a text is about, and how their words are stemmed.
//!
//! English ones are in `words`. A word that says nothing in one language may mean something in another (`die`, `come`, `per`),
//! so a table counts only where the text is in its language.

use rust_stemmers::{Algorithm, Stemmer};

use crate::{terms, words};

/// A language with its small words; folded as terms are, unstemmed, sorted.
pub(crate) struct Language {
    words: &'static [&'static str],
    /// How its words are stemmed. Not for Russian: words in its letters always are, whatever else a text has.
    stems: Option<Algorithm>,
}

/// So much of a text says which language it is in.
const MOST_BYTES: usize = 1 << 10;

impl Language {
    /// The language of a text; nothing where that is English or cannot be told.
    pub(crate) fn of(text: &str) -> Option<&'static Self> {
        let mut heard = Heard::default();
        heard.add(text, 2);
        heard.language()
    }

    /// That of a prompt; where it cannot be told, that of what was said before.
    pub(crate) fn of_prompt(prompt: &str, said: &[&str]) -> Option<&'static Self> {
        let mut heard = Heard::default();
        heard.add(prompt, 1);
        if heard.english == 0 && heard.others.iter().all(|count| *count == 0) {
            for text in said {
                heard.add(text, 2);
            }
        }
        heard.language()
    }

    /// Whether a folded word says little.
    pub(crate) fn is_small(&self, word: &str) -> bool {
        self.words.binary_search(&word).is_ok()
    }

    /// The stem of a word as it stands in a text, as a term; nothing for what is no plain word.
    pub(crate) fn stem(&self, word: &str) -> Option<String> {
        let stemmer = Stemmer::create(self.stems?);
        let is_plain = word.len() <= terms::LONGEST && word.chars().all(char::is_alphabetic);
        is_plain.then(|| terms::folded(&stemmer.stem(&word.to_lowercase())))
    }
}

/// Of the words of a text one in so many is a small one of its language, at least: code has some of them by chance.
const ONE_IN: u32 = 8;

/// How many small words of each language were heard.
#[derive(Default)]
struct Heard {
    words: u32,
    english: u32,
    others: [u32; LANGUAGES.len()],
}

impl Heard {
    /// Hears the words of a text that have so many bytes at least. In a text a single letter is as often a variable, in a prompt it is not.
    fn add(&mut self, text: &str, shortest: usize) {
        let folded = terms::folded(&text[..text.floor_char_boundary(MOST_BYTES)]);
        let all = folded.split(|c: char| !c.is_alphanumeric());
        for word in all.filter(|word| word.len() >= shortest) {
            self.words += 1;
            if word.len() > LONGEST {
                continue;
            }
            self.english += u32::from(words::is_stop(word));
            let languages = languages_of(word.as_bytes());
            for (bit, count) in self.others.iter_mut().enumerate() {
                *count += u32::from(languages >> bit & 1);
            }
        }
    }

    fn language(&self) -> Option<&'static Language> {
        let best = self.others.iter().zip(&LANGUAGES).max_by_key(|(count, _)| **count);
        let is_heard = |count: u32| count > self.english && count * ONE_IN >= self.words;
        best.filter(|(count, _)| is_heard(**count)).map(|(_, language)| language)
    }
}

/// No small word is longer.
const LONGEST: usize = 16;
/// The places of the table of small words: some four for each.
const PLACES: usize = 1 << 12;

/// The small words by their hash, each with a bit for every language that it is one of: every text is looked through for them.
static TABLE: [(&[u8], u8); PLACES] = {
    let mut table: [(&[u8], u8); PLACES] = [(&[], 0); PLACES];
    let mut bit = 0;
    while bit < LANGUAGES.len() {
        let mut at = 0;
        while at < LANGUAGES[bit].words.len() {
            let word = LANGUAGES[bit].words[at].as_bytes();
            let mut place = place_of(word);
            while table[place].1 != 0 && !is_same(table[place].0, word) {
                place = (place + 1) % PLACES;
            }
            table[place] = (word, table[place].1 | 1 << bit);
            at += 1;
        }
        bit += 1;
    }
    table
};

const fn is_same(a: &[u8], b: &[u8]) -> bool {
    let mut at = 0;
    while at < a.len() && at < b.len() && a[at] == b[at] {
        at += 1;
    }
    at == a.len() && at == b.len()
}

const fn place_of(word: &[u8]) -> usize {
    let (mut hash, mut at) = (0_u32, 0);
    while at < word.len() {
        hash = (hash ^ word[at] as u32).wrapping_mul(0x0100_0193);
        at += 1;
    }
    (hash >> 12) as usize % PLACES
}

/// The languages that a word is a small word of, one bit for each.
fn languages_of(word: &[u8]) -> u8 {
    let mut place = place_of(word);
    while TABLE[place].1 != 0 {
        if TABLE[place].0 == word {
            return TABLE[place].1;
        }
        place = (place + 1) % PLACES;
    }
    0
}

static LANGUAGES: [Language; 7] = [
    // Russian
    Language {
        stems: None,
        words: &[
            "без",
            "бы",
            "был",
            "была",
            "были",
            "было",
            "быть",
            "в",
            "вам",
            "вас",
            "ведь",
            "весь",
            "во",
            "вот",
            "все",
            "всего",
            "всех",
            "всё",
            "вы",
            "где",
            "да",
            "даже",
            "для",
            "до",
            "его",
            "ее",
            "ей",
            "если",
            "есть",
            "еще",
            "ещё",
            "её",
            "же",
            "за",
            "здесь",
            "и",
            "из",
            "или",
            "им",
            "их",
            "к",
            "как",
            "какая",
            "какие",
            "какой",
            "каком",
            "когда",
            "кто",
            "ли",
            "мне",
            "мой",
            "мы",
            "на",
            "над",
            "надо",
            "нам",
            "нас",
            "наш",
            "не",
            "него",
            "нет",
            "ни",
            "но",
            "ну",
            "о",
            "об",
            "он",
            "она",
            "они",
            "оно",
            "от",
            "отчего",
            "по",
            "под",
            "потом",
            "почему",
            "при",
            "про",
            "раз",
            "с",
            "сам",
            "себя",
            "со",
            "так",
            "также",
            "там",
            "те",
            "теперь",
            "то",
            "тоже",
            "только",
            "том",
            "тот",
            "ты",
            "у",
            "уж",
            "уже",
            "чего",
            "чем",
            "что",
            "чтобы",
            "эта",
            "эти",
            "это",
            "этого",
            "этой",
            "этом",
            "этот",
            "я",
        ],
    },
    // Italian
    Language {
        stems: Some(Algorithm::Italian),
        words: &[
            "a", "abbiamo", "ad", "ai", "al", "alla", "alle", "anche", "ancora", "avevo", "c",
            "che", "chi", "ci", "col", "come", "con", "cosa", "cui", "da", "dai", "dal", "dalla",
            "dei", "del", "della", "delle", "di", "dove", "e", "ed", "era", "erano", "fa", "gia",
            "gli", "ha", "hai", "hanno", "ho", "i", "il", "in", "io", "l", "la", "le", "lo", "ma",
            "mi", "mio", "ne", "nei", "nel", "nella", "noi", "non", "o", "ora", "per", "perche",
            "piu", "po", "poi", "prima", "qual", "quale", "quali", "quando", "quanto", "quella",
            "quello", "questa", "questi", "questo", "se", "sei", "si", "sia", "sono", "sta", "su",
            "sul", "sulla", "ti", "tra", "tu", "un", "una", "uno", "vi",
        ],
    },
    // Portuguese
    Language {
        stems: Some(Algorithm::Portuguese),
        words: &[
            "a", "ainda", "ao", "aos", "as", "ate", "com", "como", "da", "das", "de", "depois",
            "do", "dos", "e", "ela", "ele", "em", "entao", "era", "essa", "esse", "esta", "estava",
            "este", "eu", "foi", "ha", "isso", "ja", "la", "mais", "mas", "me", "mesmo", "meu",
            "minha", "muito", "na", "nao", "nas", "no", "nos", "o", "onde", "os", "ou", "para",
            "pela", "pelo", "por", "porque", "pra", "quais", "qual", "quando", "que", "quem", "se",
            "sem", "ser", "seu", "so", "sua", "tambem", "tem", "ter", "tinha", "um", "uma", "voce",
        ],
    },
    // Spanish
    Language {
        stems: Some(Algorithm::Spanish),
        words: &[
            "a", "al", "algo", "ante", "asi", "aun", "como", "con", "cual", "cuando", "de", "del",
            "desde", "donde", "e", "el", "ella", "en", "entre", "era", "es", "esa", "ese", "eso",
            "esta", "estaba", "este", "esto", "fue", "ha", "hay", "he", "la", "las", "le", "les",
            "lo", "los", "mas", "me", "mi", "muy", "ni", "no", "nos", "o", "para", "pero", "por",
            "porque", "que", "quien", "se", "ser", "si", "sin", "sobre", "son", "su", "sus",
            "tambien", "te", "tu", "un", "una", "uno", "y", "ya", "yo",
        ],
    },
    // French
    Language {
        stems: Some(Algorithm::French),
        words: &[
            "a", "ai", "alors", "au", "aux", "avait", "avec", "avons", "c", "ca", "ce", "ces",
            "cette", "comme", "comment", "d", "dans", "de", "des", "donc", "du", "elle", "en",
            "est", "et", "etait", "etre", "eu", "fait", "il", "ils", "j", "je", "l", "la", "le",
            "les", "leur", "mais", "me", "meme", "mes", "moi", "mon", "n", "ne", "nos", "notre",
            "nous", "on", "ont", "ou", "par", "pas", "plus", "pour", "pourquoi", "qu", "quand",
            "que", "quel", "quelle", "quelles", "quels", "qui", "quoi", "s", "sa", "se", "ses",
            "si", "son", "sont", "sur", "t", "tu", "un", "une", "vous", "y",
        ],
    },
    // German
    Language {
        stems: Some(Algorithm::German),
        words: &[
            "aber", "als", "am", "an", "auch", "auf", "aus", "bei", "bin", "bis", "da", "damit",
            "dann", "das", "dass", "dem", "den", "denn", "der", "des", "die", "dies", "diese",
            "dieser", "doch", "du", "durch", "ein", "eine", "einem", "einen", "einer", "eines",
            "er", "es", "fur", "gab", "gibt", "haben", "hat", "hatte", "hatten", "ich", "ihr",
            "im", "in", "ist", "ja", "jetzt", "kann", "kein", "keine", "man", "mehr", "mein",
            "mich", "mir", "mit", "muss", "nach", "nicht", "noch", "nun", "nur", "ob", "oder",
            "ohne", "schon", "sein", "sich", "sie", "sind", "so", "soll", "uber", "um", "und",
            "uns", "unser", "vom", "von", "vor", "war", "waren", "warum", "was", "welche",
            "welcher", "welches", "wenn", "wer", "werden", "wie", "wieder", "wir", "wird", "wo",
            "worden", "wurde", "zu", "zum", "zur",
        ],
    },
    // Czech
    Language {
        stems: None,
        words: &[
            "a", "aby", "ale", "ani", "asi", "az", "bez", "bude", "budu", "by", "byl", "byla",
            "bylo", "co", "coz", "do", "ho", "i", "ja", "jak", "jake", "jako", "jaky", "je",
            "jeho", "jeji", "jen", "jeste", "jestli", "ji", "jsem", "jsme", "jsou", "k", "kam",
            "kde", "kdo", "kdyz", "ke", "ktera", "ktere", "ktery", "ma", "me", "mi", "mit", "mne",
            "na", "nad", "nam", "nas", "ne", "nebo", "neni", "nez", "o", "od", "po", "pod",
            "podle", "pro", "proc", "protoze", "s", "se", "si", "ta", "tady", "tak", "take", "tam",
            "te", "ted", "ten", "to", "toho", "tom", "tu", "ty", "u", "uz", "v", "ve", "vsak", "z",
            "za", "ze",
        ],
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tables_are_sorted_and_folded() {
        for language in &LANGUAGES {
            let unsorted = language.words.windows(2).find(|two| two[0] >= two[1]);
            assert_eq!(unsorted, None);
            for word in language.words {
                assert_eq!(crate::terms::folded(word), *word);
            }
        }
    }

    fn check(prompt: &str, small: &str, other: &str) {
        let language = Language::of(prompt).expect(prompt);
        assert!(language.is_small(small), "{prompt}: {small}");
        assert!(!language.is_small(other), "{prompt}: {other}");
    }

    #[test]
    fn the_language_of_a_text_is_told_by_its_small_words() {
        check("in quale cartella gira il progetto?", "quale", "progetto");
        check("на каком порту открывать сайт?", "на", "порту");
        check("welche Version hatten wir für die Tests?", "wir", "version");
        check("qual era o comando para rodar os testes?", "qual", "comando");
        check("¿por qué no arranca el servidor?", "por", "servidor");
        check("pourquoi le serveur ne démarre pas ?", "pourquoi", "serveur");
        check("kde je ten soubor s nastavením?", "kde", "soubor");
        assert!(Language::of("why does the process die when I come in?").is_none());
        assert!(Language::of("").is_none());
    }

    #[test]
    fn a_prompt_without_small_words_is_in_the_language_of_what_was_said() {
        let said = ["ho finito il test della cartella", "cargo build"];
        let stem = |prompt: &str| Language::of_prompt(prompt, &said)?.stem("progetti");
        assert_eq!(stem("errori deploy?").as_deref(), Some("progett"));
        assert_eq!(stem("errors of the deploy?"), None);
        assert!(Language::of_prompt("errori deploy?", &[]).is_none());
        let short = Language::of_prompt("l'errore?", &[]).unwrap();
        assert!(short.is_small("l") && Language::of("l'errore?").is_none());
    }

    #[test]
    fn forms_of_a_word_have_one_stem() {
        for (text, forms) in [
            ("che cosa gira nella cartella", ["progetto", "progetti"]),
            ("qual era o comando para isso", ["configuração", "configurações"]),
            ("por qué no arranca el servidor", ["aplicación", "aplicaciones"]),
            ("pourquoi le serveur ne démarre pas", ["fichier", "fichiers"]),
            ("wo ist die Datei von gestern und warum", ["Einstellung", "Einstellungen"]),
        ] {
            let language = Language::of(text).expect(text);
            let [one, many] = forms.map(|form| language.stem(form).expect(form));
            assert_eq!(one, many, "{text}");
            assert_eq!(terms::folded(&one), one);
            assert_eq!(language.stem("main.rs"), None);
        }
    }

    #[test]
    fn every_small_word_is_in_the_table() {
        for (bit, language) in LANGUAGES.iter().enumerate() {
            for word in language.words {
                assert!(word.len() <= LONGEST, "{word}");
                assert_eq!(languages_of(word.as_bytes()) >> bit & 1, 1, "{word}");
            }
        }
        assert_eq!(languages_of(b"progetto"), 0);
    }
}
