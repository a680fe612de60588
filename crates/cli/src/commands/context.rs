//! `rethread context`

use std::process::ExitCode;

use rethread_domain::id::SessionRef;
use rethread_domain::quote;
use rethread_domain::retell::{Explanation, Piece, Reason};
use rethread_engine::ContextOptions;

use super::positive;
use crate::cli::App;
use crate::output::{self, table};

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
    /// Instead of the text, say why each piece of it is there, what it costs, and what almost made it in (with --json: beside it)
    #[arg(long)]
    explain: bool,
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
        let options = ContextOptions { limits, prompt, margin, explain: self.explain };
        let context = app.engine.context(id, &options).await?;
        if app.json {
            output::json(&context);
        } else if let Some(explanation) = &context.explanation {
            output::data(&explained(explanation, context.token_count, limits.tokens));
        } else {
            if context.context.is_empty() {
                output::note(format_args!(
                    "{} too few for anything of this session; give more with --tokens",
                    match limits.tokens {
                        1 => "1 token is".to_owned(),
                        tokens => format!("{tokens} tokens are"),
                    }
                ));
            }
            output::data(&context.context);
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn explained(explanation: &Explanation, tokens: u32, limit: u32) -> String {
    let headings = ["TOKENS", "PART", "MESSAGE", "WHY", "TEXT"];
    let rows = |pieces: &[Piece]| pieces.iter().map(row).collect();
    let mut out = table::render(&headings, rows(&explanation.pieces));
    out.push_str(&format!("\n{tokens} of {limit} tokens\n"));
    if !explanation.nearly.is_empty() {
        out.push_str("\nAlmost made it in:\n\n");
        out.push_str(&table::render(&headings, rows(&explanation.nearly)));
    }
    out
}

fn row(piece: &Piece) -> Vec<String> {
    let message = match (piece.seq, piece.role) {
        (Some(seq), Some(role)) => format!("{seq} {role}"),
        _ => String::new(),
    };
    let why: Vec<String> = piece.why.iter().map(Reason::to_string).collect();
    let text = quote::one_line(&piece.text, 60);
    vec![piece.tokens.to_string(), piece.part.to_string(), message, why.join("; "), text]
}
