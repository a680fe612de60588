//! The webhooks of the settings, as the use cases call them.

use std::time::Duration;

use async_trait::async_trait;
use rethread_engine::Clock;
use rethread_engine::program::Notifier;
use rethread_outbound::webhook::{Courier, Hook, Patience};
use rethread_workflow::Notice;

use crate::config::Config;

/// How long one notice is tried, whatever the receiver does.
const LONGEST: Duration = Duration::from_secs(15);

pub(crate) struct Hooks {
    courier: Courier,
    hooks: Vec<Hook>,
}

impl Hooks {
    /// `None` where nobody is to be told.
    pub(crate) fn new(config: &Config) -> anyhow::Result<Option<Self>> {
        let hooks = config.hooks()?;
        if hooks.is_empty() {
            return Ok(None);
        }
        let courier = Courier::new(Patience::default(), || Clock::Wall.now())?;
        Ok(Some(Self { courier, hooks }))
    }
}

#[async_trait]
impl Notifier for Hooks {
    async fn deliver(&self, notice: &Notice) -> Vec<String> {
        // One that does not answer is in nobody's way.
        let sent = self.hooks.iter().map(|hook| async move {
            let delivery = self.courier.deliver(hook, notice);
            match tokio::time::timeout(LONGEST, delivery).await {
                Ok(Ok(())) => None,
                Ok(Err(error)) => Some(error.to_string()),
                Err(_) => Some(format!("{} did not take a notice in time", hook.shown())),
            }
        });
        futures::future::join_all(sent).await.into_iter().flatten().collect()
    }
}
