//! The crew of a workflow, from the settings of the program.

use std::sync::Arc;

use async_trait::async_trait;
use rethread_domain::Session;
use rethread_workflow::{Charter, TaskSpec};

use super::crew::{Crew, Extractor};
use super::order::consent_of;
use super::port::Checker;
use crate::agents::{Asker, OpenOptions};
use crate::program::{Choice, Program, WorkflowSettings};
use crate::{Engine, Result};

pub(super) struct ConfiguredCrew {
    engine: Engine,
    program: Arc<dyn Program>,
    asker: Arc<dyn Asker>,
    settings: WorkflowSettings,
    checker: Arc<dyn Checker>,
    extractor: Option<Arc<dyn Extractor>>,
}

impl ConfiguredCrew {
    pub(super) fn new(
        engine: &Engine,
        program: &Arc<dyn Program>,
        asker: Arc<dyn Asker>,
    ) -> Result<Self> {
        Ok(Self {
            engine: engine.clone(),
            program: Arc::clone(program),
            asker,
            settings: program.workflows()?,
            checker: program.checker()?,
            extractor: program.extractor()?,
        })
    }
}

#[async_trait]
impl Crew for ConfiguredCrew {
    async fn options(
        &self,
        charter: &Charter,
        session: &Session,
        agent: &str,
        task: Option<&TaskSpec>,
    ) -> Result<OpenOptions> {
        let choice = Choice {
            agent: Some(agent.to_owned()),
            model: task.and_then(|task| task.model.clone()),
            effort: task.and_then(|task| task.effort.clone()),
            consent: consent_of(charter.permissions.as_deref())?,
            for_workflow: true,
            ..Choice::default()
        };
        let (program, asker) = (self.program.as_ref(), Arc::clone(&self.asker));
        Ok(self.engine.open_options(program, session, &choice, asker).await?.0)
    }

    fn tools(&self) -> Vec<String> {
        self.program.tools()
    }

    fn command(&self, name: &str) -> Option<String> {
        self.settings.commands.get(name).cloned()
    }

    fn checker(&self) -> &dyn Checker {
        self.checker.as_ref()
    }

    fn extractor(&self) -> Option<&dyn Extractor> {
        self.extractor.as_deref()
    }

    fn brief_tokens(&self) -> u32 {
        self.settings.brief_tokens
    }

    fn lesson_tokens(&self) -> u32 {
        self.settings.lesson_tokens
    }
}
