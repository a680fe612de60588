//! The MCP server: how soon after its start it lists its tools, and what saving one more message costs.
//!
//! `cargo run --release -p rethread-bench --bin mcp`

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use rethread_bench::{millis, program, say};
use serde_json::{Value, json};

const STARTS: usize = 30;
const SAVES: usize = 60;

struct Server {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    next: u64,
}

impl Server {
    fn start(folder: &Path) -> Result<Self> {
        let mut child = Command::new(program("rethread")?)
            .args(["--store", &format!("sqlite:{}", folder.join("store.db").display()), "mcp"])
            .env("HOME", folder)
            .current_dir(folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let input = child.stdin.take().context("a pipe")?;
        let output = BufReader::new(child.stdout.take().context("a pipe")?);
        let mut server = Self { child, input, output, next: 0 };
        let hello = json!({
            "protocolVersion": "2025-11-25", "capabilities": {},
            "clientInfo": {"name": "bench", "version": "1"},
        });
        server.call("initialize", &hello)?;
        writeln!(
            server.input,
            "{}",
            json!({"jsonrpc": "2.0", "method": "notifications/initialized"})
        )?;
        Ok(server)
    }

    fn call(&mut self, method: &str, params: &Value) -> Result<Value> {
        self.next += 1;
        let request =
            json!({"jsonrpc": "2.0", "id": self.next, "method": method, "params": params});
        writeln!(self.input, "{request}")?;
        loop {
            let mut line = String::new();
            ensure!(self.output.read_line(&mut line)? > 0, "the server ended");
            let answer: Value = serde_json::from_str(&line)?;
            if answer["id"] == self.next {
                ensure!(
                    answer["error"].is_null() && answer["result"]["isError"] != true,
                    "{answer}"
                );
                return Ok(answer);
            }
        }
    }

    fn record(&mut self, session: Option<&Value>, count: usize) -> Result<Value> {
        let message = json!({"role": "user", "content": "The heron has an egg."});
        let mut arguments = json!({"messages": vec![message; count]});
        if let Some(session) = session {
            arguments["session_id"] = session.clone();
        }
        let params = json!({"name": "record_messages", "arguments": arguments});
        let answer = self.call("tools/call", &params)?;
        let given = answer["result"]["content"][0]["text"].as_str().unwrap_or_default();
        Ok(serde_json::from_str::<Value>(given)?["session_id"].clone())
    }

    fn end(mut self) -> Result<()> {
        drop(self.input);
        self.child.wait()?;
        Ok(())
    }
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

fn main() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let mut times = Vec::new();
    for _ in 0..STARTS {
        let begun = Instant::now();
        let mut server = Server::start(folder.path())?;
        let listed = server.call("tools/list", &json!({}))?;
        times.push(begun.elapsed());
        ensure!(listed["result"]["tools"].as_array().map(Vec::len) == Some(11), "{listed}");
        server.end()?;
    }
    let most = times.iter().max().copied().unwrap_or_default();
    say(&format!(
        "tools/list after the start of the process: median {:.1} ms, most {:.1} ms (limit 50 ms)",
        millis(median(times)),
        millis(most)
    ));
    let mut server = Server::start(folder.path())?;
    let mut medians = Vec::new();
    for count in [100_usize, 50_000] {
        let session = server.record(None, count.min(1_000))?;
        for _ in 1..count / 1_000 {
            server.record(Some(&session), 1_000)?;
        }
        let mut times = Vec::new();
        for _ in 0..SAVES {
            let begun = Instant::now();
            server.record(Some(&session), 1)?;
            times.push(begun.elapsed());
        }
        let time = median(times);
        say(&format!(
            "record_messages with one more message at {count}: median {:.2} ms",
            millis(time)
        ));
        medians.push(time);
    }
    say(&format!("ratio {:.2}", medians[1].as_secs_f64() / medians[0].as_secs_f64()));
    server.end()
}
