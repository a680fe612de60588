//! Makes the tables that tokens are counted with, so that nothing has to be unpacked when the program starts.

#![allow(clippy::unwrap_used, clippy::expect_used)] // A build that cannot go on stops here.

#[path = "src/hash.rs"]
mod hash;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::{env, fs};

use regex_syntax::hir::{Class, HirKind};

/// The classes of characters in the order of their numbers, which `src/split.rs` knows as well.
const CLASSES: [&str; 7] = [
    r"[\p{Lu}\p{Lt}]",
    r"\p{Ll}",
    r"[\p{Lm}\p{Lo}]",
    r"\p{M}",
    r"\p{N}",
    r"[\s--[\r\n]]",
    r"[\r\n]",
];
const OTHER: u8 = 7;
const BLOCK: usize = 128;

type Tokens<'a> = HashMap<&'a [u8], u32>;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=src/hash.rs");
    println!("cargo::rerun-if-changed=data/o200k.vocabulary");
    let out = PathBuf::from(env::var_os("OUT_DIR").unwrap());
    let vocabulary = fs::read("data/o200k.vocabulary").unwrap();
    let (tokens, starts) = read(&vocabulary);
    let all: Tokens<'_> = tokens.iter().zip(0..).map(|(token, rank)| (*token, rank)).collect();

    write(&out.join("bytes"), &tokens.concat());
    let mut lengths_of: Vec<u8> =
        tokens.iter().map(|token| u8::try_from(token.len()).unwrap()).collect();
    lengths_of.resize(lengths_of.len().next_multiple_of(8), 0);
    write(&out.join("lengths"), &lengths_of);
    let starts: Vec<u8> = starts.iter().step_by(8).flat_map(|start| start.to_le_bytes()).collect();
    write(&out.join("starts"), &starts);
    let slots: Vec<u8> = slots(&tokens)
        .into_iter()
        .flat_map(|slot| slot.to_le_bytes().into_iter().take(3))
        .collect();
    write(&out.join("slots"), &slots);
    let firsts = tokens.iter().zip(0..).map(|(token, rank)| first(token, rank, &all));
    write(&out.join("firsts"), &firsts.collect::<Vec<u8>>());
    let (which, sets) = lengths(&tokens);
    write(&out.join("which"), &which);
    write(&out.join("sets"), &sets);
    let (blocks, classes) = classes();
    write(&out.join("blocks"), &blocks);
    write(&out.join("classes"), &classes);
}

fn write(path: &Path, bytes: &[u8]) {
    fs::write(path, bytes).unwrap();
}

/// The tokens by rank, and where each begins: a file of 199,998 lengths, and the bytes of all.
fn read(vocabulary: &[u8]) -> (Vec<&[u8]>, Vec<u32>) {
    const TOKENS: usize = 199_998;
    let (lengths, mut bytes) = vocabulary.split_at(TOKENS);
    let mut starts = vec![0];
    let mut tokens = Vec::with_capacity(TOKENS);
    for length in lengths {
        let token;
        (token, bytes) = bytes.split_at(usize::from(*length));
        tokens.push(token);
        starts.push(starts.last().unwrap() + u32::from(*length));
    }
    assert!(bytes.is_empty() && tokens.len() < 1 << hash::RANK_BITS);
    (tokens, starts)
}

/// A hash table with linear probing: the rank, and a part of the hash above it.
fn slots(tokens: &[&[u8]]) -> Vec<u32> {
    let mut slots = vec![hash::EMPTY; hash::SLOTS];
    for (token, rank) in tokens.iter().zip(0u32..) {
        let (mut at, mark) = hash::place(hash::of(token));
        while slots[at] != hash::EMPTY {
            at = hash::after(at);
        }
        slots[at] = mark << hash::RANK_BITS | rank;
        assert!(slots[at] < hash::EMPTY);
    }
    slots
}

/// How long the first of the two tokens is that are merged into this one last; nothing where it is a single byte.
fn first(token: &[u8], rank: u32, all: &Tokens<'_>) -> u8 {
    if token.len() == 1 {
        return 0;
    }
    let mut ends: Vec<usize> = (0..=token.len()).collect();
    while ends.len() > 3 {
        let merged = |at: usize| all.get(&token[ends[at]..ends[at + 2]]).filter(|of| **of < rank);
        let best = (0..ends.len() - 2).filter_map(|at| merged(at).map(|of| (*of, at))).min();
        let (_, at) = best.expect("every token can be merged from its bytes");
        ends.remove(at + 1);
    }
    assert!(all.contains_key(&token[..ends[1]]) && all.contains_key(&token[ends[1]..]));
    u8::try_from(ends[1]).unwrap()
}

/// For each two bytes which set of lengths, and those sets: a bit for each length that a token has which begins so.
fn lengths(tokens: &[&[u8]]) -> (Vec<u8>, Vec<u8>) {
    let mut of = vec![1u128; 1 << 16];
    for token in tokens.iter().filter(|token| token.len() > 1) {
        of[usize::from(token[0]) << 8 | usize::from(token[1])] |= 1 << (token.len() - 1);
    }
    let mut numbers: HashMap<u128, u16> = HashMap::new();
    let (mut which, mut sets) = (Vec::new(), Vec::new());
    for set in of {
        let next = u16::try_from(numbers.len()).unwrap();
        let number = *numbers.entry(set).or_insert_with(|| {
            sets.extend_from_slice(&set.to_le_bytes());
            next
        });
        which.extend_from_slice(&number.to_le_bytes());
    }
    (which, sets)
}

/// The class of every character, in two steps: the number of a block, and what is in the block.
fn classes() -> (Vec<u8>, Vec<u8>) {
    let mut class_of = vec![OTHER; 0x11_0000];
    for (class, number) in CLASSES.iter().zip(0u8..) {
        let parsed = regex_syntax::parse(class).unwrap();
        let HirKind::Class(Class::Unicode(ranges)) = parsed.kind() else { panic!("{class}") };
        for range in ranges.ranges() {
            class_of[range.start() as usize..=range.end() as usize].fill(number);
        }
    }
    let mut numbers: HashMap<&[u8], u16> = HashMap::new();
    let (mut blocks, mut classes) = (Vec::new(), Vec::new());
    for block in class_of.chunks(BLOCK) {
        let next = u16::try_from(numbers.len()).unwrap();
        let number = *numbers.entry(block).or_insert_with(|| {
            classes.extend_from_slice(block);
            next
        });
        blocks.extend_from_slice(&number.to_le_bytes());
    }
    (blocks, classes)
}
