//! Records that hang together as a tree: which of them are the conversation, and which were left behind.

use std::collections::{HashMap, HashSet};

use rethread_domain::conversation::DEFAULT;
use serde_json::Value;

use crate::jsonl::Step;
use crate::lines::Place;
use crate::speech::short_digest;

/// What a record does for the conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Says {
    Nothing,
    /// Something, but the conversation does not end with it.
    Aside,
    Something,
}

/// A record that names the one it follows. Ids are digests.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Node {
    pub(crate) id: u64,
    pub(crate) parent: Option<u64>,
    /// What came before it for people, though the model is not told it any more.
    pub(crate) before: Option<u64>,
    pub(crate) place: Place,
    pub(crate) says: Says,
    /// Whether it belongs to an agent that was started by the one of the session.
    pub(crate) is_aside: bool,
    /// Records with the same number are one message of the model; 0 is none.
    pub(crate) message: u64,
    /// Whether it answers the call of a tool.
    pub(crate) is_result: bool,
}

/// The records of a file, in its order.
#[derive(Debug, Default)]
pub(crate) struct Tree {
    nodes: Vec<Node>,
    by_id: HashMap<u64, usize>,
    /// Where the conversation ended when it was read last; after `plan`, where it ends now.
    tip: Option<u64>,
    /// The names of conversations, by their numbers.
    conversations: Vec<String>,
}

/// What stands for the id of a record.
pub(crate) fn id_of(text: &str) -> u64 {
    short_digest(text.as_bytes()).max(1)
}

/// Where a record belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Belongs {
    Main,
    /// A part of the tree that was left behind, named by its first record.
    Branch(u64),
    /// The talk of another agent, named by its first record.
    Aside(u64),
}

/// The records in the order of the file, each with where it belongs, and the id of the last one of the conversation.
type Ordered = (Vec<(Node, Belongs)>, Option<u64>);

impl Tree {
    /// A tree that goes on where an earlier reading of it ended.
    pub(crate) fn after(state: &Value) -> Option<Self> {
        Some(Self { tip: Some(state.get("tip")?.as_u64()?), ..Self::default() })
    }

    /// The last record of the conversation.
    pub(crate) const fn tip(&self) -> Option<u64> {
        self.tip
    }

    /// The name of a conversation.
    pub(crate) fn conversation(&self, number: u32) -> String {
        let name = self.conversations.get(number as usize);
        name.map_or_else(|| DEFAULT.to_owned(), Clone::clone)
    }

    /// The steps through the records, and through those beside the tree. `None` where there is nothing, or where it does not
    /// all follow from where the last reading ended.
    pub(crate) fn plan(&mut self, beside: &[Place]) -> Option<Vec<Step>> {
        let (nodes, last) = self.unfold(self.tip)?;
        if nodes.is_empty() && self.tip.is_none() {
            return None;
        }
        let mut conversations = vec![DEFAULT.to_owned()];
        let mut numbers = HashMap::new();
        let mut steps = Vec::with_capacity(nodes.len() + beside.len());
        for (node, belongs) in nodes {
            let (kind, first) = match belongs {
                Belongs::Main => ("", None),
                Belongs::Branch(first) => ("branch", Some(first)),
                Belongs::Aside(first) => ("subagent", Some(first)),
            };
            let conversation = first.map_or(0, |first| {
                *numbers.entry(first).or_insert_with(|| {
                    conversations.push(format!("{kind}-{:08x}", first >> 32));
                    u32::try_from(conversations.len() - 1).unwrap_or(0)
                })
            });
            steps.push(Step { place: node.place, conversation, part: 0 });
        }
        steps.extend(beside.iter().map(|place| Step { place: *place, conversation: 0, part: 0 }));
        steps.sort_by_key(|step| step.place.from);
        self.conversations = conversations;
        self.tip = last.or(self.tip);
        Some(steps)
    }

    /// Adds a record; a later one with the same id takes its place.
    pub(crate) fn add(&mut self, node: Node) {
        match self.by_id.get(&node.id) {
            Some(known) => self.nodes[*known] = node,
            None => {
                self.by_id.insert(node.id, self.nodes.len());
                self.nodes.push(node);
            }
        }
    }

    /// The record that the conversation goes on from: of those that nothing follows, the one after the latest that was said.
    fn leaf(&self) -> Option<usize> {
        let followed: HashSet<u64> = self.nodes.iter().filter_map(|node| node.parent).collect();
        let mut seen = vec![false; self.nodes.len()];
        let mut best: Option<(bool, usize, usize)> = None;
        for (end, node) in self.nodes.iter().enumerate().rev() {
            if followed.contains(&node.id) {
                continue;
            }
            let mut walk = Some(end);
            while let Some(at) = walk.filter(|at| !std::mem::replace(&mut seen[*at], true)) {
                let node = &self.nodes[at];
                if node.says != Says::Nothing {
                    let may_end = node.says == Says::Something && !node.is_aside;
                    best = best.max(Some((may_end, at, end)));
                    break;
                }
                walk = node.parent.and_then(|parent| self.by_id.get(&parent).copied());
            }
        }
        best.map(|(_, _, end)| end)
    }

    /// The records in the order of the file, each with where it belongs, and the id of the last one of the conversation.
    ///
    /// `tip` is where the conversation ended when it was read last: then only what comes after it is here, and `None` says
    /// that it does not all follow from there.
    pub(crate) fn unfold(&self, tip: Option<u64>) -> Option<Ordered> {
        let mut on_path = vec![false; self.nodes.len()];
        let mut walk = self.leaf();
        let mut is_joined = walk.is_none();
        let last = walk.map(|at| self.nodes[at].id);
        while let Some(at) = walk.filter(|at| !on_path[*at]) {
            on_path[at] = true;
            let node = &self.nodes[at];
            is_joined |= tip.is_some() && node.parent == tip;
            let known = |id: Option<u64>| id.and_then(|id| self.by_id.get(&id).copied());
            walk = known(node.parent).or_else(|| known(node.before));
            is_joined |= walk.is_none() && node.before.is_some() && node.before == tip;
        }
        self.join_messages(&mut on_path);
        let mut belongs: Vec<Belongs> = Vec::with_capacity(self.nodes.len());
        for (at, node) in self.nodes.iter().enumerate() {
            let parent = node.parent.and_then(|parent| self.by_id.get(&parent).copied());
            let parent = parent.filter(|parent| *parent < at).map(|parent| belongs[parent]);
            belongs.push(match parent {
                _ if on_path[at] => Belongs::Main,
                Some(Belongs::Aside(first)) if node.is_aside => Belongs::Aside(first),
                _ if node.is_aside => Belongs::Aside(node.id),
                Some(Belongs::Branch(first)) => Belongs::Branch(first),
                _ => Belongs::Branch(node.id),
            });
        }
        // What hangs on earlier records cannot be told without them.
        let is_whole = |belongs: &Belongs| *belongs == Belongs::Main;
        if tip.is_some() && (!is_joined || !belongs.iter().all(is_whole)) {
            return None;
        }
        Some((self.nodes.iter().copied().zip(belongs).collect(), last))
    }

    /// One message of the model can be several records, and the results of its calls hang on each of them: all of that is
    /// said, though only one way leads through the tree.
    fn join_messages(&self, on_path: &mut [bool]) {
        let said: HashSet<u64> = self
            .nodes
            .iter()
            .zip(on_path.iter())
            .filter(|(node, is_on)| **is_on && node.message != 0)
            .map(|(node, _)| node.message)
            .collect();
        let mut joined = HashSet::new();
        for (at, node) in self.nodes.iter().enumerate() {
            if on_path[at] {
                joined.insert(node.id);
                continue;
            }
            let follows = node.parent.is_some_and(|parent| joined.contains(&parent));
            if !node.is_aside && (said.contains(&node.message) || node.is_result && follows) {
                on_path[at] = true;
                joined.insert(node.id);
            }
        }
    }
}
