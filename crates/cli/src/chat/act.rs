//! What can be typed beside messages, carried out.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use anstyle::Style;
use rethread_domain::opening::Settings;
use rethread_domain::wording::counted;
use rethread_engine::Error;
use rethread_engine::agents::Named;
use tokio::io::AsyncReadExt as _;

use super::lines::Lines;
use super::stops::Wish;
use super::{Chat, Left, Next, files, slash};
use crate::output;
use crate::terminal::markdown::Piece;
use crate::terminal::styled::{DIM, Line};
use crate::terminal::window::Kind;
use crate::{agents, commands};

/// The most of a command's output that is shown, and of it that the agent is told.
const MOST_SHOWN: usize = 256 * 1024;
const MOST_TOLD: usize = 16 * 1024;
/// The longest text that is copied: some terminals drop what is longer.
const MOST_COPIED: usize = 74_000;

impl Chat<'_> {
    /// Carries out a command of ours; nothing where it is none. What it gives ends the conversation.
    pub(super) async fn act(
        &mut self,
        command: &str,
        rest: &str,
        lines: &Lines,
    ) -> anyhow::Result<Option<Option<Left>>> {
        let is_for_person = !matches!(command, "/help" | "/model" | "/mode");
        if is_for_person && lines.window().is_none() {
            // A program has its own ways; what it says goes to the agent.
            return Ok(None);
        }
        match command {
            "/help" => output::note(format_args!("{}", slash::HELP)),
            "/model" if rest.is_empty() => {
                let offered = self.offered();
                self.list("model", &offered.models, offered.model.as_deref());
            }
            "/mode" if rest.is_empty() => {
                let offered = self.offered();
                self.list("mode", &offered.modes, offered.mode.as_deref());
            }
            "/mode" if rest == "next" => self.next_mode().await?,
            "/model" => {
                let model = Some(rest.to_owned());
                self.set("model", rest, Settings { model, ..Settings::default() }).await?;
            }
            "/mode" => {
                let mode = Some(rest.to_owned());
                self.set("mode", rest, Settings { mode, ..Settings::default() }).await?;
            }
            "/search" if rest.is_empty() => self.view.note("/search what?"),
            "/search" => self.search(rest).await?,
            "/fork" => return self.fork().await.map(Some),
            "/switch" => return Ok(Some(self.switch(rest)?)),
            "/copy" => self.copy(lines),
            "/export" => self.export(rest).await?,
            "/open" => self.view.open(),
            _ => return Ok(None),
        }
        self.tell_offers(lines);
        Ok(Some(None))
    }

    /// What there is to choose from, the one in use marked.
    fn list(&mut self, what: &str, all: &[Named], now: Option<&str>) {
        if all.is_empty() {
            let now = now.map(|now| format!("; it uses {now}")).unwrap_or_default();
            self.view.note(&format!("{} offers no {what} to choose from{now}", self.agent));
            return;
        }
        let shown = all.iter().map(|one| {
            let mark = if now == Some(one.id.as_str()) { "*" } else { " " };
            let is_same = one.name.is_empty() || one.name.eq_ignore_ascii_case(&one.id);
            let name = if is_same { String::new() } else { format!("  {}", one.name) };
            let shown = rethread_domain::quote::one_line(&format!("{}{name}", one.id), 120);
            format!("{mark} {shown}")
        });
        let hint = format!("/{what} NAME uses another one");
        let shown: Vec<String> = shown.collect();
        output::note(format_args!("{}\n{}", shown.join("\n"), output::dim(&hint)));
    }

    /// The mode after the one in use; one that is refused is passed over.
    pub(super) async fn next_mode(&mut self) -> anyhow::Result<()> {
        let offered = self.offered();
        let now = offered
            .mode
            .as_ref()
            .and_then(|now| offered.modes.iter().position(|mode| mode.id == *now));
        let count = offered.modes.len();
        if count < 2 {
            self.view.note(&format!("{} has no other mode", self.agent));
            return Ok(());
        }
        let first = now.map_or(0, |now| now + 1);
        let mut refused = None;
        for step in 0..count - usize::from(now.is_some()) {
            let mode = offered.modes[(first + step) % count].id.clone();
            let settings = Settings { mode: Some(mode.clone()), ..Settings::default() };
            match self.talk.set(&settings).await {
                Ok(()) => {
                    self.view.forget_mode();
                    self.view.note(&format!("mode is {mode}"));
                    self.view.set_status(|status| status.mode = Some(mode));
                    return Ok(());
                }
                Err(error @ Error::Agent { .. }) => refused = Some(error),
                Err(error) => return Err(error.into()),
            }
        }
        refused.map_or(Ok(()), |error| self.tell(error))
    }

    async fn set(&mut self, what: &str, name: &str, settings: Settings) -> anyhow::Result<()> {
        match self.talk.set(&settings).await {
            Ok(()) => {
                self.view.forget_mode();
                self.view.note(&format!("{what} is {name}"));
            }
            Err(error) => self.tell(error)?,
        }
        Ok(())
    }

    async fn search(&mut self, words: &str) -> anyhow::Result<()> {
        if let Err(error) = commands::search::here(self.app, words).await {
            self.view.note(&format!("error: {error}"));
        }
        Ok(())
    }

    async fn fork(&mut self) -> anyhow::Result<Option<Left>> {
        let fork = match self.app.engine.fork(self.session, None).await {
            Ok(fork) => fork,
            Err(error) => {
                self.view.note(&format!("error: {error}"));
                return Ok(None);
            }
        };
        let (own, other) = (fork.id.short(), self.session.short());
        self.view.note(&format!("going on in {own}, a fork of {other}, which stays as it is"));
        self.next = Some(Next::Session(fork.id));
        Ok(Some(Left::Elsewhere))
    }

    /// Another agent goes on; without a name, those that are installed.
    fn switch(&mut self, name: &str) -> anyhow::Result<Option<Left>> {
        if name.is_empty() {
            let all = agents::installed(&self.app.config)?;
            let named = |name: String| Named { name: String::new(), id: name };
            let all: Vec<Named> = all.into_iter().map(|entry| named(entry.name)).collect();
            let now = self.agent.clone();
            let shown = all.iter().map(|one| {
                let mark = if one.id == now { "*" } else { " " };
                format!("{mark} {}", one.id)
            });
            let shown: Vec<String> = shown.collect();
            let hint = output::dim("/switch AGENT goes on with another one");
            output::note(format_args!("{}\n{hint}", shown.join("\n")));
            return Ok(None);
        }
        let entry = match self.app.agent(name) {
            Ok(entry) => entry,
            Err(error) => {
                self.view.note(&format!("error: {error}"));
                return Ok(None);
            }
        };
        if let Err(trouble) = self.app.launcher(entry)?.program() {
            self.view.note(&format!("error: {trouble}"));
            return Ok(None);
        }
        self.next = Some(Next::Agent(name.to_owned()));
        Ok(Some(Left::Elsewhere))
    }

    /// Asks the terminal to take the last answer to the clipboard.
    fn copy(&mut self, lines: &Lines) {
        let answer = self.view.answer().trim_end().to_owned();
        let Some(window) = lines.window() else {
            self.view.note("there is no terminal that could copy it");
            return;
        };
        if answer.is_empty() {
            self.view.note("there is no answer to copy yet");
        } else if answer.len() > MOST_COPIED {
            self.view.note(
                "the last answer is too long for the terminal's clipboard; /export writes a file",
            );
        } else {
            window.copy(&answer);
            let count = counted(answer.chars().count(), "character");
            self.view.note(&format!("asked the terminal to copy the last answer ({count})"));
        }
    }

    async fn export(&mut self, file: &str) -> anyhow::Result<()> {
        let name = format!("rethread-{}.md", self.session.short());
        let file = Path::new(&self.project).join(if file.is_empty() { &name } else { file });
        match commands::export::to_file(self.app, self.session, &file).await {
            Ok(()) => self.view.note(&format!("wrote {}", file.display())),
            Err(error) => self.view.note(&format!("error: {error}")),
        }
        Ok(())
    }

    /// Runs a command of the person's. The agent is told of it with the next message.
    pub(super) async fn run(&mut self, command: &str, lines: &mut Lines) -> anyhow::Result<()> {
        if command.is_empty() {
            self.view.note("! and a command runs it here");
            return Ok(());
        }
        self.view.set_busy(Some(&format!("running {command}")));
        let ran = output_of(command, &PathBuf::from(&self.project), lines).await;
        self.view.set_busy(None);
        let (output, ended) = match ran {
            Ok(ran) => ran,
            Err(error) => {
                self.view.note(&format!("error: {error}"));
                return Ok(());
            }
        };
        let shown: Vec<Piece> = output
            .lines()
            .map(|line| Piece::Line(Line::plain("    ").and(line, Style::new()), 4))
            .chain(
                ended.iter().map(|ended| Piece::Line(Line::new(&format!("    {ended}"), DIM), 4)),
            )
            .collect();
        match lines.window() {
            Some(window) => window.show(Kind::Tool, shown),
            None => output::data(&rethread_domain::quote::safe(&output)),
        }
        let end = output.floor_char_boundary(MOST_TOLD);
        let cut = if end < output.len() { "\n… (cut)" } else { "" };
        let ended = ended.map(|ended| format!("\n({ended})")).unwrap_or_default();
        let told = format!("{}{cut}{ended}", &output[..end]);
        self.ran.push(format!("I ran {}", files::fenced(&format!("`{command}`"), &told)));
        Ok(())
    }

    /// A message with the files that it names, after the commands that were run since the last one.
    pub(super) fn prompt(&mut self, message: &str, lines: &Lines) -> String {
        if lines.window().is_none() {
            return message.to_owned();
        }
        let (message, left_out) = files::expanded(&self.project, &self.agent, message);
        for why in left_out {
            self.view.note(&why);
        }
        let mut parts = std::mem::take(&mut self.ran);
        parts.push(message);
        parts.join("\n\n")
    }
}

/// What a command prints, and how it ended where that was not well.
async fn output_of(
    command: &str,
    folder: &Path,
    lines: &mut Lines,
) -> anyhow::Result<(String, Option<String>)> {
    let mut child = tokio::process::Command::new("sh");
    // Both go the same way, in the order in which they come.
    child.args(["-c", &format!("exec 2>&1\n{command}")]).current_dir(folder);
    child.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).kill_on_drop(true);
    let mut child = child.process_group(0).spawn()?;
    let group = child.id().and_then(|id| i32::try_from(id).ok());
    let mut bytes = Vec::new();
    let mut stdout = child.stdout.take();
    let mut piece = vec![0; 8192];
    loop {
        let read = async {
            match &mut stdout {
                Some(stdout) => stdout.read(&mut piece).await,
                None => Ok(0),
            }
        };
        tokio::select! {
            read = read => match read? {
                0 => break,
                count => {
                    let room = MOST_SHOWN.saturating_sub(bytes.len());
                    bytes.extend_from_slice(&piece[..count.min(room)]);
                }
            },
            wish = lines.wish() => if wish != Wish::Open {
                if let Some(group) = group.and_then(rustix::process::Pid::from_raw) {
                    // It may have ended by itself.
                    let _ended = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
                }
                return Ok((String::from_utf8_lossy(&bytes).into_owned(), Some("stopped".to_owned())));
            },
        }
    }
    let status = child.wait().await?;
    let ended = (!status.success()).then(|| status.to_string());
    Ok((String::from_utf8_lossy(&bytes).into_owned(), ended))
}
