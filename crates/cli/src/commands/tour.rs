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
use rethread_engine::{Clock, ContextOptions, Engine, Error, Search};
use rethread_store::{ListFilter, StoreUrl};
use serde_json::{Value, json};

use crate::error::BadInput;
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
    ("resumer", &["--resume"], "resumed"),
    ("loader", &["--load"], "loaded"),
    ("forgetful", &[], "retold"),
];
const QUESTION: &str = "what was the passkey";
/// A long answer: there is time to be killed in.
const LONG: &str = "stream: 100000";
/// So much of it is seen before everything is killed.
const SEEN: usize = 2_000;

impl Args {
    pub(crate) async fn run(self, json: bool) -> anyhow::Result<ExitCode> {
        let is_store = |word: &str| word == "--store" || word.starts_with("--store=");
        if std::env::args_os().any(|word| word.to_str().is_some_and(is_store)) {
            let hint = "leave --store away; --keep keeps the store and says where it is";
            return Err(BadInput::new("the tour has a store of its own", hint).into());
        }
        let folder = std::env::temp_dir().join(format!("rethread-tour-{}", std::process::id()));
        std::fs::DirBuilder::new().mode(0o700).create(&folder)?;
        let tour = Tour {
            folder: std::fs::canonicalize(&folder)?,
            program: std::env::current_exe()?,
            json,
        };
        let outcome = tour.go().await;
        if !self.keep {
            std::fs::remove_dir_all(&folder)?;
        }
        let mut told = match outcome {
            Ok(told) => told,
            // Whoever watched has seen enough.
            Err(error) if is_unread(&error) => return Ok(ExitCode::SUCCESS),
            Err(error) => return Err(error),
        };
        let store = format!("sqlite:{}", tour.store().display());
        if json {
            told["store"] = self.keep.then_some(store).into();
            output::json(&told);
        } else if self.keep {
            tour.say(&format!("\nThe store is kept: try `rethread --store {store} list`\n"))?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// Our own program, in a place of its own.
struct Tour {
    folder: PathBuf,
    program: PathBuf,
    /// Programs get one answer at the end.
    json: bool,
}

/// Whether nobody reads what is printed.
fn is_unread(error: &anyhow::Error) -> bool {
    let error = error.downcast_ref::<std::io::Error>();
    error.is_some_and(|error| error.kind() == std::io::ErrorKind::BrokenPipe)
}

impl Tour {
    fn store(&self) -> PathBuf {
        self.folder.join("tour.db")
    }

    /// Tells what happens. An error where nobody reads it: the folder has to be cleared away all the same.
    fn say(&self, text: &str) -> anyhow::Result<()> {
        if !self.json {
            output::try_write(text.as_bytes())?;
        }
        Ok(())
    }

    fn step(&self, text: &str) -> anyhow::Result<()> {
        self.say(&format!("\n{}\n", output::bold(text)))
    }

    /// A command and what it printed.
    fn show(&self, args: &[&str], printed: &str) -> anyhow::Result<()> {
        let quoted =
            |arg: &&str| if arg.contains(' ') { format!("\"{arg}\"") } else { (*arg).to_owned() };
        let args: Vec<String> = args.iter().map(quoted).collect();
        self.say(&format!("   $ rethread {}\n", args.join(" ")))?;
        printed.lines().try_for_each(|line| self.say(&format!("   {line}\n")))
    }

    async fn go(&self) -> anyhow::Result<Value> {
        self.configure()?;
        let store = rethread_store::open(&StoreUrl::Sqlite(self.store())).await;
        let engine = Engine::new(store.map_err(Error::from)?, Clock::Wall);
        let mut rounds = Vec::new();
        for (number, (agent, _, expected)) in (1..).zip(AGENTS) {
            let can = match *expected {
                "resumed" => "takes up its own session",
                "loaded" => "reads its own session back",
                _ => "forgets everything when it ends",
            };
            self.step(&format!("{number}. {agent}: an agent that {can}"))?;
            rounds.push(self.round(&engine, agent, expected).await?);
        }
        self.step("4. The first conversation goes on in another agent than before")?;
        let (id, passkey) = &rounds[0];
        let answer = self.ask(*id, Some("forgetful"), QUESTION)?;
        ensure!(answer.contains(passkey.as_str()), "another agent does not know the passkey");
        self.step("5. All of it is found by its words, and given back within a budget: passkey")?;
        let mut told = self.find(&engine, *id, passkey).await?;
        told["agents"] = AGENTS
            .iter()
            .zip(&rounds)
            .map(|((agent, _, how), (id, _))| json!({"agent": agent, "opened": how, "session_id": id}))
            .collect();
        Ok(told)
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
        self.show(&["run", agent, &request], &self.run(["run", agent, &request])?)?;
        let newest = ListFilter { limit: 1, ..ListFilter::default() };
        let session = engine.list(&newest).await?;
        let id =
            session.first().map(|session: &Session| session.id).context("nothing was recorded")?;
        let short = id.short();
        self.kill(engine, id, &short).await?;
        let answer = self.ask(id, None, QUESTION)?;
        ensure!(answer.contains(&passkey), "{agent} does not know the passkey any more");
        let openings = engine.openings(None).await?;
        let is_expected =
            |how: &str| openings.iter().any(|one| one.agent == agent && one.how.as_str() == how);
        ensure!(is_expected(expected), "{agent} was not {expected}");
        Ok((id, passkey))
    }

    /// Asks for a long answer and kills the program (kill -9) when it has begun.
    async fn kill(&self, engine: &Engine, id: SessionId, short: &str) -> anyhow::Result<()> {
        let mut command = self.command(["send", short, LONG]);
        // What it says of itself would stand before the line that shows the command.
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
        let seen = read_some(&mut child)?;
        child.kill()?;
        child.wait()?;
        self.say(&format!("   $ rethread send {short} \"{LONG}\"\n   {} …", &seen[..60]))?;
        self.say("   <- kill -9, in the middle of the answer\n")?;
        engine.tidy(jiff::SignedDuration::from_hours(1)).await?;
        let last = engine.messages(id, rethread_store::Span::newest(1)).await?;
        let kept = last.first().map_or("", |message| message.body.head());
        ensure!(kept.starts_with(seen.trim_end()), "what had been seen of the answer is not there");
        self.say(&format!(
            "   All {} bytes that were on the screen are in the store, marked as interrupted.\n",
            seen.len()
        ))
    }

    fn ask(&self, id: SessionId, with: Option<&str>, prompt: &str) -> anyhow::Result<String> {
        let short = id.short();
        let mut args = vec!["resume", short.as_str(), prompt];
        args.extend(with.into_iter().flat_map(|agent| ["--with", agent]));
        let answer = self.run(args.iter().copied())?;
        self.show(&args, &answer)?;
        Ok(answer)
    }

    async fn find(&self, engine: &Engine, id: SessionId, passkey: &str) -> anyhow::Result<Value> {
        let begun = Instant::now();
        let hits = engine.search(Search::new("passkey staging", Filter::default(), 3)).await?.hits;
        let found = begun.elapsed();
        ensure!(!hits.is_empty(), "the tour did not find what it recorded");
        for hit in &hits {
            self.say(&format!("   {}  {}\n", hit.session.short(), hit.excerpt))?;
        }
        let limits = Limits { tokens: 400, messages: 2, ..Limits::default() };
        let options = ContextOptions {
            limits,
            prompt: Some(QUESTION.to_owned()),
            margin: 0.0,
            explain: false,
        };
        let begun = Instant::now();
        let context = engine.context(id, &options).await?;
        let told = begun.elapsed();
        ensure!(context.context.contains(passkey), "the context lacks what was asked for");
        self.say("\n   What an agent without memory is given before the next question:\n")?;
        for line in context.context.lines() {
            self.say(&format!("   | {line}\n"))?;
        }
        self.step("What happened")?;
        self.say(&format!(
            "   Three passkeys survived kill -9 in three kinds of agents, and one of them a change of agents. The search\n   \
             took {found:.1?}, the context {told:.1?}: {tokens} tokens of at most {limit}, quoted so that nothing in it can\n   \
             pass for an instruction.\n\n\
             Now with an agent of your own:\n   \
             rethread agents\n   \
             rethread run claude\n   \
             rethread continue\n",
            tokens = context.token_count,
            limit = options.limits.tokens,
        ))?;
        Ok(json!({
            "passkeys_survived": AGENTS.len(),
            "search_seconds": found.as_secs_f64(),
            "context_seconds": told.as_secs_f64(),
            "context_tokens": context.token_count,
        }))
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
            text.push_str(&format!(
                "[agents.{name}]\ncommand = {command}\nquirks = {{ keeps_request = true }}\nhold = {{ ask = {{}}, deny = {{}} }}\n"
            ));
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
