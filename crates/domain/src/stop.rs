//! Words that say little about what a prompt is about, in the languages that people write in.
//!
//! English ones are in `words`. A word that says nothing in one language may mean something in another (`die`, `come`, `per`),
//! so a table counts only where the prompt is in its language.

/// A language with its words; folded as terms are, unstemmed, sorted.
struct Language {
    words: &'static [&'static str],
}

const LANGUAGES: [Language; 7] = [
    // Russian
    Language {
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

/// The words of a prompt that say little in its language; empty where it is English or cannot be told.
pub(crate) fn of(prompt: &str) -> &'static [&'static str] {
    let folded = crate::terms::folded(prompt);
    let words = || folded.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    let english = words().filter(|word| crate::words::is_stop(word)).count();
    let count = |language: &Language| {
        words().filter(|word| language.words.binary_search(word).is_ok()).count()
    };
    let best = LANGUAGES.iter().map(|language| (count(language), language)).max_by_key(|all| all.0);
    match best {
        Some((count, language)) if count > english => language.words,
        _ => &[],
    }
}

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

    fn check(prompt: &str, without: &str, with: &str) {
        let words = of(prompt);
        assert!(words.contains(&without), "{prompt}: {without}");
        assert!(!words.contains(&with), "{prompt}: {with}");
    }

    #[test]
    fn the_language_of_a_prompt_is_told_by_its_small_words() {
        check("in quale cartella gira il progetto?", "quale", "progetto");
        check("на каком порту открывать сайт?", "на", "порту");
        check("welche Version hatten wir für die Tests?", "wir", "version");
        check("qual era o comando para rodar os testes?", "qual", "comando");
        check("¿por qué no arranca el servidor?", "por", "servidor");
        check("pourquoi le serveur ne démarre pas ?", "pourquoi", "serveur");
        check("kde je ten soubor s nastavením?", "kde", "soubor");
        assert!(of("why does the process die when I come in?").is_empty());
        assert!(of("").is_empty());
    }
}
