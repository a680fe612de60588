//! The connection of one client, and the state that all connections share.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rethread_domain::Session;
use rethread_domain::session::Beginning;
use rethread_engine::program::{Program, project_folder};
use rethread_engine::{Engine, Logged as _};
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CancelledNotificationParam, GetPromptRequestParams,
    GetPromptResponse, Implementation, ListPromptsResult, ListResourceTemplatesResult,
    ListResourcesResult, ListToolsResult, PaginatedRequestParams, ReadResourceRequestParams,
    ReadResourceResponse, RequestId, ServerCapabilities, ServerConfig, Tool,
};
use rmcp::service::{NotificationContext, RequestContext};
use rmcp::{ErrorData, RoleServer, ServerHandler};
use tracing::Instrument as _;

use crate::error::Failure;
use crate::jobs::{Job, Jobs};
use crate::settings::{CallerContext, Limits};
use crate::streams::Streams;
use crate::{id, prompts, resources, tools};

const INSTRUCTIONS: &str = "Rethread keeps what people and agents say and do. invoke_agent asks another agent and \
returns a sessionId; the same id as continueSessionId goes on with it, in any later conversation. search_sessions and \
resume_session bring back what was said and decided before; record_messages and save_session keep this conversation. \
start_workflow begins long work; in a task of a workflow, get_decisions, get_errors, get_reviewer_feedback and \
get_git_changes tell what came before.";

/// How often idle sessions are looked for.
const TIDY_EVERY: std::time::Duration = std::time::Duration::from_mins(1);

/// Logged if a session without messages cannot be removed.
pub(crate) const LEFT: &str = "an empty session could not be removed";

/// The state that all clients of a process share.
pub struct ServerState {
    pub(crate) engine: Engine,
    pub(crate) program: Arc<dyn Program>,
    pub(crate) caller: CallerContext,
    pub(crate) limits: Limits,
    pub(crate) streams: Streams,
    pub(crate) jobs: Arc<Jobs>,
    pub(crate) version: String,
}

impl std::fmt::Debug for ServerState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ServerState").field("caller", &self.caller).finish_non_exhaustive()
    }
}

impl ServerState {
    pub fn new(
        engine: Engine,
        program: Arc<dyn Program>,
        caller: CallerContext,
        limits: Limits,
        streams: Streams,
        version: &str,
    ) -> Arc<Self> {
        let jobs = Jobs::new(engine.clone());
        Arc::new(Self {
            engine,
            program,
            caller,
            limits,
            streams,
            jobs,
            version: version.to_owned(),
        })
    }

    /// Finds a session of the caller by its id.
    pub(crate) async fn session(&self, given: &str) -> Result<Session, Failure> {
        let reference = id::parse(given)?;
        match self.engine.resolve_of(&reference, Some(&self.caller.user)).await {
            Ok(id) => {
                let session = self.engine.session(id).await?;
                let is_there = session.deleted_at.is_none();
                is_there.then_some(session).ok_or_else(|| Failure::no_session(given))
            }
            Err(rethread_engine::Error::NotFound(_)) => Err(Failure::no_session(given)),
            Err(error) => Err(error.into()),
        }
    }

    /// Masks secrets, as the client may pass the text on. Call it before shortening a text: half a secret is not recognised.
    pub(crate) fn clean(&self, text: &str) -> String {
        self.engine.redactor().redact(text).text.into_owned()
    }

    /// Imports changes of the workspace since the last call.
    async fn keep_up(&self) {
        self.engine.keep_up(self.program.as_ref(), std::time::Duration::ZERO).await;
    }

    /// The folder that a call is about.
    pub(crate) fn project(&self, given: Option<&str>) -> Result<PathBuf, Failure> {
        let Some(folder) = given else { return Ok(self.caller.project.clone()) };
        project_folder(Path::new(folder)).map_err(|fault| {
            let hint = "give the path of a folder that exists, or omit it";
            Failure::new(fault.to_string(), hint)
        })
    }

    /// The beginning of a new session of the caller.
    pub(crate) fn beginning(&self, project: String) -> Beginning {
        Beginning {
            parent: self.caller.parent,
            ..Beginning::new(self.caller.user.clone(), project)
        }
    }

    /// Pauses idle sessions, from time to time.
    pub(crate) async fn keep_tidy(&self) {
        loop {
            tokio::time::sleep(TIDY_EVERY).await;
            self.engine.tidy(self.limits.idle).await.or_log("idle sessions could not be paused");
        }
    }

    /// Waits until all invocations are finished and saved.
    pub(crate) async fn finish(&self) {
        self.jobs.drained().await;
    }

    /// Cancels all invocations and waits until they are saved.
    pub(crate) async fn cancel_all(&self) {
        self.jobs.cancel_all();
        self.jobs.drained().await;
    }
}

/// Serves one client.
#[derive(Debug, Clone)]
pub struct Server {
    pub(crate) state: Arc<ServerState>,
    /// The invocations this client waits for, by request id.
    waiting: Arc<Mutex<BTreeMap<String, Arc<Job>>>>,
}

impl Server {
    pub fn new(state: Arc<ServerState>) -> Self {
        Self { state, waiting: Arc::default() }
    }

    fn waiting(&self) -> MutexGuard<'_, BTreeMap<String, Arc<Job>>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn waits(&self, request: &RequestId, job: &Arc<Job>) {
        self.waiting().insert(request.to_string(), Arc::clone(job));
    }

    pub(crate) fn waited(&self, request: &RequestId) {
        self.waiting().remove(&request.to_string());
    }
}

impl ServerHandler for Server {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder()
            .enable_tools()
            .enable_prompts()
            .enable_resources()
            .build();
        ServerConfig::new(capabilities)
            .with_server_info(Implementation::new("rethread", self.state.version.clone()))
            .with_instructions(INSTRUCTIONS)
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(tools::list()))
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        tools::find(name).map(|known| known.tool.clone())
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let arguments = request.arguments.unwrap_or_default();
        let span = tracing::info_span!("call", tool = %request.name, call = %context.id);
        let call = async {
            tracing::debug!("call");
            self.state.keep_up().await;
            tools::call(self, &request.name, arguments, &context).await.map(CallToolResponse::from)
        };
        call.instrument(span).await
    }

    async fn list_prompts(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        Ok(ListPromptsResult::with_all_items(prompts::list(&self.state)))
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        let arguments = request.arguments.unwrap_or_default();
        self.state.keep_up().await;
        prompts::get(&self.state, &request.name, &arguments).await.map(GetPromptResponse::from)
    }

    async fn list_resources(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        self.state.keep_up().await;
        resources::list(&self.state).await.map(ListResourcesResult::with_all_items)
    }

    async fn list_resource_templates(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        Ok(ListResourceTemplatesResult::with_all_items(resources::templates()))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        self.state.keep_up().await;
        resources::read(&self.state, &request.uri).await.map(ReadResourceResponse::from)
    }

    /// A cancel notification ends the turn. A mere disconnect does not.
    async fn on_cancelled(
        &self,
        notification: CancelledNotificationParam,
        _: NotificationContext<RoleServer>,
    ) {
        let request = notification.request_id.map(|id| id.to_string()).unwrap_or_default();
        let job = self.waiting().get(&request).cloned();
        if let Some(job) = job {
            job.cancel();
        }
    }
}
