//! Services for an agent: reads and writes files of the project, and runs programs in it.

use std::path::PathBuf;
use std::sync::Arc;

use agent_client_protocol_schema::v1::{
    CreateTerminalRequest, ReadTextFileRequest, WriteTextFileRequest,
};
use rethread_domain::consent::Intent;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::classify::RpcError;
use crate::diff;
use crate::files::Files;
use crate::frame::Fields;
use crate::terminals::Terminals;

/// Serves one agent within one folder.
#[derive(Debug)]
pub(crate) struct Server {
    files: Arc<Files>,
    pub(crate) terminals: Terminals,
}

/// What an agent wants us to do, read once: what was decided about is what is done.
#[derive(Debug)]
pub(crate) enum ServiceRequest {
    Read(ReadTextFileRequest),
    Write(WriteTextFileRequest),
    Run(CreateTerminalRequest),
    /// About a program that runs already.
    Terminal {
        what: TerminalCall,
        id: String,
    },
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum TerminalCall {
    Output,
    Wait,
    Kill,
    Release,
}

impl ServiceRequest {
    pub(crate) fn parse(method: &str, raw: &str) -> Result<Self, RpcError> {
        let what = match method {
            "fs/read_text_file" => return Ok(Self::Read(parse(raw)?)),
            "fs/write_text_file" => return Ok(Self::Write(parse(raw)?)),
            "terminal/create" => return Ok(Self::Run(parse(raw)?)),
            "terminal/output" => TerminalCall::Output,
            "terminal/wait_for_exit" => TerminalCall::Wait,
            "terminal/kill" => TerminalCall::Kill,
            "terminal/release" => TerminalCall::Release,
            _ => return Err(RpcError::new(-32601, format!("there is no {method}"))),
        };
        let id = Fields::parse(raw).and_then(|params| params.text("terminalId"));
        let id = id.ok_or_else(|| RpcError::new(-32602, "terminalId is missing"))?;
        Ok(Self::Terminal { what, id })
    }
}

/// An answer.
#[derive(Debug)]
pub(crate) struct Served {
    pub(crate) result: Value,
    /// The whole output of a terminal, when it is released.
    pub(crate) last_output: Option<String>,
}

impl Server {
    pub(crate) fn new(files: Files, terminals: Terminals) -> Self {
        Self { files: Arc::new(files), terminals }
    }

    /// Carries out a request. `act` decides whether it is allowed.
    pub(crate) async fn serve(
        &self,
        request: ServiceRequest,
        is_cleared: bool,
    ) -> Result<Served, RpcError> {
        let mut last_output = None;
        let result = match request {
            ServiceRequest::Read(asked) => self.read(asked, is_cleared).await?,
            ServiceRequest::Write(asked) => self.write(asked, is_cleared).await?,
            ServiceRequest::Run(asked) => self.terminals.create(asked, &self.files)?,
            ServiceRequest::Terminal { what, id } => match what {
                TerminalCall::Output => self.terminals.show(&id)?,
                TerminalCall::Wait => self.terminals.wait(&id).await?,
                TerminalCall::Kill => self.terminals.kill(&id).await?,
                TerminalCall::Release => {
                    last_output = Some(self.terminals.release(&id).await?);
                    json!({})
                }
            },
        };
        Ok(Served { result, last_output })
    }

    /// The paths of the project folder.
    pub(crate) fn roots(&self) -> [String; 2] {
        self.files.roots()
    }

    /// Notes which files of an intent need an answer of their own.
    pub(crate) fn note(&self, intent: &mut Intent) {
        self.files.note(intent);
    }

    /// What a write would change, as text.
    pub(crate) async fn change(&self, asked: &WriteTextFileRequest) -> String {
        let old =
            self.blocking(asked.path.clone(), |files, path| files.read(path, false)).await.ok();
        diff::changed(&asked.path.to_string_lossy(), old.as_deref(), &asked.content, diff::ASKED)
    }

    async fn read(&self, asked: ReadTextFileRequest, is_cleared: bool) -> Result<Value, RpcError> {
        let (line, limit) = (asked.line, asked.limit);
        let text =
            self.blocking(asked.path, move |files, path| files.read(path, is_cleared)).await?;
        let content = part(&text, line, limit);
        Ok(json!({ "content": content }))
    }

    async fn write(
        &self,
        asked: WriteTextFileRequest,
        is_cleared: bool,
    ) -> Result<Value, RpcError> {
        let content = asked.content;
        let write = move |files: &Files, path: &std::path::Path| {
            files.write(path, content.as_bytes(), is_cleared)
        };
        self.blocking(asked.path, write).await?;
        Ok(json!({}))
    }

    /// Runs blocking work on a thread for it.
    async fn blocking<T: Send + 'static>(
        &self,
        path: PathBuf,
        act: impl FnOnce(&Files, &std::path::Path) -> Result<T, RpcError> + Send + 'static,
    ) -> Result<T, RpcError> {
        let files = Arc::clone(&self.files);
        let acted = tokio::task::spawn_blocking(move || act(&files, &path)).await;
        acted.unwrap_or_else(|_| Err(RpcError::new(-32603, "it went wrong")))
    }
}

fn parse<T: DeserializeOwned>(params: &str) -> Result<T, RpcError> {
    serde_json::from_str(params).map_err(|error| RpcError::new(-32602, error.to_string()))
}

/// Some lines of a text, numbered from 1.
fn part(text: &str, line: Option<u32>, limit: Option<u32>) -> String {
    if line.is_none() && limit.is_none() {
        return text.to_owned();
    }
    let skip = line.unwrap_or(1).saturating_sub(1) as usize;
    let take = limit.map_or(usize::MAX, |limit| limit as usize);
    text.split_inclusive('\n').skip(skip).take(take).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_counted_from_one() {
        let text = "a\nb\nc";
        assert_eq!(part(text, None, None), text);
        assert_eq!(part(text, Some(1), Some(1)), "a\n");
        assert_eq!(part(text, Some(0), Some(1)), "a\n");
        assert_eq!(part(text, Some(2), None), "b\nc");
        assert_eq!(part(text, None, Some(2)), "a\nb\n");
        assert_eq!(part(text, Some(9), Some(2)), "");
        assert_eq!(part(text, None, Some(0)), "");
    }
}
