//! Files that git would lose in a commit of other paths.
//!
//! `git commit --only` begins with the last commit, and keeps from the index what is the same there. What is only
//! announced (`git add -N`) stands in the index as an empty file: where the committed one is empty too, git takes the
//! two for the same, and then leaves the file out, since what is only announced is not committed.

use std::collections::BTreeSet;

use super::Hurdle;
use super::place::{Place, refusal};
use super::program::{ask, reading};

/// The paths, wherever they are in the repository, that a commit of others would remove.
pub(super) fn endangered(place: &Place) -> Result<BTreeSet<Vec<u8>>, Hurdle> {
    let Some(commit) = place.commit()? else { return Ok(BTreeSet::new()) };
    let gone = differing(place, &commit, "--ita-invisible-in-index")?;
    if gone.is_empty() {
        return Ok(gone);
    }
    Ok(&gone - &differing(place, &commit, "--ita-visible-in-index")?)
}

/// The paths of which the index has something else than the commit. Nothing on the disk is looked at.
fn differing(place: &Place, commit: &str, announced: &str) -> Result<BTreeSet<Vec<u8>>, Hurdle> {
    let mut git = reading(&place.top);
    git.args(["diff-index", "--cached", "--name-only", "-z", "--no-renames", announced]);
    let answer = ask(git.args([commit, "--"]))?;
    if !answer.success() {
        return Err(refusal(&answer));
    }
    let paths = answer.out.split(|byte| *byte == 0).filter(|path| !path.is_empty());
    Ok(paths.map(<[u8]>::to_vec).collect())
}
