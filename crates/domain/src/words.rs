//! Tables of English words.

/// Forms that a stemmer does not bring together, with the word they are forms of; sorted.
const IRREGULAR: &[(&str, &str)] = &[
    ("arisen", "arise"),
    ("arose", "arise"),
    ("ate", "eat"),
    ("awoke", "awake"),
    ("awoken", "awake"),
    ("beaten", "beat"),
    ("became", "become"),
    ("began", "begin"),
    ("begun", "begin"),
    ("bent", "bend"),
    ("bit", "bite"),
    ("bitten", "bite"),
    ("bled", "bleed"),
    ("blew", "blow"),
    ("blown", "blow"),
    ("bore", "bear"),
    ("borne", "bear"),
    ("bought", "buy"),
    ("bound", "bind"),
    ("bred", "breed"),
    ("broke", "break"),
    ("broken", "break"),
    ("brought", "bring"),
    ("built", "build"),
    ("burnt", "burn"),
    ("came", "come"),
    ("caught", "catch"),
    ("children", "child"),
    ("chose", "choose"),
    ("chosen", "choose"),
    ("crept", "creep"),
    ("dealt", "deal"),
    ("drank", "drink"),
    ("drawn", "draw"),
    ("dreamt", "dream"),
    ("drew", "draw"),
    ("driven", "drive"),
    ("drove", "drive"),
    ("drunk", "drink"),
    ("dug", "dig"),
    ("eaten", "eat"),
    ("fallen", "fall"),
    ("fed", "feed"),
    ("feet", "foot"),
    ("fell", "fall"),
    ("felt", "feel"),
    ("fled", "flee"),
    ("flew", "fly"),
    ("flies", "fly"),
    ("flown", "fly"),
    ("forbade", "forbid"),
    ("forbidden", "forbid"),
    ("forgave", "forgive"),
    ("forgiven", "forgive"),
    ("forgot", "forget"),
    ("forgotten", "forget"),
    ("fought", "fight"),
    ("found", "find"),
    ("froze", "freeze"),
    ("frozen", "freeze"),
    ("gave", "give"),
    ("geese", "goose"),
    ("given", "give"),
    ("gone", "go"),
    ("got", "get"),
    ("gotten", "get"),
    ("grew", "grow"),
    ("grown", "grow"),
    ("halves", "half"),
    ("heard", "hear"),
    ("held", "hold"),
    ("heroes", "hero"),
    ("hid", "hide"),
    ("hidden", "hide"),
    ("hung", "hang"),
    ("kept", "keep"),
    ("knelt", "kneel"),
    ("knew", "know"),
    ("knives", "knife"),
    ("known", "know"),
    ("laid", "lay"),
    ("leant", "lean"),
    ("learnt", "learn"),
    ("leaves", "leaf"),
    ("led", "lead"),
    ("left", "leave"),
    ("lent", "lend"),
    ("lit", "light"),
    ("lives", "life"),
    ("loaves", "loaf"),
    ("lost", "lose"),
    ("made", "make"),
    ("meant", "mean"),
    ("men", "man"),
    ("met", "meet"),
    ("mice", "mouse"),
    ("paid", "pay"),
    ("people", "person"),
    ("potatoes", "potato"),
    ("proven", "prove"),
    ("ran", "run"),
    ("rang", "ring"),
    ("ridden", "ride"),
    ("risen", "rise"),
    ("rode", "ride"),
    ("rose", "rise"),
    ("rung", "ring"),
    ("said", "say"),
    ("sang", "sing"),
    ("sank", "sink"),
    ("sat", "sit"),
    ("saw", "see"),
    ("seen", "see"),
    ("sent", "send"),
    ("sewn", "sew"),
    ("shaken", "shake"),
    ("shelves", "shelf"),
    ("shone", "shine"),
    ("shook", "shake"),
    ("shot", "shoot"),
    ("shown", "show"),
    ("shrank", "shrink"),
    ("shrunk", "shrink"),
    ("slept", "sleep"),
    ("slid", "slide"),
    ("sold", "sell"),
    ("sought", "seek"),
    ("sped", "speed"),
    ("spent", "spend"),
    ("spoke", "speak"),
    ("spoken", "speak"),
    ("sprang", "spring"),
    ("sprung", "spring"),
    ("spun", "spin"),
    ("stole", "steal"),
    ("stolen", "steal"),
    ("stood", "stand"),
    ("stricken", "strike"),
    ("striven", "strive"),
    ("strove", "strive"),
    ("struck", "strike"),
    ("stuck", "stick"),
    ("stung", "sting"),
    ("sung", "sing"),
    ("sunk", "sink"),
    ("swam", "swim"),
    ("swept", "sweep"),
    ("swollen", "swell"),
    ("swore", "swear"),
    ("sworn", "swear"),
    ("swum", "swim"),
    ("swung", "swing"),
    ("taken", "take"),
    ("taught", "teach"),
    ("teeth", "tooth"),
    ("thieves", "thief"),
    ("thought", "think"),
    ("threw", "throw"),
    ("thrown", "throw"),
    ("told", "tell"),
    ("tomatoes", "tomato"),
    ("took", "take"),
    ("tore", "tear"),
    ("torn", "tear"),
    ("undergone", "undergo"),
    ("understood", "understand"),
    ("underwent", "undergo"),
    ("went", "go"),
    ("wept", "weep"),
    ("withdrawn", "withdraw"),
    ("withdrew", "withdraw"),
    ("wives", "wife"),
    ("woke", "wake"),
    ("woken", "wake"),
    ("wolves", "wolf"),
    ("women", "woman"),
    ("won", "win"),
    ("wore", "wear"),
    ("worn", "wear"),
    ("wound", "wind"),
    ("wove", "weave"),
    ("woven", "weave"),
    ("written", "write"),
    ("wrote", "write"),
];

/// Words that say little about what a text is about; stemmed, as the index has them; sorted.
const STOP: &[&str] = &[
    "a", "about", "abov", "after", "again", "against", "all", "also", "am", "an", "and", "ani",
    "are", "as", "at", "be", "becaus", "been", "befor", "being", "below", "between", "both", "but",
    "by", "can", "cant", "could", "d", "did", "didn", "didnt", "do", "doe", "doesn", "doesnt",
    "don", "dont", "down", "dure", "each", "either", "els", "ever", "everi", "few", "for", "from",
    "further", "had", "has", "have", "he", "her", "here", "herself", "him", "himself", "his",
    "how", "i", "if", "in", "into", "is", "isn", "isnt", "it", "its", "itself", "just", "kind",
    "let", "like", "ll", "m", "may", "me", "might", "more", "most", "much", "must", "my", "myself",
    "no", "nor", "not", "now", "of", "off", "on", "onc", "onli", "or", "other", "our", "ourselv",
    "out", "over", "own", "pleas", "re", "s", "same", "shall", "she", "should", "sinc", "so",
    "some", "sort", "such", "t", "than", "that", "the", "their", "them", "themselv", "then",
    "there", "these", "they", "this", "those", "through", "to", "too", "type", "under", "until",
    "up", "upon", "us", "ve", "veri", "was", "wasn", "wasnt", "we", "were", "what", "when",
    "where", "whether", "whi", "which", "while", "who", "whom", "whose", "will", "win", "with",
    "wont", "would", "yes", "you", "your", "yourself", "yourselv",
];

/// Visits what irregular forms of words with this first byte begin with.
pub(crate) fn firsts_of(first: u8, mut visit: impl FnMut(u8)) {
    for (form, _) in IRREGULAR.iter().filter(|(_, base)| base.as_bytes().first() == Some(&first)) {
        form.bytes().take(1).for_each(&mut visit);
    }
}

/// The word that `form` is an irregular form of, or `form` itself.
pub(crate) fn base(form: &str) -> &str {
    IRREGULAR.binary_search_by_key(&form, |(form, _)| form).map_or(form, |at| IRREGULAR[at].1)
}

/// Whether a term says little about what a text is about.
pub fn is_stop(term: &str) -> bool {
    if term.len() > LONGEST_STOP {
        return false;
    }
    let mut slot = stop_slot(term.as_bytes());
    while let Some(at) = usize::from(STOP_SLOTS[slot]).checked_sub(1) {
        if STOP[at] == term {
            return true;
        }
        slot = (slot + 1) % STOP_SLOTS.len();
    }
    false
}

/// The place of a term in [`STOP_SLOTS`], or the one before it.
const fn stop_slot(term: &[u8]) -> usize {
    let (mut hash, mut at) = (0_u32, 0);
    while at < term.len() {
        hash = (hash ^ term[at] as u32).wrapping_mul(0x0100_0193);
        at += 1;
    }
    (hash >> 12) as usize % STOP_SLOTS_COUNT
}

const STOP_SLOTS_COUNT: usize = (STOP.len() * 4).next_power_of_two();

/// For each hash the number of a word, counted from 1: every term of a text is looked up.
#[expect(clippy::cast_possible_truncation, reason = "a few hundred words")]
static STOP_SLOTS: [u16; STOP_SLOTS_COUNT] = {
    let mut slots = [0; STOP_SLOTS_COUNT];
    let mut at = 0;
    while at < STOP.len() {
        let mut slot = stop_slot(STOP[at].as_bytes());
        while slots[slot] != 0 {
            slot = (slot + 1) % STOP_SLOTS_COUNT;
        }
        at += 1;
        slots[slot] = at as u16;
    }
    slots
};

/// No such word is longer: most terms of a text need no closer look.
const LONGEST_STOP: usize = {
    let (mut longest, mut at) = (0, 0);
    while at < STOP.len() {
        if STOP[at].len() > longest {
            longest = STOP[at].len();
        }
        at += 1;
    }
    longest
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tables_are_sorted() {
        assert!(IRREGULAR.is_sorted());
        assert!(STOP.is_sorted());
        assert!(is_stop("what") && !is_stop("login"));
        assert!(STOP.iter().all(|term| is_stop(term)));
        assert_eq!((base("bought"), base("login")), ("buy", "login"));
    }
}
