//! `rethread tour`

use std::io::{BufRead, BufReader};
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::Instant;

use anyhow::{Context as _, ensure};
use rethread_domain::SessionId;
use rethread_domain::context::Limits;
use rethread_domain::search::Filter;
use rethread_domain::session::Session;
use rethread_engine::{Clock, ContextOptions, Engine};
use rethread_store::{ListFilter, StoreUrl};

use crate::output;

/// See it at work: talk, crash, find, resume
///
/// Tells an agent a passkey, kills everything in the middle of an answer, and asks for the passkey afterwards: in an
/// agent that resumes its own session, in one that loads it, in one that forgets everything, and in another agent than
/// before. The agents are a small one of our own in processes of their own; the store is gone afterwards.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Keep the store, to look around in it
    #[arg(long)]
    keep: bool,
}

/// An agent, what it can do, and how it has to be opened again.
const AGENTS: &[(&str, &[&str], &str)] = &[
    ("resumer", &["--resume", "--load"], "resumed"),
    ("loader", &["--load"], "loaded"),
    ("forgetful", &[], "retold"),
];
const QUESTION: &str = "what was the passkey";
/// A long answer: there is time to be killed in.
const LONG: &str = "stream: 100000";
/// So much of it is seen before everything is killed.
const SEEN: usize = 2_000;

impl Args {
    pub(crate) async fn run(self) -> anyhow::Result<ExitCode> {
        let folder = std::env::temp_dir().join(format!("rethread-tour-{}", std::process::id()));
        std::fs::DirBuilder::new().mode(0o700).create(&folder)?;
        let tour =
            Tour { folder: std::fs::canonicalize(&folder)?, program: std::env::current_exe()? };
        let outcome = tour.go().await;
        if self.keep {
            output::data(&format!(
                "\nThe store is kept: try `rethread --store sqlite:{} list`\n",
                tour.store().display()
            ));
        } else {
            std::fs::remove_dir_all(&folder)?;
        }
        outcome.map(|()| ExitCode::SUCCESS)
    }
}

/// Our own program, in a place of its own.
struct Tour {
    folder: PathBuf,
    program: PathBuf,
}

impl Tour {
    fn store(&self) -> PathBuf {
        self.folder.join("tour.db")
    }

    async fn go(&self) -> anyhow::Result<()> {
        self.configure()?;
        let engine =
            Engine::new(rethread_store::open(&StoreUrl::Sqlite(self.store())).await?, Clock::Wall);
        let mut told = Vec::new();
        for (number, (agent, flags, expected)) in (1..).zip(AGENTS) {
            let can = match flags.len() {
                2 => "takes up its own session",
                1 => "reads its own session back",
                _ => "forgets everything when it ends",
            };
            step(&format!("{number}. {agent}: an agent that {can}"));
            told.push(self.round(&engine, agent, expected).await?);
        }
        step("4. The first conversation goes on in another agent than before");
        let (id, passkey) = &told[0];
        let answer = self.ask(*id, Some("forgetful"), QUESTION)?;
        ensure!(answer.contains(passkey.as_str()), "another agent does not know the passkey");
        step("5. All of it is found by its words, and given back within a budget: passkey");
        self.find(&engine, *id, passkey).await
    }

    /// The passkey is told, everything is killed in the middle of the next answer, the passkey is asked for.
    async fn round(
        &self,
        engine: &Engine,
        agent: &str,
        expected: &str,
    ) -> anyhow::Result<(SessionId, String)> {
        let passkey = format!("PASSKEY-{}", SessionId::generate().short());
        let request = format!("Remember for staging: my passkey is {passkey}");
        show(&["run", agent, &request], &self.run(["run", agent, &request])?);
        let newest = ListFilter { limit: 1, ..ListFilter::default() };
        let session = engine.list(&newest).await?;
        let id =
            session.first().map(|session: &Session| session.id).context("nothing was recorded")?;
        let short = id.short();
        self.kill(engine, id, &short).await?;
        let answer = self.ask(id, None, QUESTION)?;
        ensure!(answer.contains(&passkey), "{agent} does not know the passkey any more");
        let openings = engine.openings().await?;
        let is_expected =
            |how: &str| openings.iter().any(|one| one.agent == agent && one.how.as_str() == how);
        ensure!(is_expected(expected), "{agent} was not {expected}");
        Ok((id, passkey))
    }

    /// Asks for a long answer and kills the program (kill -9) when it has begun.
    async fn kill(&self, engine: &Engine, id: SessionId, short: &str) -> anyhow::Result<()> {
        let mut child = self.command(["send", short, LONG]).stdout(Stdio::piped()).spawn()?;
        let seen = read_some(&mut child)?;
        child.kill()?;
        child.wait()?;
        output::data(&format!("   $ rethread send {short} \"{LONG}\"\n   {} …", &seen[..60]));
        output::data("   <- kill -9, in the middle of the answer\n");
        engine.tidy(jiff::SignedDuration::from_hours(1)).await?;
        let last = engine.messages(id, rethread_store::Span::newest(1)).await?;
        let kept = last.first().map_or("", |message| message.body.head());
        ensure!(kept.starts_with(seen.trim_end()), "what had been seen of the answer is not there");
        output::data(&format!(
            "   All {} bytes that were on the screen are in the store, marked as interrupted.\n",
            seen.len()
        ));
        Ok(())
    }

    fn ask(&self, id: SessionId, with: Option<&str>, prompt: &str) -> anyhow::Result<String> {
        let short = id.short();
        let mut args = vec!["resume", short.as_str(), prompt];
        args.extend(with.into_iter().flat_map(|agent| ["--with", agent]));
        let answer = self.run(args.iter().copied())?;
        show(&args, &answer);
        Ok(answer)
    }

    async fn find(&self, engine: &Engine, id: SessionId, passkey: &str) -> anyhow::Result<()> {
        let begun = Instant::now();
        let hits = engine.search("passkey staging", &Filter::default(), 3).await?;
        let found = begun.elapsed();
        ensure!(!hits.is_empty(), "the tour did not find what it recorded");
        for hit in &hits {
            output::data(&format!("   {}  {}\n", hit.session.short(), hit.excerpt));
        }
        let limits = Limits { tokens: 400, messages: 2, ..Limits::default() };
        let options = ContextOptions { limits, prompt: Some(QUESTION.to_owned()), margin: 0.0 };
        let begun = Instant::now();
        let context = engine.context(id, &options).await?;
        let told = begun.elapsed();
        ensure!(context.context.contains(passkey), "the context lacks what was asked for");
        output::data("\n   What an agent without memory is given before the next question:\n");
        for line in context.context.lines() {
            output::data(&format!("   | {line}\n"));
        }
        step("What happened");
        output::data(&format!(
            "   Three passkeys survived kill -9 in three kinds of agents, and one of them a change of agents. The search\n   \
             took {found:.1?}, the context {told:.1?}: {tokens} tokens of at most {limit}, quoted so that nothing in it can\n   \
             pass for an instruction.\n\n\
             Now with an agent of your own:\n   \
             rethread agents\n   \
             rethread run claude\n   \
             rethread continue\n",
            tokens = context.token_count,
            limit = options.limits.tokens,
        ));
        Ok(())
    }

    /// Three agents, three lines each.
    fn configure(&self) -> anyhow::Result<()> {
        let folder = self.folder.join("rethread");
        let mut text = String::new();
        for (name, flags, _) in AGENTS {
            let memory = self.folder.join(format!("{name}.memory")).display().to_string();
            let memory = if flags.is_empty() { "process".to_owned() } else { memory };
            let program = self.program.display().to_string();
            let mut command = vec![program, "reference-agent".into(), "--memory".into(), memory];
            command.extend(["--chunk-delay-ms".into(), "1".into()]);
            command.extend(flags.iter().map(|&flag| flag.to_owned()));
            let command = serde_json::to_string(&command)?;
            text.push_str(&format!("[agents.{name}]\ncommand = {command}\n"));
        }
        crate::config::replace(&folder.join("config.toml"), &text)
    }

    fn command<'a>(&self, args: impl IntoIterator<Item = &'a str>) -> Command {
        let mut command = Command::new(&self.program);
        command
            .arg(format!("--store=sqlite:{}", self.store().display()))
            .args(args)
            .current_dir(&self.folder)
            .env("XDG_CONFIG_HOME", &self.folder)
            .env("XDG_DATA_HOME", &self.folder)
            .stdin(Stdio::null());
        command
    }

    /// What a command prints, as a person sees it.
    fn run<'a>(&self, args: impl IntoIterator<Item = &'a str>) -> anyhow::Result<String> {
        let ran = self.command(args).output()?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        ensure!(ran.status.success(), "{}", text(&ran.stderr));
        Ok(text(&ran.stderr) + &text(&ran.stdout))
    }
}

/// A command and what it printed.
fn show(args: &[&str], printed: &str) {
    let quoted =
        |arg: &&str| if arg.contains(' ') { format!("\"{arg}\"") } else { (*arg).to_owned() };
    let args: Vec<String> = args.iter().map(quoted).collect();
    output::data(&format!("   $ rethread {}\n", args.join(" ")));
    for line in printed.lines() {
        output::data(&format!("   {line}\n"));
    }
}

/// The beginning of what a child prints.
fn read_some(child: &mut Child) -> anyhow::Result<String> {
    let mut out = BufReader::new(child.stdout.take().context("no pipe from the program")?);
    let mut seen = Vec::new();
    while seen.len() < SEEN {
        let more = out.fill_buf()?;
        ensure!(!more.is_empty(), "the answer ended early");
        let count = more.len();
        seen.extend_from_slice(more);
        out.consume(count);
    }
    Ok(String::from_utf8(seen)?)
}

fn step(text: &str) {
    output::data(&format!("\n{}\n", output::bold(text)));
}
