#!/usr/bin/env python3
"""llmstub: a deterministic stand-in for a language model, on loopback only.

Speaks OpenAI chat completions, OpenAI responses, Anthropic messages and Gemini generateContent.
What it answers depends only on the conversation it is sent, mostly on the last user message, lines
that begin with ">" aside:
  "decision_type"              a small JSON object with "decisions" and "errors"
  "what was the passkey"       the LAST PASSKEY-xxxx seen anywhere, or "I don't know the passkey"
  "run: <command>"             a call of the shell tool, if the request offers one
  "write: <path>"              a call of the tool that writes files, with the word "written", if the request offers one
  "call: <tool> <JSON>"        a call of that tool with these arguments, if the request offers it
  "say: <text>"                that text, exactly
  "nothing: <anything>"        an answer without a word
  "stream: <n>"                n words, one chunk each (for cancel tests)
  "summarize ..."              "SUMMARY of <n> messages: <every passkey seen>"
  (a tool result comes last)   "Tool finished: <first 200 characters>"
  (JSON schema demanded)       the smallest instance of that schema
  anything else                "ACK: I have seen <n> messages", or the answer of --upstream
Every request is appended to --log as one JSON line, so a test can see exactly what context
reached the model.  POST /__stub/config changes the fault settings of a running stub.
"""
import argparse
import hashlib
import json
import os
import random
import re
import threading
import time
import urllib.request
from collections import namedtuple
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

PASSKEY = re.compile(r"PASSKEY-[A-Za-z0-9]+")
NOISE = re.compile(r"<(system-reminder|environment_context|session_context)>.*?</\1>", re.S)
QUOTED = re.compile(r"^>.*$", re.M)              # what is quoted was said before: no order to carry out
SHELLS = ("bash", "shell", "exec_command", "run_shell_command", "local_shell", "terminal", "execute",
          "shell_command", "run_command", "run_commands", "execute_command")
PATHS = ("file_path", "filePath", "path", "absolute_path", "absolutePath", "target_file")
CONTENTS = ("content", "contents", "file_text", "new_text")
EXTRACTION = json.dumps({
    "decisions": [{"decision_type": "architecture", "title": "Use the loopback stub", "confidence": 0.9,
                   "description": "Tests use a deterministic model.", "rationale": "Same input, same output."}],
    "errors": [{"error_type": "build", "message": "no linker", "resolution": "installed it", "resolved": True}]})

Turn = namedtuple("Turn", "role text")          # role: system, user, assistant or tool
Conversation = namedtuple("Conversation", "turns tools schema stream model", defaults=(False, None))
Reply = namedtuple("Reply", "kind text tool", defaults=("", None))
# tools: a list of (name, JSON schema of the arguments); Reply.tool: (name, arguments)


# ---- reading a request: any dialect becomes a Conversation -----------------------------------
def flatten(part):
    """All the human text inside a message content of any dialect."""
    if isinstance(part, list):
        return "\n".join(filter(None, map(flatten, part)))
    if not isinstance(part, dict):
        return str(part or "")
    found = [flatten(part.get(key)) for key in ("text", "content", "output", "parts", "arguments", "function",
                                                "functionCall", "functionResponse")]
    found += [json.dumps(part[key]) for key in ("input", "response", "args") if part.get(key)]
    return "\n".join(filter(None, found))


def read_chat(body):
    turns = [Turn(m["role"].replace("developer", "system"), flatten([m.get("content"), m.get("tool_calls")]))
             for m in body.get("messages", [])]
    tools = [(t["function"]["name"], t["function"].get("parameters") or {})
             for t in body.get("tools") or [] if "function" in t]
    wanted = (body.get("response_format") or {}).get("json_schema") or {}
    return Conversation(turns, tools, wanted.get("schema"), bool(body.get("stream")), body.get("model"))


def read_responses(body):
    turns = [Turn("system", body["instructions"])] if body.get("instructions") else []
    items = body.get("input", [])
    for item in [{"role": "user", "content": items}] if isinstance(items, str) else items:
        kind, role = item.get("type", "message"), item.get("role", "assistant").replace("developer", "system")
        if kind != "reasoning":
            turns.append(Turn("tool" if kind.endswith("_output") else role, flatten(item)))
    given = [(t["name"], t) for t in body.get("tools") or [] if "name" in t]
    given += [(f"{space}.{t['name']}", t) for space, whole in given for t in whole.get("tools") or []]
    tools = [(name, t.get("parameters") or {}) for name, t in given]
    wanted = ((body.get("text") or {}).get("format") or {}).get("schema")
    return Conversation(turns, tools, wanted, bool(body.get("stream")), body.get("model"))


def split_results(role, parts, is_result):
    """One message may carry tool results and new text: make a turn of each."""
    results, others = [p for p in parts if is_result(p)], [p for p in parts if not is_result(p)]
    turns = [Turn("tool", flatten(results))] if results else []
    return turns + ([Turn(role, flatten(others))] if others or not results else [])


def read_anthropic(body):
    turns = [Turn("system", flatten(body["system"]))] if body.get("system") else []
    for m in body.get("messages", []):
        parts = m["content"] if isinstance(m["content"], list) else [{"type": "text", "text": m["content"]}]
        turns += split_results(m["role"], parts, lambda p: p.get("type") == "tool_result")
    tools = [(t["name"], t.get("input_schema") or {}) for t in body.get("tools") or [] if "name" in t]
    wanted = (body.get("output_config") or {}).get("format") or body.get("output_format") or {}
    return Conversation(turns, tools, wanted.get("schema"), bool(body.get("stream")), body.get("model"))


def read_gemini(body):
    turns = [Turn("system", flatten(body["systemInstruction"]))] if body.get("systemInstruction") else []
    for c in body.get("contents", []):
        role = "assistant" if c.get("role") == "model" else "user"
        turns += split_results(role, c.get("parts", []), lambda p: "functionResponse" in p)
    tools = [(f["name"], f.get("parametersJsonSchema") or f.get("parameters") or {})
             for t in body.get("tools") or [] for f in t.get("functionDeclarations") or []]
    conf = body.get("generationConfig") or {}
    return Conversation(turns, tools, conf.get("responseJsonSchema") or conf.get("responseSchema"))


# ---- deciding what to answer -----------------------------------------------------------------
def sample(schema, known, name=""):
    """The smallest value a JSON schema allows; `known` gives values for named properties."""
    for key in ("anyOf", "oneOf", "allOf"):
        if schema.get(key):
            return sample(schema[key][0], known, name)
    if "const" in schema or schema.get("enum"):
        return schema.get("const", (schema.get("enum") or [None])[0])
    kind = schema.get("type", "object" if "properties" in schema else "string")
    kind = str(kind[0] if isinstance(kind, list) else kind).lower()
    if name in known:
        return known[name] if kind != "array" else [known[name]] if name == "commands" else ["bash", "-lc", known[name]]
    if kind == "object":
        props, required = schema.get("properties", {}), schema.get("required", [])
        return {k: sample(v, known, k) for k, v in props.items() if k in required or k in known}
    least = schema.get("minimum", 1)
    return {"array": [], "boolean": False, "null": None, "integer": int(least), "number": least}.get(kind, "stub")


def shell_call(tools, command):
    """(tool name, arguments) that runs `command`, or None when no tool can."""
    found = []
    for name, schema in tools:
        base = re.split(r"__|\.|/", name)[-1].lower()
        key = next((k for k in ("command", "cmd", "commands") if k in (schema.get("properties") or {})), None)
        if key:
            found.append((SHELLS.index(base) if base in SHELLS else len(SHELLS), name, sample(schema, {key: command})))
    return min(found, key=lambda f: f[0])[1:] if found else None


def file_call(tools, path):
    """(tool name, arguments) that writes a word into the file `path`, or None when no tool can."""
    for name, schema in tools:
        properties = schema.get("properties") or {}
        where, what = ([key for key in keys if key in properties] for keys in (PATHS, CONTENTS))
        if name == "apply_patch":
            patch = f"*** Begin Patch\n*** Add File: {path}\n+written\n*** End Patch"
            return name, sample(schema, dict.fromkeys(properties, patch)) if properties else patch
        if where and what:
            return name, sample(schema, {where[0]: path, what[0]: "written\n", "command": "create"})
    return None


def named_call(tools, order):
    """(tool name, arguments) as ordered, or None when there is no such tool."""
    name, _, arguments = order.partition(" ")
    try:
        given = json.loads(arguments)
    except ValueError:                  # quoted once more by the agent
        given = json.loads(arguments.replace('\\"', '"'))
    return (name, given) if any(name == known for known, _ in tools) else None


def intent(text, conv):
    """The reply one user message asks for, or None when it asks for nothing special."""
    keys = PASSKEY.findall("\n".join(t.text for t in conv.turns))
    order = re.search(r"^\W*(stream|say|run|write|call|nothing):[ \t]*(.+)", text, re.I | re.M)
    verb, rest = (order[1].lower(), order[2].strip().strip('"')) if order else ("", "")
    if "decision_type" in text:
        return Reply("extract", EXTRACTION)
    if re.search(r"what\s+was\s+the\s+passkey", text, re.I):
        return Reply("recall", f"The passkey is {keys[-1]}" if keys else "I don't know the passkey")
    if verb == "run":
        call = shell_call(conv.tools, rest)
        return Reply("tool", tool=call) if call else Reply("no-tool", f"I have no shell tool to run: {rest}")
    if verb == "write":
        call = file_call(conv.tools, rest)
        return Reply("tool", tool=call) if call else Reply("no-tool", f"I have no tool to write: {rest}")
    if verb == "call":
        call = named_call(conv.tools, rest)
        return Reply("tool", tool=call) if call else Reply("no-tool", f"I have no such tool: {rest}")
    if verb == "nothing":
        return Reply("nothing", "")
    if verb == "say":
        return Reply("say", rest)
    if verb == "stream":
        return Reply("stream", "".join(f"word{i} " for i in range(1, int(rest) + 1)))
    if re.search(r"\bsummari[sz]e\b", text, re.I):
        return Reply("summary", f"SUMMARY of {len(conv.turns)} messages: {' '.join(dict.fromkeys(keys)) or 'no key'}")
    return None


def ask_upstream(url, turns):
    """Forward the talk, without system prompt and tools, to a real (small) model."""
    talk = [{"role": "user" if t.role == "tool" else t.role, "content": NOISE.sub("", t.text)[-4000:]} for t in turns]
    body = json.dumps({"model": "upstream", "max_tokens": 200, "temperature": 0, "messages": talk[-12:]}).encode()
    request = urllib.request.Request(url.rstrip("/") + "/chat/completions", body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=300) as answer:
        return json.load(answer)["choices"][0]["message"]["content"]


def decide(conv, upstream):
    if any("decision_type" in t.text for t in conv.turns if t.role == "system"):
        return Reply("extract", EXTRACTION)
    said = [t for t in conv.turns if t.role != "system"]
    for turn in reversed(said):                     # newest first, back to the last assistant turn
        if turn.role == "assistant":
            break
        if turn.role == "tool":
            return Reply("tool-done", f"Tool finished: {turn.text[:200]}")
        if reply := intent(QUOTED.sub("", NOISE.sub("", turn.text)).strip(), conv):
            return reply
    if conv.schema:
        return Reply("schema", json.dumps(sample(conv.schema, {})))
    if upstream:
        return Reply("upstream", ask_upstream(upstream, said))
    return Reply("ack", f"ACK: I have seen {len(said)} messages")


# ---- writing an answer in each dialect: (JSON object, list of SSE events) --------------------
def sse(data, event=None):
    return (f"event: {event}\n" if event else "") + f"data: {json.dumps(data)}\n\n"


def write_chat(model, reply, chunks, uid, usage):
    use = {"prompt_tokens": usage[0], "completion_tokens": usage[1], "total_tokens": sum(usage)}
    base = {"id": f"chatcmpl-{uid}", "created": int(time.time()), "model": model, "object": "chat.completion.chunk"}
    message, finish = {"role": "assistant", "content": reply.text}, "stop"
    deltas = [{"role": "assistant", "content": ""}] + [{"content": c} for c in chunks]
    if reply.tool:
        call = {"id": f"call_{uid}", "type": "function",
                "function": {"name": reply.tool[0], "arguments": json.dumps(reply.tool[1])}}
        message, finish = {"role": "assistant", "content": None, "tool_calls": [call]}, "tool_calls"
        deltas = [{"role": "assistant", "content": None, "tool_calls": [{"index": 0, **call}]}]
    events = [sse({**base, "choices": [{"index": 0, "delta": d, "finish_reason": None}]}) for d in deltas]
    events.append(sse({**base, "choices": [{"index": 0, "delta": {}, "finish_reason": finish}], "usage": use}))
    whole = {"choices": [{"index": 0, "message": message, "finish_reason": finish}], "usage": use}
    return {**base, **whole, "object": "chat.completion"}, events + ["data: [DONE]\n\n"]


def write_responses(model, reply, chunks, uid, usage):
    at = {"output_index": 0, "content_index": 0, "item_id": f"item_{uid}"}
    if reply.tool:
        args = json.dumps(reply.tool[1])
        space, _, name = reply.tool[0].rpartition(".")
        item = {"type": "function_call", "id": at["item_id"], "call_id": f"call_{uid}", "status": "completed",
                "name": name, "arguments": args, **({"namespace": space} if space else {})}
        blank = {**item, "status": "in_progress", "arguments": ""}
        middle = [("response.function_call_arguments.delta", {**at, "delta": args}),
                  ("response.function_call_arguments.done", {**at, "arguments": args})]
        if isinstance(reply.tool[1], str):      # a tool that takes plain text
            item = {"type": "custom_tool_call", "id": at["item_id"], "call_id": f"call_{uid}", "status": "completed",
                    "name": reply.tool[0], "input": reply.tool[1]}
            blank = {**item, "status": "in_progress", "input": ""}
            middle = [("response.custom_tool_call_input.delta", {**at, "delta": reply.tool[1]}),
                      ("response.custom_tool_call_input.done", {**at, "input": reply.tool[1]})]
    else:
        part = {"type": "output_text", "text": reply.text, "annotations": []}
        item = {"type": "message", "id": at["item_id"], "role": "assistant", "status": "completed", "content": [part]}
        blank = {**item, "status": "in_progress", "content": []}
        middle = [("response.content_part.added", {**at, "part": {**part, "text": ""}}),
                  *(("response.output_text.delta", {**at, "delta": c}) for c in chunks),
                  ("response.output_text.done", {**at, "text": reply.text}),
                  ("response.content_part.done", {**at, "part": part})]
    whole = {"id": f"resp_{uid}", "object": "response", "created_at": int(time.time()), "model": model,
             "status": "completed", "output": [item], "error": None, "incomplete_details": None, "tools": [],
             "parallel_tool_calls": False, "tool_choice": "auto", "instructions": None, "metadata": {},
             "usage": {"input_tokens": usage[0], "output_tokens": usage[1], "total_tokens": sum(usage),
                       "input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 0}}}
    start = {"response": {**whole, "status": "in_progress", "output": [], "usage": None}}
    steps = [("response.created", start), ("response.in_progress", start),
             ("response.output_item.added", {"output_index": 0, "item": blank}), *middle,
             ("response.output_item.done", {"output_index": 0, "item": item}),
             ("response.completed", {"response": whole})]
    return whole, [sse({"type": t, "sequence_number": i, **d}, t) for i, (t, d) in enumerate(steps)]


def write_anthropic(model, reply, chunks, uid, usage):
    if reply.tool:
        block = {"type": "tool_use", "id": f"toolu_{uid}", "name": reply.tool[0], "input": reply.tool[1]}
        opening, stop = {**block, "input": {}}, "tool_use"
        deltas = [{"type": "input_json_delta", "partial_json": json.dumps(reply.tool[1])}]
    else:
        block, opening, stop = {"type": "text", "text": reply.text}, {"type": "text", "text": ""}, "end_turn"
        deltas = [{"type": "text_delta", "text": c} for c in chunks]
    whole = {"id": f"msg_{uid}", "type": "message", "role": "assistant", "model": model, "content": [block],
             "stop_reason": stop, "stop_sequence": None,
             "usage": {"input_tokens": usage[0], "output_tokens": usage[1],
                       "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0}}
    steps = [{"type": "message_start", "message": {**whole, "content": [], "stop_reason": None}},
             {"type": "content_block_start", "index": 0, "content_block": opening},
             *({"type": "content_block_delta", "index": 0, "delta": d} for d in deltas),
             {"type": "content_block_stop", "index": 0},
             {"type": "message_delta", "delta": {"stop_reason": stop, "stop_sequence": None},
              "usage": {"output_tokens": usage[1]}}, {"type": "message_stop"}]
    return whole, [sse(s, s["type"]) for s in steps]


def write_gemini(model, reply, chunks, uid, usage):
    def answer(part, last):
        content = {"index": 0, "content": {"role": "model", "parts": [part]}}
        return {"candidates": [content | ({"finishReason": "STOP"} if last else {})],
                "usageMetadata": use, "modelVersion": model, "responseId": uid}
    use = {"promptTokenCount": usage[0], "candidatesTokenCount": usage[1], "totalTokenCount": sum(usage)}
    parts = [{"text": c} for c in chunks]
    if reply.tool:
        parts = [{"functionCall": {"name": reply.tool[0], "args": reply.tool[1], "id": f"call_{uid}"}}]
    whole = answer(parts[0] if reply.tool else {"text": reply.text}, True)
    return whole, [sse(answer(p, i == len(parts))) for i, p in enumerate(parts, 1)]


DIALECTS = [(r"/chat/completions$", "chat", read_chat, write_chat),
            (r"/responses$", "responses", read_responses, write_responses),
            (r"/messages$", "anthropic", read_anthropic, write_anthropic),
            (r"/models/([^/:]+):(?:stream)?[gG]enerateContent$", "gemini", read_gemini, write_gemini)]


# ---- the server ------------------------------------------------------------------------------
class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        pass

    def send_json(self, data, status=200):
        raw = json.dumps(data).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(raw)))
        if status >= 400:
            self.send_header("Retry-After", "1")
        self.end_headers()
        self.wfile.write(b"" if self.command == "HEAD" else raw)

    def send_events(self, events):
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        for event in events:
            self.wfile.write(event.encode())
            self.wfile.flush()
            time.sleep(self.server.conf["chunk_delay_ms"] / 1000)

    def do_GET(self):
        path = self.path.split("?")[0].rstrip("/")
        entries = [{"id": n, "name": f"models/{n}", "object": "model", "type": "model", "display_name": n,
                    "created": 0, "owned_by": "stub", "inputTokenLimit": 200000} for n in self.server.models]
        if path in ("", "/__stub/config"):
            self.send_json(self.server.conf)
        elif path.endswith("/models"):
            self.send_json({"object": "list", "data": entries, "models": entries, "has_more": False})
        elif m := re.search(r"/models/([^/]+)$", path):
            self.send_json({**entries[0], "id": m[1], "name": f"models/{m[1]}"})
        else:
            self.server.record(kind="unknown-path", method=self.command, path=self.path)
            self.send_json({"error": {"message": "not found"}}, 404)

    do_HEAD = do_GET

    def do_POST(self):
        path, _, query = self.path.partition("?")
        raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if path == "/__stub/config":
            self.server.conf.update(json.loads(raw))
            return self.send_json(self.server.conf)
        if path.endswith(("/messages/count_tokens", ":countTokens")):
            return self.send_json(dict.fromkeys(("input_tokens", "totalTokens"), len(raw) // 4))
        match, dialect, read, write = next(((m, *d[1:]) for d in DIALECTS if (m := re.search(d[0], path))), [None] * 4)
        if not match:
            return self.do_GET()        # not a model call: answer as for GET, mostly 404
        body = json.loads(raw)
        seen = {"dialect": dialect, "method": "POST", "path": self.path, "body": body}
        if status := self.server.fault():
            self.server.record(kind="fault", status=status, **seen)
            name, google = ("rate_limit_error", "RESOURCE_EXHAUSTED") if status == 429 else ("api_error", "INTERNAL")
            error = {"type": name, "code": status, "status": google, "message": f"llmstub fault {status}"}
            return self.send_json({"type": "error", "error": error}, status)
        conv = read(body)
        stream, model = conv.stream or ":stream" in path, match[1] if dialect == "gemini" else conv.model
        reply = decide(conv, self.server.upstream)
        chunks = re.findall(r"\S+\s*", reply.text) or [""]
        uid = hashlib.sha256(raw).hexdigest()[:20]
        everything = "\n".join(t.text for t in conv.turns)
        self.server.record(kind=reply.kind, status=200, stream=stream, tools=[t[0] for t in conv.tools],
                           messages=sum(t.role != "system" for t in conv.turns),
                           passkeys=PASSKEY.findall(everything), reply=reply.text or reply.tool, **seen)
        time.sleep(self.server.conf["delay_ms"] / 1000)
        whole, events = write(model, reply, chunks, uid, (len(everything) // 4, max(1, len(reply.text) // 4)))
        try:
            if stream and (dialect != "gemini" or "alt=sse" in query):
                self.send_events(events)
            else:
                self.send_json([json.loads(e[6:]) for e in events] if stream else whole)
        except (BrokenPipeError, ConnectionResetError):
            self.server.record(kind="client-went-away", path=self.path)


class Stub(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def __init__(self, port, models, log=None, seed=0, upstream=None, **conf):
        super().__init__(("127.0.0.1", port), Handler)
        self.models, self.upstream, self.conf = models.split(","), upstream, conf
        self.lock, self.count, self.random = threading.Lock(), 0, random.Random(seed)
        self.log = open(log or os.devnull, "a", encoding="utf-8")

    def record(self, **fields):
        with self.lock:
            self.count += 1
            print(json.dumps({"n": self.count, "ts": round(time.time(), 3), **fields}), file=self.log, flush=True)

    def fault(self):
        with self.lock:                 # the HTTP status to fail this request with, or 0
            forced = self.conf["fail_next"] > 0
            self.conf["fail_next"] -= forced
            return self.conf["fail_status"] if forced or self.random.random() < self.conf["fail_rate"] else 0


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for flag, default, text in (
            ("port", 8765, "0 picks a free port; the first line printed says which"),
            ("log", "", "append every request to this file as JSON lines"),
            ("models", "stub-model", "comma-separated names for /v1/models"),
            ("upstream", "", "base URL of a real OpenAI-compatible model, such as http://127.0.0.1:8766/v1"),
            ("delay-ms", 0, "wait before each answer"),
            ("chunk-delay-ms", 0, "wait between streamed chunks"),
            ("fail-next", 0, "fail this many requests, then recover"),
            ("fail-rate", 0.0, "fail this share of requests (seeded)"),
            ("fail-status", 500, "HTTP status of a fault: 500, 429, 529 ..."),
            ("seed", 0, "seed of --fail-rate")):
        p.add_argument(f"--{flag}", type=type(default), default=default, help=f"{text} (default {default!r})")
    stub = Stub(**vars(p.parse_args()))
    print(f"llmstub listening on http://127.0.0.1:{stub.server_port}", flush=True)
    stub.serve_forever()


if __name__ == "__main__":
    main()
