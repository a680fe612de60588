//! Compares the log of a folder with the store. Pure: others act on the result.
//!
//! Every line names its predecessor. Unknown lines that continue at the end of a session belong to it; lines that continue at an
//! earlier place are a branch: somebody else continued at the same time.

use std::collections::{HashMap, HashSet};

use rethread_domain::{Seq, SessionId};

/// A session whose messages the folder has to have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Known {
    pub(super) id: SessionId,
    /// Up to here its messages belong to another session in the folder.
    pub(super) base: Seq,
    /// The line ids of the remaining messages, in order.
    pub(super) ids: Vec<String>,
    /// Those whose text was purged.
    pub(super) purged: HashSet<String>,
}

impl Known {
    /// The number of its last message.
    pub(super) fn last(&self) -> Seq {
        self.base.saturating_add(Seq::try_from(self.ids.len()).unwrap_or(Seq::MAX))
    }
}

/// A line that is not known here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Arrival<T> {
    pub(super) id: String,
    pub(super) line: T,
}

/// A session of the folder, after the whole log was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Branch<T> {
    /// The session, or the message of an earlier branch where it begins.
    pub(super) origin: Origin,
    /// Messages to append to it.
    pub(super) arrivals: Vec<Arrival<T>>,
    /// Messages that the folder lacks.
    pub(super) absent: Vec<Seq>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Origin {
    Session(SessionId),
    Fork { of: usize, at: Seq },
}

/// The position of a line: its branch, and its message number.
type Place = (usize, Seq);

#[derive(Debug)]
pub(super) struct Comparison<T> {
    branches: Vec<Branch<T>>,
    /// The last message of each branch.
    tails: Vec<Seq>,
    places: HashMap<String, Place>,
    /// The line id of the last message of the first branch.
    last_id: String,
    present: Vec<Vec<bool>>,
    bases: Vec<Seq>,
    /// The previous line of the file.
    before: Place,
}

impl<T> Comparison<T> {
    /// `root` is the predecessor of the very first line. The first of `known` is the session of the folder.
    pub(super) fn new(root: &str, known: &[Known]) -> Self {
        let mut comparison = Self {
            branches: Vec::new(),
            tails: Vec::new(),
            places: HashMap::from([(root.to_owned(), (0, 0))]),
            last_id: root.to_owned(),
            present: Vec::new(),
            bases: Vec::new(),
            before: (0, 0),
        };
        if let Some(last) = known.first().and_then(|known| known.ids.last()) {
            comparison.last_id.clone_from(last);
        }
        for (branch, known) in known.iter().enumerate() {
            for (seq, id) in (known.base + 1..).zip(&known.ids) {
                comparison.places.insert(id.clone(), (branch, seq));
            }
            let origin = Origin::Session(known.id);
            comparison.branches.push(Branch { origin, arrivals: Vec::new(), absent: Vec::new() });
            comparison.tails.push(known.last());
            comparison.present.push(vec![false; known.ids.len()]);
            comparison.bases.push(known.base);
        }
        comparison
    }

    /// Whether a line with this id is in the store or was seen before.
    pub(super) fn knows(&self, id: &str) -> bool {
        self.places.contains_key(id)
    }

    /// Takes the next line of the file. If its predecessor is missing, the previous line counts as such.
    pub(super) fn see(&mut self, id: String, after: Option<&str>, line: T) {
        if let Some(place) = self.places.get(&id).copied() {
            self.before = place;
            let (branch, seq) = place;
            let base = self.bases.get(branch).copied().unwrap_or(0);
            let index = seq.saturating_sub(base + 1) as usize;
            if let Some(present) =
                self.present.get_mut(branch).and_then(|present| present.get_mut(index))
            {
                *present = true;
            }
            return;
        }
        let parent = match after.and_then(|after| self.places.get(after)) {
            Some(place) => *place,
            // The beginning of another session, which got the same folder in another clone.
            None if after.is_some_and(is_root) => (0, 0),
            None => self.before,
        };
        let place = self.next_to(parent);
        if place.0 == 0 {
            self.last_id.clone_from(&id);
        }
        self.branches[place.0].arrivals.push(Arrival { id: id.clone(), line });
        self.tails[place.0] = place.1;
        self.places.insert(id, place);
        self.before = place;
    }

    /// The branch and the message number of a line.
    pub(super) fn place_of(&self, id: &str) -> Option<(usize, Seq)> {
        self.places.get(id).copied()
    }

    /// The predecessor of a line that continues the session of the folder.
    pub(super) fn last_id(&self) -> &str {
        &self.last_id
    }

    /// The position of a line after another one: at the end of its branch, or in a new branch.
    fn next_to(&mut self, (branch, seq): Place) -> Place {
        if self.tails.get(branch) == Some(&seq) {
            return (branch, seq + 1);
        }
        let origin = Origin::Fork { of: branch, at: seq };
        self.branches.push(Branch { origin, arrivals: Vec::new(), absent: Vec::new() });
        self.tails.push(seq);
        self.bases.push(seq);
        self.present.push(Vec::new());
        (self.branches.len() - 1, seq + 1)
    }

    pub(super) fn finish(mut self) -> Vec<Branch<T>> {
        let seen = self.present.iter().zip(&self.bases);
        for (branch, (present, base)) in self.branches.iter_mut().zip(seen) {
            let numbered = (base + 1..).zip(present);
            branch.absent =
                numbered.filter(|(_, present)| !**present).map(|(seq, _)| seq).collect();
        }
        self.branches
    }
}

/// Whether a line with this predecessor is the first of a session.
pub(super) fn is_root(after: &str) -> bool {
    after.parse::<SessionId>().is_ok()
}

/// The missing messages at the end, and how many others are missing.
pub(super) fn tail(absent: &[Seq], last: Seq) -> (Option<Seq>, usize) {
    let mut first = None;
    let mut expected = last;
    for seq in absent.iter().rev() {
        if *seq != expected {
            break;
        }
        first = Some(*seq);
        expected = expected.saturating_sub(1);
    }
    let at_the_end = first.map_or(0, |first| (last - first + 1) as usize);
    (first, absent.len() - at_the_end)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(base: Seq, ids: &[&str]) -> Known {
        let ids = ids.iter().map(|id| (*id).to_owned()).collect();
        Known { id: SessionId::generate(), base, ids, purged: HashSet::new() }
    }

    fn compare(known: &[Known], lines: &[(&str, &str)]) -> Vec<Branch<()>> {
        let mut comparison = Comparison::new("root", known);
        for (id, after) in lines {
            comparison.see((*id).to_owned(), Some(after), ());
        }
        comparison.finish()
    }

    fn ids(branch: &Branch<()>) -> Vec<&str> {
        branch.arrivals.iter().map(|arrival| arrival.id.as_str()).collect()
    }

    #[test]
    fn what_goes_on_at_the_end_belongs_to_the_session() {
        let found = compare(
            &[known(0, &["a", "b"])],
            &[("a", "root"), ("b", "a"), ("c", "b"), ("d", "c"), ("c", "b")],
        );
        assert_eq!(found.len(), 1);
        assert_eq!(ids(&found[0]), ["c", "d"]);
        assert_eq!(found[0].absent, [] as [Seq; 0]);
    }

    #[test]
    fn what_goes_on_from_an_earlier_place_is_a_branch_in_whatever_order_it_was_merged() {
        let own = [("a", "root"), ("b", "a"), ("c", "b")];
        let other = [("x", "a"), ("y", "x")];
        for lines in [[&own[..], &other[..]].concat(), [&own[..1], &other, &own[1..]].concat()] {
            let found = compare(&[known(0, &["a", "b", "c"])], &lines);
            assert_eq!(found.len(), 2);
            assert_eq!(found[0].arrivals, []);
            assert_eq!(found[1].origin, Origin::Fork { of: 0, at: 1 });
            assert_eq!(ids(&found[1]), ["x", "y"]);
        }
    }

    #[test]
    fn a_branch_that_is_known_goes_on_and_branches_again() {
        let both = [known(0, &["a", "b"]), known(1, &["x"])];
        let lines = [("a", "root"), ("b", "a"), ("x", "a"), ("y", "x"), ("z", "x"), ("c", "b")];
        let found = compare(&both, &lines);
        assert_eq!(found.iter().map(ids).collect::<Vec<_>>(), [vec!["c"], vec!["y"], vec!["z"]]);
        assert_eq!(found[2].origin, Origin::Fork { of: 1, at: 2 });
    }

    #[test]
    fn a_line_whose_forerunner_is_gone_comes_after_the_line_before() {
        let found = compare(&[known(0, &[])], &[("a", "root"), ("c", "b"), ("d", "c")]);
        assert_eq!((found.len(), ids(&found[0])), (1, vec!["a", "c", "d"]));
    }

    #[test]
    fn another_session_that_got_the_same_folder_stays_another() {
        let other = SessionId::generate().to_string();
        let own = [("a", "root"), ("b", "a")];
        let others = [("x", other.as_str()), ("y", "x")];
        for lines in [[own, others].concat(), [others, own].concat()] {
            let found = compare(&[known(0, &["a", "b"])], &lines);
            assert_eq!(found.iter().map(ids).collect::<Vec<_>>(), [vec![], vec!["x", "y"]]);
            assert_eq!(found[1].origin, Origin::Fork { of: 0, at: 0 });
        }
    }

    #[test]
    fn what_the_folder_lacks_is_told() {
        let found = compare(
            &[known(0, &["a", "b", "c", "d"]), known(2, &["x"])],
            &[("a", "root"), ("c", "b")],
        );
        assert_eq!(
            (found[0].absent.as_slice(), found[1].absent.as_slice()),
            (&[2, 4][..], &[3][..])
        );
        assert_eq!(tail(&found[0].absent, 4), (Some(4), 1));
        assert_eq!(tail(&[], 4), (None, 0));
        assert_eq!(tail(&[1, 2, 3, 4], 4), (Some(1), 0));
        assert_eq!(tail(&[1], 4), (None, 1));
    }
}
