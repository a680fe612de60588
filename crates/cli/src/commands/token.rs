//! `rethread token`

use std::process::ExitCode;

use jiff::{SignedDuration, Timestamp};
use rethread_domain::access::{Pass, Role, Token, TokenId};
use rethread_domain::quote::one_line;
use rethread_engine::NewToken;
use rethread_engine::views::TokenView;
use serde_json::json;

use super::serve;
use crate::cli::App;
use crate::error::BadInput;
use crate::output::{self, table, time};

const NONE: &str = "No tokens. `rethread token create --name NAME` makes one.";
/// A hundred years: whoever wants more wants no end.
const MOST_DAYS: i64 = 36_500;

/// Let programs in over HTTP: make tokens, show, list and revoke them
///
/// A token stands for a user and a role. Its secret is printed once, when it is made; the store keeps only a hash of it.
/// The one that `serve` makes for you can be shown again.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    Create(Create),
    Show(Show),
    List(List),
    Revoke(Revoke),
}

/// Make a token and print its secret, which is not shown again
#[derive(Debug, clap::Args)]
struct Create {
    /// What it is called in lists
    #[arg(long)]
    name: String,
    /// What it may do: read, write or admin
    #[arg(long, default_value = "read")]
    role: Role,
    /// Whose it is [default: you]
    #[arg(long)]
    user: Option<String>,
    /// Expire after this many days [default: never]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    days: Option<i64>,
}

/// Print the secret of your own token, which `serve` makes at its first start and keeps in a file that only you can read
#[derive(Debug, clap::Args)]
struct Show {}

/// List tokens, the newest first
#[derive(Debug, clap::Args)]
struct List {}

/// End a token at once, and all that were made with it
#[derive(Debug, clap::Args)]
struct Revoke {
    /// The token, as `token list` shows it
    #[arg(value_name = "ID")]
    id: TokenId,
}

impl Args {
    pub(crate) async fn run(self, app: &App) -> anyhow::Result<ExitCode> {
        match self.command {
            Command::Create(create) => create.run(app).await?,
            Command::Show(show) => show.run(app).await?,
            Command::List(list) => list.run(app).await?,
            Command::Revoke(revoke) => revoke.run(app).await?,
        }
        Ok(ExitCode::SUCCESS)
    }
}

impl Create {
    async fn run(self, app: &App) -> anyhow::Result<()> {
        let lasts = self.days.map(lasting).transpose()?;
        let new = NewToken {
            name: self.name,
            role: self.role,
            user: app.config.user(self.user.as_deref())?,
            pass: Pass::Token,
            lasts,
            parent: None,
        };
        let (token, secret) = app.engine.issue(new).await?;
        if app.json {
            output::json(&TokenView { secret: Some(secret), ..token.into() });
            return Ok(());
        }
        output::data(&format!("{secret}\n"));
        let end = token.expires_at.map_or("until it is revoked".to_owned(), |expires| {
            format!("until {}", time::minute(expires))
        });
        output::note(format_args!(
            "Token {} ({}): {} for {}, {end}. The secret is not shown again.",
            token.id,
            one_line(&token.name, 60),
            token.role,
            one_line(&token.user, 60),
        ));
        Ok(())
    }
}

fn lasting(days: i64) -> anyhow::Result<SignedDuration> {
    if (1..=MOST_DAYS).contains(&days) {
        return Ok(SignedDuration::from_hours(24 * days));
    }
    let hint = format!("give 1 to {MOST_DAYS}; without --days it never expires");
    Err(BadInput::new(format!("--days cannot be {days}"), hint).into())
}

impl Show {
    async fn run(self, app: &App) -> anyhow::Result<()> {
        let file = serve::own_token(app).await?;
        let secret = std::fs::read_to_string(&file)?.trim().to_owned();
        if app.json {
            output::json(&json!({ "file": file, "secret": secret }));
            return Ok(());
        }
        output::data(&format!("{secret}\n"));
        output::note(format_args!("It is kept in {}.", file.display()));
        Ok(())
    }
}

impl List {
    async fn run(self, app: &App) -> anyhow::Result<()> {
        let tokens = app.engine.tokens().await?;
        if app.json {
            output::json(&tokens.into_iter().map(TokenView::from).collect::<Vec<_>>());
        } else if tokens.is_empty() {
            output::note(format_args!("{NONE}"));
        } else {
            output::data(&render(&tokens, app.engine.clock().now()));
        }
        Ok(())
    }
}

fn render(tokens: &[Token], now: Timestamp) -> String {
    let headings = ["ID", "NAME", "ROLE", "USER", "KIND", "STATUS", "CREATED", "LAST USED"];
    let rows = tokens.iter().map(|token| {
        vec![
            token.id.to_string(),
            one_line(&token.name, 32),
            token.role.to_string(),
            one_line(&token.user, 20),
            token.pass.to_string(),
            status(token, now),
            time::ago(token.created_at, now),
            token.used_at.map_or("-".to_owned(), |used| time::ago(used, now)),
        ]
    });
    table::render(&headings, rows.collect())
}

fn status(token: &Token, now: Timestamp) -> String {
    match (token.revoked_at, token.expires_at) {
        (Some(_), _) => "revoked".to_owned(),
        (None, Some(_)) if !token.is_valid(now) => "expired".to_owned(),
        (None, Some(expires)) => format!("until {}", time::minute(expires)),
        (None, None) => "valid".to_owned(),
    }
}

impl Revoke {
    async fn run(self, app: &App) -> anyhow::Result<()> {
        let token = app.engine.revoke(&self.id).await?;
        if app.json {
            output::json(&TokenView::from(token));
        } else {
            output::note(format_args!("Revoked {} ({}).", token.id, one_line(&token.name, 60)));
        }
        Ok(())
    }
}
