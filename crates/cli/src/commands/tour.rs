//! `rethread tour`

use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::Instant;

use anyhow::{Context as _, ensure};
use rethread_domain::SessionId;
use rethread_domain::context::Limits;
use rethread_domain::search::Filter;
use rethread_engine::{Clock, ContextOptions, Engine};
use rethread_store::StoreUrl;

use crate::output;

/// See it at work: record, crash, find, resume
///
/// Records a conversation in a process of its own, kills that process in the middle of a sentence, finds the
/// conversation again by its words, and prints the context that an agent would get. Uses a store of its own, which is
/// gone afterwards.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Keep the store, to look around in it
    #[arg(long)]
    keep: bool,
}

/// A conversation, with who said what.
const TALK: &[(&str, &str)] = &[
    (
        "user",
        "Our checkout loses the basket when somebody logs in. Can you find out why? The release is on Friday.",
    ),
    (
        "assistant",
        "I will look at the session code first. The basket is kept in src/session/basket.rs under the session cookie.",
    ),
    ("tool", "src/session/login.rs:41: cookies.rotate(&mut response);"),
    (
        "assistant",
        "Found it: login.rs rotates the session cookie before the basket has been moved over, so the basket stays under the old id.",
    ),
    (
        "user",
        "Do not rename the cookie: the mobile clients rely on its name. And remember that the staging passkey is heron-42.",
    ),
    (
        "assistant",
        "Understood. I will move the basket inside the same transaction that rotates the cookie, and keep the name.",
    ),
    ("user", "Good. What about guests who have two baskets?"),
    ("assistant", "We decided to merge them: quantities are added up, and the newer price wins."),
    (
        "assistant",
        "The fix is in and basket_survives_login passes. What is left: the migration for baskets that are already orphaned.",
    ),
];

/// What is typed when the process dies.
const HALF: &str = r#"{"role":"user","content":"And then we sh"#;

const PROMPT: &str = "Which passkey do I need to try this on staging?";

impl Args {
    pub(crate) async fn run(self) -> anyhow::Result<ExitCode> {
        let folder = std::env::temp_dir().join(format!("rethread-tour-{}", std::process::id()));
        std::fs::DirBuilder::new().mode(0o700).create(&folder)?;
        let outcome = tour(&folder).await;
        if self.keep {
            let store = store(&folder);
            output::data(&format!(
                "\nThe store is kept: try `rethread --store sqlite:{} list`\n",
                store.display()
            ));
        } else {
            std::fs::remove_dir_all(&folder)?;
        }
        outcome.map(|()| ExitCode::SUCCESS)
    }
}

fn store(folder: &Path) -> PathBuf {
    folder.join("tour.db")
}

async fn tour(folder: &Path) -> anyhow::Result<()> {
    step("1. An agent and a person talk. Rethread records it, in a process of its own.");
    let (id, mut recorder) = record(folder)?;

    step("2. The process is thrown away (kill -9), in the middle of a sentence.");
    recorder.kill()?;
    recorder.wait()?;
    output::data("   The window is gone. So is the agent, and all it knew.\n");

    step("3. Later, another process looks for it by its words: basket cookie");
    let engine =
        Engine::new(rethread_store::open(&StoreUrl::Sqlite(store(folder))).await?, Clock::Wall);
    let begun = Instant::now();
    let hits = engine.search("basket cookie", &Filter::default(), 3).await?;
    let found = begun.elapsed();
    let first = hits.first().context("the tour did not find what it recorded")?;
    ensure!(first.session == id, "the tour found another session");
    for hit in &hits {
        output::data(&format!("   {}  {}\n", hit.session.short(), hit.excerpt));
    }

    step(&format!(
        "4. The next thing the person will ask: {PROMPT}\n   This is the context that an agent gets before it:"
    ));
    let session = engine.session(id).await?;
    ensure!(session.last_seq as usize == TALK.len(), "an acknowledged message is missing");
    let begun = Instant::now();
    let limits = Limits { tokens: 600, messages: 3, ..Limits::default() };
    let options = ContextOptions { limits, prompt: Some(PROMPT.to_owned()), margin: 0.0 };
    let context = engine.context(id, &options).await?;
    let told = begun.elapsed();
    ensure!(context.context.contains("heron-42"), "the context lacks what was asked for");
    for line in context.context.lines() {
        output::data(&format!("   | {line}\n"));
    }

    step("What happened");
    output::data(&format!(
        "   {messages} messages were confirmed as durable, one at a time; after kill -9 all {messages} are there, and\n   \
         nothing of the half sentence. The search took {found:.1?}, the context {told:.1?}: {tokens} tokens of at most\n   \
         {limit}, quoted so that nothing in it can pass for an instruction. The passkey is in it.\n\n\
         Now with a conversation of your own:\n   \
         echo '{{\"role\":\"user\",\"content\":\"Hello\"}}' | rethread record\n   \
         rethread list\n   \
         rethread context ID --prompt \"what you will ask next\"\n",
        messages = TALK.len(),
        tokens = context.token_count,
        limit = options.limits.tokens,
    ));
    Ok(())
}

fn step(text: &str) {
    output::data(&format!("\n{}\n", output::bold(text)));
}

/// Starts a recorder and tells it the conversation, waiting for each message to be durable.
fn record(folder: &Path) -> anyhow::Result<(SessionId, Child)> {
    let mut recorder = Command::new(std::env::current_exe()?)
        .arg(format!("--store=sqlite:{}", store(folder).display()))
        .args(["record", "--ack", "--kind", "debug", "--agent", "claude", "--project"])
        .arg(folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let mut say = recorder.stdin.take().context("no pipe to the recorder")?;
    let mut answers =
        BufReader::new(recorder.stdout.take().context("no pipe from the recorder")?).lines();
    let mut next =
        || answers.next().context("the recorder ended early")?.map_err(anyhow::Error::from);
    let id: SessionId = next()?.parse()?;
    for (role, content) in TALK {
        writeln!(say, "{}", serde_json::json!({"role": role, "content": content}))?;
        let durable = next()?;
        output::data(&format!("   {durable:<10} {role}: {content}\n"));
    }
    say.write_all(HALF.as_bytes())?;
    say.flush()?;
    // Handed to the recorder, so that the pipe stays open until it dies.
    recorder.stdin = Some(say);
    Ok((id, recorder))
}
