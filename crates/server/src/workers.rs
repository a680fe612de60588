//! Runs requests on worker threads of their own: reading, masking and counting block, and must not hold up streams and health
//! checks. No user can occupy all of the threads.

use std::collections::HashMap;
use std::panic::resume_unwind;
use std::sync::{Arc, Mutex, PoisonError};

use axum::response::{IntoResponse, Response};
use rethread_engine::Stop;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::Semaphore;
use tracing::Instrument as _;

use crate::live::stopping;

/// How many requests run at once.
const THREADS: usize = 16;
/// How many of them for one user; further ones wait.
const EACH: usize = 4;

#[derive(Debug)]
pub(crate) struct Workers {
    /// `None` once it is being dropped.
    runtime: Option<Runtime>,
    places: Mutex<HashMap<String, Arc<Semaphore>>>,
}

impl Workers {
    pub(crate) fn new() -> std::io::Result<Self> {
        let mut threads = Builder::new_multi_thread();
        let runtime =
            threads.worker_threads(THREADS).thread_name("request").enable_all().build()?;
        Ok(Self { runtime: Some(runtime), places: Mutex::default() })
    }

    /// The semaphore of a user. Unused ones are dropped.
    fn places(&self, user: &str) -> Arc<Semaphore> {
        let mut places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(own) = places.get(user) {
            return Arc::clone(own);
        }
        places.retain(|_, places| Arc::strong_count(places) > 1);
        let own = Arc::new(Semaphore::new(EACH));
        places.insert(user.to_owned(), Arc::clone(&own));
        own
    }

    /// Runs a request once its user has a free slot, which is occupied until the request ends, even if the client has
    /// disconnected: `stop` signals that.
    pub(crate) async fn run(
        &self,
        user: &str,
        stop: &Stop,
        work: impl Future<Output = Response> + Send + 'static,
    ) -> Response {
        let _waits = stop.on_drop();
        let (Some(runtime), Ok(place)) = (&self.runtime, self.places(user).acquire_owned().await)
        else {
            return stopping().into_response();
        };
        let work = async move {
            let answer = work.await;
            drop(place);
            answer
        };
        let work = runtime.spawn(work.in_current_span());
        match work.await {
            Ok(answer) => answer,
            Err(broken) if broken.is_panic() => resume_unwind(broken.into_panic()),
            Err(_) => stopping().into_response(),
        }
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        // Dropping a runtime blocks, which is not allowed within a task: it is shut down in the background.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    /// One user's requests take their time; another's is answered, one more of the first has to wait.
    #[tokio::test]
    async fn nobody_has_all_of_the_threads() {
        let workers = Arc::new(Workers::new().unwrap());
        let (begun, begins) = mpsc::channel();
        let (go, wait) = mpsc::channel::<()>();
        let wait = Arc::new(Mutex::new(wait));
        let slow: Vec<_> = (0..=EACH)
            .map(|_| {
                let (workers, begun, wait) =
                    (Arc::clone(&workers), begun.clone(), Arc::clone(&wait));
                tokio::spawn(async move {
                    let work = async move {
                        begun.send(()).unwrap();
                        wait.lock().unwrap().recv().unwrap();
                        ().into_response()
                    };
                    workers.run("anna", &Stop::default(), work).await
                })
            })
            .collect();
        tokio::task::yield_now().await;
        for _ in 0..EACH {
            begins.recv().unwrap();
        }
        let answer = workers.run("bert", &Stop::default(), async { ().into_response() }).await;
        assert_eq!(answer.status(), 200);
        assert!(begins.try_recv().is_err(), "one user has more than its places");
        for _ in 0..=EACH {
            go.send(()).unwrap();
        }
        for one in slow {
            assert_eq!(one.await.unwrap().status(), 200);
        }
    }

    /// The client goes while its request is carried out: the request is told, and can end.
    #[tokio::test]
    async fn who_works_is_told_when_nobody_waits() {
        let workers = Workers::new().unwrap();
        let (begun, begins) = tokio::sync::oneshot::channel();
        let (ended, ends) = mpsc::channel();
        let stop = Stop::default();
        let told = stop.clone();
        let work = async move {
            begun.send(()).unwrap();
            while !told.is_stopped() {
                tokio::task::yield_now().await;
            }
            ended.send(()).unwrap();
            ().into_response()
        };
        tokio::select! {
            _ = workers.run("anna", &stop, work) => panic!("it ended by itself"),
            begun = begins => begun.unwrap(),
        }
        ends.recv().unwrap();
    }

    #[tokio::test]
    #[should_panic(expected = "a fault")]
    async fn what_panics_is_told() {
        Workers::new().unwrap().run("anna", &Stop::default(), async { panic!("a fault") }).await;
    }
}
