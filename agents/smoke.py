"""Raw ACP, without Rethread: tell an agent a passkey, `kill -9`, start it again, ask for the passkey.

Says whether the agent itself is fit for the checks, and which ways of opening an old session it has.
"""
import json
import queue
import subprocess
import threading
import time

import checks
import world


class Broken(Exception):
    pass


class Client:
    """One agent process, spoken to line by line."""

    def __init__(self, command, env, cwd, seconds=90):
        self.seconds, self.count, self.updates, self.answers = seconds, 0, [], queue.Queue()
        with open(cwd.parent / "stderr", "ab") as errors:
            self.process = subprocess.Popen(command, cwd=cwd, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                            stderr=errors, start_new_session=True)
        threading.Thread(target=self.read, daemon=True).start()
        self.initialized = self.call("initialize", {
            "protocolVersion": 1, "clientInfo": {"name": "rethread-suite", "version": "0"},
            "clientCapabilities": {"fs": {"readTextFile": False, "writeTextFile": False}, "terminal": False}})

    def read(self):
        for line in self.process.stdout:
            try:
                message = json.loads(line)
            except ValueError:
                continue
            if "method" not in message:
                self.answers.put(message)
            elif "id" in message:
                self.send({"id": message["id"], "error": {"code": -32601, "message": "not supported"}})
            else:
                self.updates.append(message.get("params", {}).get("update") or {})
        self.answers.put(None)

    def send(self, message):
        try:
            self.process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            pass

    def call(self, method, params):
        self.count += 1
        self.send({"id": self.count, "method": method, "params": params})
        while True:
            try:
                answer = self.answers.get(timeout=self.seconds)
            except queue.Empty:
                raise Broken(f"{method}: no answer in {self.seconds} s") from None
            if answer is None:
                raise Broken(f"{method}: the agent ended with code {self.process.wait()}")
            if answer.get("id") == self.count:
                if "error" in answer:
                    raise Broken(f"{method}: {json.dumps(answer['error'])[:300]}")
                return answer.get("result") or {}

    def prompt(self, session, text):
        before = len(self.updates)
        self.call("session/prompt", {"sessionId": session, "prompt": [{"type": "text", "text": text}]})
        time.sleep(0.3)     # some agents send the last piece after the answer
        return self.said("agent_message_chunk", before)

    def said(self, kind, since=0):
        return "".join(update["content"].get("text", "") for update in self.updates[since:]
                       if update.get("sessionUpdate") == kind and isinstance(update.get("content"), dict))


def check(agent, folder, stub):
    """The Result of one agent; its tier: the ways that work."""
    result = checks.Result(agent)
    home, cwd = folder / "home", folder / "work"
    home.mkdir()
    cwd.mkdir()
    agent.furnish(home, stub.url)
    key = checks.passkey()
    command, env = agent.argv(home), agent.environment(home, stub.url)
    client = None
    try:
        client = Client(command, env, cwd)
        session = client.call("session/new", {"cwd": str(cwd), "mcpServers": []})["sessionId"]
        client.prompt(session, f"my passkey is {key}")
    except Broken as broken:
        result.problems.append(f"new: {broken}")
        return result
    finally:
        world.kill(world.living_in(folder))
    ways = []
    for way in ("load", "resume"):
        began = time.monotonic()
        try:
            client = Client(command, env, cwd)
            client.call(f"session/{way}", {"sessionId": session, "cwd": str(cwd), "mcpServers": []})
            took = time.monotonic() - began
            replayed = client.said("user_message_chunk") + client.said("agent_message_chunk")
            answer = client.prompt(session, "what was the passkey?")
            held = answer
            if agent.model == "echo":       # it writes down what its session holds
                file = cwd / f"{way}.json"
                client.prompt(session, f"***SAVE_HISTORY {file}")
                held = file.read_text() if file.exists() else ""
            result.checks += 1
            if key in held:
                ways.append(way)
                result.seconds = took
            else:
                result.problems.append(f"{way}: not recalled: {answer[:200]!r}")
            result.notes.append(f"{way}: {took:.1f} s, replays {'the passkey' if key in replayed else 'nothing'}")
        except Broken as broken:
            result.notes.append(str(broken))
        finally:
            world.kill(world.living_in(folder))
    result.tier = ", ".join(ways) or "none"
    if not ways:
        result.problems.append("no way to open an old session works")
    return result
