//! Reads the whole log of a folder: its lines, their order, and what is wrong with it.
//!
//! Every line has a checksum, an id, and the id of its predecessor. So a line that was changed, removed or moved is noticed,
//! even by somebody who has never seen the log before.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::ops::Range;

use jiff::Timestamp;
use rethread_workspace::{Entry, Item, Line, Loose, digest};

use super::compare::{self, Branch, Comparison, Known};
use super::returned::{self, Returned};
use super::{FolderReport, Place, lines};
use crate::{Engine, Result, entry};

/// The content of a folder's log.
pub(super) struct Found {
    pub(super) branches: Vec<Branch<Line>>,
    /// Lines that somebody wrote by hand, by their position in the file: to be rewritten as ours.
    pub(super) by_hand: Vec<(Range<u64>, Line)>,
    pub(super) troubles: Vec<String>,
    /// Sessions that begin here: several if two clones gave them the same folder.
    pub(super) roots: BTreeSet<String>,
    pub(super) torn: Option<Range<u64>>,
    /// Messages that were purged elsewhere but not here: branch, number, and time.
    pub(super) purged: Vec<(usize, u32, Timestamp)>,
    /// Texts of purged messages that the file still has.
    pub(super) purged_texts: Vec<String>,
    /// Lines that were damaged or missing and have been restored.
    pub(super) returned: Vec<Returned>,
    /// Whether there is no line at all, not even a damaged one.
    pub(super) is_empty: bool,
}

impl Found {
    /// Rewrites lines of people as ours, so that they are known the next time.
    pub(super) fn write_by_hand(&self, place: &Place) -> Result<()> {
        if self.by_hand.is_empty() {
            return Ok(());
        }
        let mut entries = Vec::new();
        let mut from = 0;
        for (at, line) in &self.by_hand {
            if from < at.start {
                entries.push(Entry::Raw(place.locked.bytes(from..at.start)?));
            }
            entries.push(Entry::Line(line.clone()));
            from = at.end;
        }
        let size = place.locked.stamp()?.map_or(0, |stamp| stamp.size);
        if from < size {
            entries.push(Entry::Raw(place.locked.bytes(from..size)?));
        }
        place.locked.replace_log(&mut entries.into_iter())?;
        Ok(())
    }

    /// Sets a damaged end aside, so that the next line starts on a line of its own.
    pub(super) fn set_aside(&self, place: &Place, followed: &mut FolderReport) -> Result<()> {
        if self.torn.is_none() {
            return Ok(());
        }
        if let Some(torn) = place.locked.truncate_torn()? {
            followed.troubles.push(format!(
                "{}: its log ended in the middle of a line; those {} bytes are kept in {}",
                place.home.path,
                torn.at.end - torn.at.start,
                torn.aside.display()
            ));
        }
        Ok(())
    }
}

/// The lines of a log, as they are in the file.
#[derive(Default)]
struct Log {
    lines: Vec<(Line, u64)>,
    written: Vec<(Range<u64>, Loose, u64)>,
    edited: Vec<(Loose, u64)>,
    troubles: Vec<String>,
    has_newer: bool,
}

impl Log {
    fn take(&mut self, item: Item) {
        match item {
            Item::Line { line, number, .. } => self.lines.push((line, number)),
            Item::Written { line, at, number } => self.written.push((at, line, number)),
            Item::Edited { line, number, .. } => self.edited.push((line, number)),
            Item::Newer { number, version, .. } => {
                self.has_newer = true;
                self.troubles.push(format!(
                    "line {number} was written by a newer version ({version}): left as it is"
                ));
            }
            Item::Conflict { number, .. } => self
                .troubles
                .push(format!("line {number} is a mark of a merge that was not finished")),
            Item::Damaged { at, number, why } => self.troubles.push(format!(
                "line {number} (bytes {} to {}) is damaged: {why}",
                at.start, at.end
            )),
        }
    }
}

impl Engine {
    /// Reads the whole log of a folder. `last` are the line ids with which it should end, by its description.
    pub(super) fn look(
        &self,
        place: &Place,
        root: &str,
        known: &[Known],
        last: &[String],
    ) -> Result<Found> {
        let mut log = Log::default();
        let end = place.locked.read(0, &mut |item| log.take(item))?;
        let Log { lines, written, edited, mut troubles, has_newer } = log;
        let is_empty = lines.is_empty()
            && written.is_empty()
            && edited.is_empty()
            && troubles.is_empty()
            && end.torn.is_none();
        let mut comparison = Comparison::new(root, known);
        let here: HashSet<&str> = lines.iter().map(|(line, _)| line.id.as_str()).collect();
        let roots = lines.iter().map(|(line, _)| line.after.as_str());
        let roots = roots.filter(|after| compare::is_root(after) && !here.contains(after));
        let roots: BTreeSet<String> = roots.map(ToOwned::to_owned).collect();
        let returned = returned::find(&comparison, &lines);
        let marked: HashMap<String, Timestamp> = lines
            .iter()
            .filter_map(|(line, _)| Some((line.id.clone(), purged_at(line)?)))
            .collect();
        let is_purged =
            |id: &str| marked.contains_key(id) || known.iter().any(|one| one.purged.contains(id));
        let purged_texts = lines
            .iter()
            .filter(|(line, _)| purged_at(line).is_none() && is_purged(&line.id))
            .map(|(line, _)| line.content.clone())
            .collect();
        if !has_newer {
            troubles.extend(missing(&comparison, &lines, &edited, last));
        }
        for (line, number) in &edited {
            let is_known = line.id.as_deref().is_some_and(|id| comparison.knows(id));
            troubles.push(changed(line, *number, is_known));
        }
        // If a line occurs twice, the purged one counts.
        let good = lines
            .into_iter()
            .filter(|(line, _)| purged_at(line).is_some() || !marked.contains_key(&line.id));
        see_in_order(&mut comparison, good.collect(), &mut troubles);
        let by_hand = self.see_written(&mut comparison, written, &mut troubles);
        let purged = marked.into_iter().filter_map(|(id, at)| {
            let (branch, seq) = comparison.place_of(&id)?;
            let known = known.get(branch)?;
            (known.ids.contains(&id) && !known.purged.contains(&id)).then_some((branch, seq, at))
        });
        let purged = purged.collect();
        Ok(Found {
            branches: comparison.finish(),
            by_hand,
            troubles,
            roots,
            torn: end.torn,
            purged,
            purged_texts,
            returned,
            is_empty,
        })
    }

    /// Lines of people continue the session at its end, wherever in the file they are.
    fn see_written(
        &self,
        comparison: &mut Comparison<Line>,
        written: Vec<(Range<u64>, Loose, u64)>,
        troubles: &mut Vec<String>,
    ) -> Vec<(Range<u64>, Line)> {
        let now = self.clock.now().to_string();
        let mut by_hand = Vec::new();
        for (at, line, number) in written {
            if line.id.as_deref().is_some_and(|id| comparison.knows(id)) {
                // The checksum was removed together with the edit.
                troubles.push(changed(&line, number, true));
                continue;
            }
            let line = by_a_person(line, comparison.last_id(), &now);
            if let Err(why) = lines::check(&line) {
                troubles.push(format!("line {number} is no message: {why}"));
                continue;
            }
            by_hand.push((at, line.clone()));
            comparison.see(line.id.clone(), Some(&line.after.clone()), line);
        }
        by_hand
    }
}

/// Takes the lines in the order of the conversation: each after its predecessor.
fn see_in_order(
    comparison: &mut Comparison<Line>,
    lines: Vec<(Line, u64)>,
    troubles: &mut Vec<String>,
) {
    let ids: HashSet<String> = lines.iter().map(|(line, _)| line.id.clone()).collect();
    let mut seen: HashSet<String> = HashSet::new();
    let mut waiting: HashMap<String, Vec<(Line, u64)>> = HashMap::new();
    for (line, number) in lines {
        if ids.contains(&line.after) && !seen.contains(&line.after) && line.after != line.id {
            waiting.entry(line.after.clone()).or_default().push((line, number));
            continue;
        }
        let mut next = vec![(line, number)];
        while let Some((line, number)) = next.pop() {
            let id = line.id.clone();
            see(comparison, line, number, troubles);
            for (line, number) in waiting.remove(&id).unwrap_or_default().into_iter().rev() {
                troubles.push(out_of_order(number));
                next.push((line, number));
            }
            seen.insert(id);
        }
    }
    // Lines that form a cycle: nobody wrote that on purpose, but they may hold somebody's text.
    let mut left: Vec<(Line, u64)> = waiting.into_values().flatten().collect();
    left.sort_by_key(|(_, number)| *number);
    for (line, number) in left {
        troubles.push(out_of_order(number));
        see(comparison, line, number, troubles);
    }
}

fn see(comparison: &mut Comparison<Line>, line: Line, number: u64, troubles: &mut Vec<String>) {
    let checked = if comparison.knows(&line.id) { Ok(()) } else { lines::check(&line) };
    match checked {
        Ok(()) => {
            let after = line.after.clone();
            comparison.see(line.id.clone(), Some(&after), line);
        }
        Err(why) => troubles.push(format!("line {number} is no message: {why}")),
    }
}

fn out_of_order(number: u64) -> String {
    format!(
        "line {number} stands before the line that it came after: it is read in the order of the ids; `rethread doctor --repair` puts it back"
    )
}

/// What was removed from a log: predecessors of other lines, and the lines with which it ended.
fn missing(
    comparison: &Comparison<Line>,
    lines: &[(Line, u64)],
    edited: &[(Loose, u64)],
    last: &[String],
) -> Vec<String> {
    let here: HashSet<&str> = lines
        .iter()
        .map(|(line, _)| line.id.as_str())
        .chain(edited.iter().filter_map(|(line, _)| line.id.as_deref()))
        .collect();
    let is_there = |id: &str| here.contains(id) || compare::is_root(id) || comparison.knows(id);
    let gaps = lines.iter().filter(|(line, _)| !is_there(&line.after)).map(|(line, number)| {
        format!(
            "a line is missing before line {number} (message {}): it was taken out; {FROM_GIT}",
            line.after
        )
    });
    let ends = last
        .iter()
        .filter(|id| !is_there(id))
        .map(|id| format!("the last line (message {id}) is missing: it was taken out; {FROM_GIT}"));
    gaps.chain(ends).collect()
}

/// How to restore what only git, or another clone, has.
const FROM_GIT: &str =
    "`git log -p` of messages.jsonl shows it, and putting the line back mends it";

fn changed(line: &Loose, number: u64, is_known: bool) -> String {
    match (&line.id, is_known) {
        (Some(id), true) => format!(
            "line {number} (message {id}) was changed by hand or damaged: the session keeps what was said, the file keeps the change"
        ),
        (Some(id), false) => format!(
            "line {number} (message {id}) was changed by hand or damaged, and is not known here: it is not taken in; {FROM_GIT}"
        ),
        (None, _) => format!("line {number} was changed by hand or damaged; {FROM_GIT}"),
    }
}

/// When the text of a line was purged.
pub(super) fn purged_at(line: &Line) -> Option<Timestamp> {
    line.other.get("purged_at")?.as_str().and_then(|at| entry::time(at).ok())
}

/// A line that a person added.
fn by_a_person(line: Loose, before: &str, now: &str) -> Line {
    let id = line.id.unwrap_or_else(|| {
        digest(&format!("{before}\n{}\n{}", line.role, line.content))[..32].to_owned()
    });
    Line {
        id,
        after: before.to_owned(),
        kind: line.kind.unwrap_or_else(|| lines::MESSAGE.to_owned()),
        role: line.role,
        content: line.content,
        timestamp: line.timestamp.unwrap_or_else(|| now.to_owned()),
        conversation: line
            .conversation
            .unwrap_or_else(|| rethread_domain::conversation::DEFAULT.to_owned()),
        agent: line.agent,
        other: line.other,
    }
}
