//! `rethread context`

use std::process::ExitCode;

use rethread_domain::id::SessionRef;
use rethread_engine::ContextOptions;

use super::positive;
use crate::cli::App;
use crate::output;

/// Print the context that an agent needs to go on
///
/// The finished text never has more tokens than the limit (counted with o200k). The last messages are shown oldest
/// first; what was left out is counted. With --prompt, older messages that matter to it are brought in from anywhere
/// in the session, with their dates.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The session
    #[arg(value_name = "ID")]
    session: SessionRef,
    /// The most tokens of the finished text [default: 10000]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    tokens: Option<i64>,
    /// The most recent messages [default: 20]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    messages: Option<i64>,
    /// The most recent conversations [default: 3]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    conversations: Option<i64>,
    /// What will be asked next
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    prompt: Option<String>,
}

impl Args {
    pub(crate) async fn run(self, app: &App) -> anyhow::Result<ExitCode> {
        let mut limits = app.config.limits();
        for (what, given, limit) in [
            ("tokens", self.tokens, &mut limits.tokens),
            ("messages", self.messages, &mut limits.messages),
            ("conversations", self.conversations, &mut limits.conversations),
        ] {
            if let Some(given) = given {
                *limit = positive(what, given)?;
            }
        }
        let id = app.session(&self.session).await?;
        let margin = if app.config.has_margins() {
            app.config.margin(app.engine.session(id).await?.speaker())
        } else {
            0.0
        };
        let prompt = self.prompt.filter(|prompt| !prompt.trim().is_empty());
        let context = app.engine.context(id, &ContextOptions { limits, prompt, margin }).await?;
        if app.json {
            output::json(&context);
        } else {
            output::data(&context.context);
        }
        Ok(ExitCode::SUCCESS)
    }
}
