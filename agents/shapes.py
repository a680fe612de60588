"""Sessions of other shapes than question and answer, as far as each agent can make them without a window: with a picture, with
a sub-agent, interrupted, forked, compacted. `./agents/import` holds them and judges what was imported.
"""
import base64
import contextlib
import copy
import json
import os
import re
import select
import sqlite3
import subprocess
import threading
import time
import urllib.request
import zlib

import world

TO_A_SUB_AGENT = "say: seen by the sub-agent"
LONG = "a long text " * 8_000       # some 24,000 tokens
SKIP = "--dangerously-skip-permissions"
KILO = ["-m", "stub/stub-model"]

# A prompt with a picture, in a session that goes on. fast-agent takes the stub for a model that sees none.
PICTURE = {
    "codex": ["exec", "resume", "{id}", "-i", "{picture}", "{p}"],
    "opencode": ["run", "--session", "{id}", "-f", "{picture}", "--", "{p}"],
    "kilo": ["run", *KILO, "--session", "{id}", "-f", "{picture}", "--", "{p}"],
    "gemini": ["-y", "--resume", "{id}", "-p", "{p} @picture.png"],
    "copilot": ["--resume={id}", "-s", "--allow-all-tools", "--attachment", "{picture}", "-p", "{p}"],
    "pi": ["--session", "{id}", "-p", "@{picture}", "{p}"],
    "qwen": ["-y", "-m", "qwen-vl-max", "--resume", "{id}", "-p", "{p} @picture.png"],
}
# By its name Qwen takes a model for one that sees, from then on.
SEEING = {"qwen": ["-y", "-m", "qwen-vl-max", "--resume", "{id}", "-p", "{p}"]}
# A tool that shows the model a picture, where prompts have none.
LOOKING = {"goose": ("read_image", {"source": "{picture}"})}

# The tool that starts a sub-agent, and what it is given.
CALLS = {"description": "look", "prompt": TO_A_SUB_AGENT}
SUB_AGENT = {
    "claude": ("Agent", {**CALLS, "subagent_type": "general-purpose", "run_in_background": False}),
    "codex": ("collaboration.spawn_agent", {"task_name": "look", "message": TO_A_SUB_AGENT, "fork_turns": "none"}),
    "opencode": ("task", {**CALLS, "subagent_type": "general"}),
    "kilo": ("task", {**CALLS, "subagent_type": "general"}),
    "gemini": ("invoke_agent", {"agent_name": "generalist", "prompt": TO_A_SUB_AGENT}),
    "copilot": ("task", {**CALLS, "agent_type": "general-purpose", "name": "look", "mode": "sync"}),
    "goose": ("delegate", {"instructions": TO_A_SUB_AGENT}),
    "qwen": ("agent", {**CALLS, "subagent_type": "general-purpose", "run_in_background": False}),
    "kimi": ("Agent", {**CALLS, "run_in_background": False}),
}
WITH_SUB_AGENTS = {"codex": ["exec", "-c", "features.multi_agent_v2=true", "resume", "{id}", "{p}"]}

FORK = {
    "claude": ["--resume", "{id}", "--fork-session", "-p", "{p}", SKIP],
    "codex": ["exec", "fork", "{id}", "{p}"],
    "opencode": ["run", "--session", "{id}", "--fork", "{p}"],
    "kilo": ["run", *KILO, "--session", "{id}", "--fork", "{p}"],
    "qwen": ["-y", "--resume", "{id}", "--fork-session", "-p", "{p}"],
    "pi": ["--fork", "{id}", "-p", "{p}"],
    "kimi": ["-S", "{id}", "-p", "{p}"],        # of a copy that another command makes
}

COMPACTING = {"claude": "/compact", "qwen": "/compress", "copilot": "/compact", "goose": "/compact"}
COMPACTING_WORDS = {"codex": ["exec", "-c", "model_auto_compact_token_limit=100", "resume", "{id}", "{p}"]}
# Settings by which the next turn after a long text compacts.
COMPACTING_SETTINGS = {
    "gemini": (".gemini/settings.json", '"name": "gemini-2.5-flash"', '"name": "gemini-2.5-flash", "compressionThreshold": 0.01'),
    "kimi": (".kimi-code/config.toml", "max_context_size = 200000", "max_context_size = 30000"),
    "vibe": (".vibe/config.toml", 'alias = "stub"', 'alias = "stub"\nauto_compact_threshold = 20000'),
}


def picture():
    """A small picture, as PNG."""
    def chunk(kind, data):
        return len(data).to_bytes(4, "big") + kind + data + zlib.crc32(kind + data).to_bytes(4, "big")
    rows = b"".join(b"\0" + bytes([x * 16, y * 16, 128][channel] for x in range(16) for channel in range(3)) for y in range(16))
    head = (16).to_bytes(4, "big") * 2 + bytes([8, 2, 0, 0, 0])
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def fill(check, words, prompt):
    given = {"{p}": prompt, "{id}": check.session, "{home}": str(check.home), "{picture}": str(check.work / "picture.png")}
    for old, new in given.items():
        words = [word.replace(old, new) for word in words]
    return words


def goes_on(check, prompt):
    """Imports, resumes in the agent's own program, and compares what was imported with what that tells the model."""
    check.imported()
    shown, messages = check.messages()
    mark = check.stub.mark()
    check.say(prompt)
    requests = [request for request in check.stub.since(mark) if prompt in request.last]
    check.hold(requests, f"{prompt!r} did not reach the model")
    if requests:
        check.compare(messages, requests[-1])
    return shown, messages


def with_a_picture(check):
    (check.work / "picture.png").write_bytes(picture())
    check.cli = copy.copy(check.cli)
    check.cli.again = SEEING.get(check.name, check.cli.again)
    if check.name == "claude":
        source = {"type": "base64", "media_type": "image/png", "data": base64.b64encode(picture()).decode()}
        content = [{"type": "image", "source": source}, {"type": "text", "text": "say: a picture"}]
        line = json.dumps({"type": "user", "message": {"role": "user", "content": content}})
        check.run(["-p", "--resume", check.session, "--input-format", "stream-json", "--output-format", "stream-json", "--verbose",
                   SKIP], stdin=line + "\n")
    elif check.name in LOOKING:
        check.say(order(LOOKING[check.name]).replace("{picture}", str(check.work / "picture.png")))
    else:
        check.run(fill(check, PICTURE[check.name], "say: a picture"))
    _, messages = goes_on(check, "say: after the picture")
    shown = [one for message in messages for one in (message.get("extra") or {}).get("attachments") or []]
    check.hold(any(one["mime"].startswith("image/") for one in shown), f"no picture was imported: {shown}")
    check.hold(any(one.get("data") or one.get("digest") for one in shown), f"the picture has no data: {shown}")


def order(call):
    return f"call: {call[0]} {json.dumps(call[1])}"


def with_a_sub_agent(check):
    words = WITH_SUB_AGENTS.get(check.name, check.cli.again)
    check.run(fill(check, words, order(SUB_AGENT[check.name])))
    shown, messages = goes_on(check, "say: after the sub-agent")
    # What codex hands to a sub-agent is encrypted by its provider: the stub cannot read its task.
    said = "ACK: I have seen" if check.name == "codex" else "seen by the sub-agent"
    found = json.loads(check.ours("list", "--all", "--json"))
    children = [one["session_id"] for one in found if one.get("parent_session_id") == shown["session_id"]]
    told = [message for child in children for message in json.loads(check.ours("show", child, "--all", "--json"))["messages"]]
    told += [message for message in shown["messages"] if message["conversation"].startswith("subagent-")]
    check.hold(any(m["role"] == "assistant" and said in m["content"] for m in told), f"what the sub-agent said is not there: {told}")
    tools = [m["content"] for m in messages if m["role"] == "tool"]
    name = SUB_AGENT[check.name][0].rpartition(".")[2]
    check.hold(any(name in text.split("\n")[0] and "unanswered" not in text for text in tools), f"no call of {name}: {tools}")
    check.hold(said in check.ours("search", f'"{said}"').replace("**", ""), "the sub-agent is not found")


def interrupted(check):
    """Killed while the model answers."""
    lost = "Remember this: PASSKEY-interrupted\nstream: 600"
    check.stub.set(chunk_delay_ms=50)
    mark, begun = check.stub.mark(), check.begin(lost)
    reached = world.wait_for(lambda: any("stream: 600" in request.last for request in check.stub.since(mark)), 120, every=0.3)
    check.hold(reached, "the request that is to be interrupted did not reach the model")
    time.sleep(3)       # some of the answer has come
    check.hold(begun.poll() is None, "the agent was not at work any more")
    world.kill([pid for pid in world.living_in(check.home.parent) if pid != check.stub.process.pid])
    begun.wait()
    check.stub.set(chunk_delay_ms=0)
    goes_on(check, "say: after the interruption")


def forked(check):
    check.imported()
    before = check.messages()[0]
    words = fill(check, FORK[check.name], "say: in a fork")
    if check.name == "kimi":
        copies = set(re.findall(r"session_[\w-]+", check.run(["fork", check.session, "--yes"]))) - {check.session}
        words = [copies.pop() if word == check.session else word for word in words]
    check.run(words)
    tally = check.imported()
    check.hold(tally["new"] >= 1, f"the fork was not imported: {tally}")
    found = json.loads(check.ours("list", "--all", "--json"))
    shown = [json.loads(check.ours("show", one["session_id"], "--all", "--json")) for one in found]
    held = [[message["content"] for message in one["messages"]] for one in shown]
    forks = [texts for texts in held if any("in a fork" in text for text in texts)]
    check.hold(len(forks) == 1 and any("PASSKEY" in text for text in forks[0]), f"{len(forks)} forks: {forks}")
    now = next(one for one in shown if one["session_id"] == before["session_id"])
    check.hold(len(now["messages"]) == len(before["messages"]), "the fork has changed what it came from")


@contextlib.contextmanager
def server(check):
    """The agent's own server (opencode, kilo); gives how it is asked."""
    process = subprocess.Popen([check.cli.program(), "serve", "--port", "0"], cwd=check.work, env=check.env, stdin=subprocess.DEVNULL,
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True)
    try:
        printed, end = b"", time.monotonic() + 120
        while not (found := re.search(rb"listening on (http://\S+)", printed)) and time.monotonic() < end:
            if select.select([process.stdout], [], [], 1)[0]:
                printed += os.read(process.stdout.fileno(), 1 << 16)
        if not found:
            raise RuntimeError(f"no server: {printed[-300:]!r}")
        url = found[1].decode()

        def ask(path, body):
            headers = {"Content-Type": "application/json"}
            request = urllib.request.Request(f"{url}/session/{check.session}/{path}", json.dumps(body).encode(), headers)
            with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=120) as answer:
                return json.load(answer)
        yield ask
    finally:
        process.kill()
        process.wait()


def roll_back(check):
    """Has Codex's own server take the last turn back, as its window does."""
    process = subprocess.Popen([check.cli.program(), "app-server"], cwd=check.work, env=check.env, stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    patience = threading.Timer(120, process.kill)
    patience.start()

    def ask(method, **params):
        process.stdin.write(json.dumps({"id": method, "method": method, "params": params}).encode() + b"\n")
        process.stdin.flush()
        answers = (json.loads(line) for line in process.stdout)
        answer = next((one for one in answers if one.get("id") == method), {})
        check.hold("result" in answer, f"{method}: {str(answer)[:300]}")
        return answer.get("result") or {}
    try:
        ask("initialize", clientInfo={"name": "till", "version": "1"})
        ask("thread/resume", threadId=check.session)
        newest = ask("thread/turns/list", threadId=check.session, limit=1).get("data") or [{}]
        ask("thread/revert", threadId=check.session, beforeTurnId=newest[0].get("id", ""))
    finally:
        patience.cancel()
        process.kill()
        process.wait()


def taken_back(check):
    """A turn is taken back, and the conversation goes another way."""
    if check.name == "claude":
        file = next((check.home / check.cli.store).rglob(f"{check.session}.jsonl"))
        records = [json.loads(line) for line in file.read_text().splitlines()]
        leaf = [one for one in records if one.get("type") == "assistant"][-1]["uuid"]
    check.say("say: left behind")
    check.imported()
    check.hold(any(m["content"] == "left behind" for m in check.messages()[1]), "what is to be taken back was not imported")
    if check.name == "claude":
        check.run(["--resume", check.session, "--resume-session-at", leaf, "-p", "say: another way", SKIP])
    elif check.name == "codex":
        roll_back(check)
        check.say("say: another way")
    else:
        with contextlib.closing(sqlite3.connect(f"file:{check.home / check.cli.store}?mode=ro", uri=True)) as database:
            sql = "select message_id from part where session_id = ? and data like '%say: left behind%'"
            message = database.execute(sql, [check.session]).fetchone()[0]
        with server(check) as ask:
            ask("revert", {"messageID": message})
        check.say("say: another way")
    _, messages = goes_on(check, "say: after another way")
    texts = [message["content"] for message in messages]
    check.hold("another way" in texts and "left behind" not in texts, "what was taken back is still in the conversation")
    found = json.loads(check.ours("list", "--all", "--json"))
    shown = [json.loads(check.ours("show", one["session_id"], "--all", "--json")) for one in found]
    check.hold(any(m["content"] == "left behind" for one in shown for m in one["messages"]), "what was taken back is lost")


def compacted(check):
    name = check.name
    if name in COMPACTING:
        check.say(COMPACTING[name])
    elif name in COMPACTING_WORDS:
        check.run(fill(check, COMPACTING_WORDS[name], "say: at the compaction"))
    elif name in COMPACTING_SETTINGS:
        file, old, new = COMPACTING_SETTINGS[name]
        settings = check.home / file
        check.say(LONG)
        check.say("say: something short")
        before = settings.read_text()
        settings.write_text(before.replace(old, new))
        check.say("say: at the compaction")
        settings.write_text(before)
    elif name in ("opencode", "kilo"):
        with server(check) as ask:
            ask("summarize", {"providerID": "stub", "modelID": "stub-model"})
    elif name == "pi":
        settings = check.home / ".pi/agent/settings.json"
        settings.write_text(json.dumps({**json.loads(settings.read_text()), "compaction": {"keepRecentTokens": 1, "reserveTokens": 1000}}))
        check.ask_rpc(["--session", check.session, "--mode", "rpc"], {"type": "compact"})
    _, messages = goes_on(check, "say: after the compaction")
    marked = [message for message in messages if (message.get("extra") or {}).get("compacted")]
    check.hold(marked, "the compaction is not told")


def of(name):
    """What an agent can make here: pairs of a name and how."""
    ways = []
    if name in PICTURE or name in LOOKING or name == "claude":
        ways.append(("picture", with_a_picture))
    if name in SUB_AGENT:
        ways.append(("sub-agent", with_a_sub_agent))
    if name != "cline":     # driven by Rethread, which tells it anew where its session was cut off: the suite checks that
        ways.append(("interruption", interrupted))
    if name in ("claude", "codex", "opencode", "kilo"):
        ways.append(("taken back", taken_back))
    if name in FORK:
        ways.append(("fork", forked))
    if name in COMPACTING or name in COMPACTING_WORDS or name in COMPACTING_SETTINGS or name in ("opencode", "kilo", "pi"):
        ways.append(("compaction", compacted))
    return ways
