//! What is written in one transaction with others: a job, and whoever waits for it.

use futures::channel::oneshot;

use super::sql::Connection;
use crate::error::{Error, Result};

/// Something to write, and whoever waits for it.
pub(super) trait Job: Send {
    /// Writes; gives what went wrong.
    fn run(&mut self, connection: &Connection) -> Option<&Error>;

    /// Tells the caller, once it is known how the transaction ended.
    fn tell(self: Box<Self>, committed: Result<()>);
}

pub(super) struct Task<F, T> {
    job: Option<F>,
    result: Option<Result<T>>,
    answer: oneshot::Sender<Result<T>>,
}

impl<F, T> Task<F, T> {
    pub(super) const fn new(job: F, answer: oneshot::Sender<Result<T>>) -> Self {
        Self { job: Some(job), result: None, answer }
    }
}

impl<F, T> Job for Task<F, T>
where
    F: FnOnce(&Connection) -> Result<T> + Send,
    T: Send,
{
    fn run(&mut self, connection: &Connection) -> Option<&Error> {
        self.result = self.job.take().map(|job| job(connection));
        self.result.as_ref().and_then(|result| result.as_ref().err())
    }

    fn tell(self: Box<Self>, committed: Result<()>) {
        let answer = match (self.result, committed) {
            (Some(result), Ok(())) => result,
            (Some(Err(error)), Err(_)) | (_, Err(error)) => Err(error),
            (None, Ok(())) => Err(Error::Failed("the job was not run".into())),
        };
        // The caller may have gone; the write stands all the same.
        drop(self.answer.send(answer));
    }
}
