"""What must hold when Rethread drives a real agent: one scenario per agent, proved from what reached the model.

A told a passkey and killed → A again, natively → B, by retelling → B again → A, with what it missed → A again →
A without its own memory, by retelling → A again. Beside it a second conversation that must stay apart, and an answer that
`kill -9` cuts off.
"""
import json
import os
import re
import shutil
import subprocess
import time
import uuid
from dataclasses import dataclass, field

import world

NATIVE = ("resumed", "loaded")
SECONDS = 240                       # for one command
INJECTED = ("This is the earlier history of a session", "This was said in our conversation without you")    # how we begin
# Titles and summaries repeat words of messages.
ABOUT = re.compile(r"^### Session summary$.*?(?=^## )|^(?:- Title:|#+ )[^\n]*$", re.M | re.S)
REPEATED = re.compile(r"(may|might|possibly|perhaps)[^.\n]{0,80}(repeat|already|twice|again)", re.I)   # how a second telling is marked
WORDS, WORD_MS, HEARD = 200, 50, 20     # the long answer: its words, the time of each, how many are shown before the kill
LATE_MS = 30000                     # how long the model is silent before an answer that never comes
OUTLIVES = 5                        # seconds that something may be there after Rethread


class Broken(Exception):
    """The scenario cannot go on."""


@dataclass
class Result:
    agent: object
    tier: str = "none"              # how the agent opened its old session
    elsewhere: str = "none"         # how another agent opened it
    seconds: float | None = None    # to open the old session natively
    checks: int = 0
    problems: list = field(default_factory=list)
    notes: list = field(default_factory=list)
    known: list = field(default_factory=list)       # what this agent cannot do, with the reason: not checked, and said so

    def add(self, other):
        """Takes in what other checks of the same agent found."""
        self.checks += other.checks
        self.problems += other.problems
        self.notes += other.notes
        self.known += other.known


@dataclass
class Talk:
    """One conversation: its id in Rethread, and all that was said in it, in order."""
    keys: list                      # its passkeys, the newest last
    id: str = ""
    records: list = field(default_factory=list)

    @property
    def key(self):
        return self.keys[-1]


def tag():
    return f"mark{uuid.uuid4().hex[:10]}"


def passkey():
    return f"PASSKEY-{uuid.uuid4().hex[:12]}"


def places(records, text):
    """Whether the records stand in the text in this order."""
    at = 0
    for record in records:
        at = text.find(record, at)
        if at < 0:
            return False
        at += len(record)
    return True


def send(talk, prompt):
    return ["send", talk.id, prompt]


def resume(agent):
    return lambda talk, prompt: ["resume", talk.id, prompt, "--with", agent.entry]


class Scenario:
    def __init__(self, agent, partner, rethread, folder, stub):
        self.agent, self.partner, self.rethread, self.folder, self.stub = agent, partner, rethread, folder, stub
        self.result, self.talks, self.step = Result(agent), [], ""
        self.cwd, self.own = folder / "work", folder / "rethread"
        for place in (self.cwd, self.own / "config/rethread"):
            place.mkdir(parents=True)
        config = []
        for one in (agent, partner):
            self.furnish(one)
            env = ", ".join(f"{key} = {json.dumps(value)}" for key, value in one.environment(self.home(one), stub.url).items())
            config.append(f"[agents.{one.entry}]\ncommand = {json.dumps(one.argv(self.home(one)))}\nenv = {{ {env} }}\n"
                          + f"permissions = {json.dumps(one.permissions)}\n" * bool(one.permissions))
        (self.own / "config/rethread/config.toml").write_text("\n".join(config))

    def home(self, agent):
        return self.folder / f"home-{agent.name}"

    def furnish(self, agent):
        self.home(agent).mkdir()
        agent.furnish(self.home(agent), self.stub.url)

    def expect(self, holds, otherwise):
        self.result.checks += 1
        if not holds:
            self.result.problems.append(f"{self.step}: {otherwise}")
        return holds

    def cannot(self, reason):
        """Something of this step cannot be had of this agent: told beside the result, never passed over in silence."""
        self.result.known.append(f"{self.step}: {reason}")

    # ---- Rethread as a process -------------------------------------------------------------------------------
    def environment(self, config="config"):
        return {"PATH": os.environ.get("PATH", os.defpath), "HOME": str(self.own), "LANG": "C.UTF-8", "TERM": "dumb",
                "XDG_CONFIG_HOME": str(self.own / config)}

    def start(self, *words, json=True, config="config"):
        self.errors = open(self.folder / "stderr", "ab+")
        return subprocess.Popen([self.rethread, "--store", f"sqlite:{self.own}/store.db", *words, *["--json"] * json], cwd=self.cwd,
                                env=self.environment(config), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=self.errors)

    def running(self):
        """The processes of this scenario: Rethread and its agents, who live in its folder."""
        return world.living_in(self.folder)

    def call(self, *words, kill=False):
        """Runs one command to its end, or until it has answered and then `kill -9` for it and the agent."""
        before = self.folder.joinpath("stderr").stat().st_size if self.folder.joinpath("stderr").exists() else 0
        process = self.start(*words)
        answer = world.first_json(process.stdout, SECONDS)
        if kill and answer is not None:
            world.kill(self.running())
        try:
            code = process.wait(SECONDS if answer is not None else 10)
        except subprocess.TimeoutExpired:
            code = None
        left = world.wait_until_none(self.running, OUTLIVES)
        world.kill([process.pid, *left])
        process.wait()
        self.errors.seek(before)
        said = self.errors.read().decode("utf8", "replace").strip()
        self.errors.close()
        if answer is None or (code and not kill):
            raise Broken(f"`rethread {words[0]}` ended with {code}: {json.dumps(answer)} {said[-600:]}")
        self.expect(code is not None, "Rethread did not end after its answer")
        self.expect(not left, f"{len(left)} processes were still there after the end of Rethread")
        missing = {"session_id", "answer", "opened"} - answer.keys()
        if missing or "how" not in answer["opened"]:
            raise Broken(f"the answer of `rethread {words[0]}` has no {', '.join(sorted(missing)) or 'opened.how'}: {answer}")
        return answer

    # ---- one turn, and what the model saw of it --------------------------------------------------------------
    def turn(self, talk, agent, prompt, words, how, **more):
        """Sends a prompt; gives (Rethread's answer, what the model saw: [(all, the last message)])."""
        mark = self.stub.mark()
        answer = self.call(*words, **more)
        talk.id = talk.id or answer["session_id"]
        self.expect(answer["session_id"] == talk.id, f"another session: {answer['session_id']} instead of {talk.id}")
        opened = answer["opened"]
        self.expect(opened["how"] in how, f"opened as {opened['how']} ({opened.get('why')}), expected {' or '.join(how)}")
        if agent.model == "echo":
            self.expect(prompt in answer["answer"], "the echo of the prompt is missing in the answer")
            seen = [(None, answer["answer"])]
        else:
            requests = [request for request in self.stub.since(mark) if prompt in request.last]
            requests = [request for request in requests if request.tools] or requests    # without titles and the like
            self.expect(requests, "the prompt never reached the model")
            self.expect(any(str(request.reply) in answer["answer"] for request in requests),
                        f"the model's answer is not Rethread's: {answer['answer'][:200]!r}")
            seen = [(request.text, request.last) for request in requests]
        before = list(talk.records)
        talk.records += [prompt, answer["answer"].strip()]
        return answer, seen, before

    def recalled(self, talk, agent, answer, seen):
        if agent.model == "echo":
            return
        self.expect(f"The passkey is {talk.key}" in answer["answer"], f"not recalled: {answer['answer'][:200]!r}")

    def exactly_once(self, records, prompt, text):
        """Every record as often as it was said, in order, and the prompt after them."""
        text = ABOUT.sub("", text)
        wanted = [*records, prompt]
        for record in dict.fromkeys(wanted):
            # A shorter record may stand inside a longer one.
            count = sum(other.count(record) for other in wanted)
            found = text.count(record)
            self.expect(found == count, f"{record[:60]!r} reached the model {found} times, expected {count}")
        self.expect(places(wanted, text), "the records did not reach the model in their order")

    def nothing_injected(self, before, prompt, seen):
        for everything, last in seen:
            self.expect(not any(begin in last for begin in INJECTED), "something was injected into the message")
            old = [record for record in before if record in last and record not in prompt]
            self.expect(not old, f"the message repeats what the agent knows: {old[:1]}")
            if everything is None:
                self.expect(last.strip() == prompt, f"the agent got more than the message: {last[:200]!r}")
            else:
                self.exactly_once(before, prompt, everything)

    # ---- the scenario ----------------------------------------------------------------------------------------
    def ask(self):
        return f"Question {tag()}: what was the passkey?"

    def talk(self):
        self.talks.append(Talk([passkey()]))
        return self.talks[-1]

    def told(self, talk, **more):
        prompt = f"Note {tag()}: my passkey is {talk.key}."
        return self.turn(talk, self.agent, prompt, ["run", self.agent.entry, prompt], ["fresh"], **more)

    def again(self, talk, agent, prompt=None):
        """A clean native resume; the story retold where the agent has no safe way back into its sessions."""
        if not agent.loads:
            self.cannot("its own session is not taken up: session/load destroys a session in the minute of its creation")
            return self.retold(talk, agent, send, prompt)
        prompt = prompt or self.ask()
        answer, seen, before = self.turn(talk, agent, prompt, send(talk, prompt), NATIVE)
        if "what was" in prompt:
            self.recalled(talk, agent, answer, seen)
        self.nothing_injected(before, prompt, seen)
        return answer

    def retold(self, talk, agent, command, prompt=None):
        prompt = prompt or self.ask()
        answer, seen, before = self.turn(talk, agent, prompt, command(talk, prompt), ["retold"])
        if "what was" in prompt:
            self.recalled(talk, agent, answer, seen)
        for everything, last in seen:
            self.expect(talk.key in last, "the passkey is not in the retelling")
            if agent.model == "echo":       # what it echoed before has everything in it once more
                self.expect(places([*before[:4], prompt], last), "the records were not retold in their order")
            else:
                self.exactly_once(before, prompt, last)
                self.exactly_once(before, prompt, everything)
        return answer

    def back(self, talk, known):
        """A again: what it knew is its own, what it missed is handed over."""
        if not self.agent.loads:
            self.retold(talk, self.agent, resume(self.agent))
            return
        prompt = self.ask()
        answer, seen, before = self.turn(talk, self.agent, prompt, resume(self.agent)(talk, prompt), NATIVE)
        self.recalled(talk, self.agent, answer, seen)
        missed = before[known:]
        for everything, last in seen:
            self.exactly_once(missed, prompt, last)
            again = [record for record in before[:known] if record in last and record not in " ".join(missed)]
            self.expect(not again, f"told again what the agent knew: {again[:1]}")
            if everything is not None:
                self.exactly_once(before, prompt, everything)

    def kept_by_echo(self, talk):
        """fast-agent writes down what its session holds, if nothing stands before this order."""
        file = self.cwd / "held.json"
        order = f"***SAVE_HISTORY {file}"
        self.call(*send(talk, order))
        held = file.read_text() if self.expect(file.exists(), "the order did not reach the agent as it was") else ""
        said = [record for record in talk.records if record.startswith(("Note", "Question"))]
        for record in said:
            self.expect(json.dumps(record)[1:-1] in held, f"the agent's own session does not hold {record[:60]!r}")

    def forget(self):
        """The agent loses all it has kept."""
        shutil.rmtree(self.home(self.agent))
        self.furnish(self.agent)
        if self.agent.store == "cwd":
            shutil.rmtree(self.cwd)
            self.cwd.mkdir()

    def cut(self, talk, prompt, agent_too, early):
        """`kill -9` in the middle of a long answer, or before its first word: of Rethread, or of Rethread and the agent at the same
        moment. Gives the whole words that a person saw before."""
        mark = self.stub.mark()
        self.stub.set(chunk_delay_ms=WORD_MS, delay_ms=LATE_MS if early else 0)
        process = self.start(*send(talk, prompt), json=False)
        try:
            if early:
                shown = b""
                asked = prompt.splitlines()[0]
                reached = world.wait_for(lambda: any(asked in request.last for request in self.stub.since(mark)), SECONDS / 4, every=0.2)
            else:
                shown = world.read_until(process.stdout, f"word{HEARD} ".encode(), SECONDS)
                reached = f"word{HEARD} ".encode() in shown
            self.expect(process.poll() is None, "Rethread ended before the answer did")
        finally:
            world.kill(self.running() if agent_too else [process.pid])
            process.wait()
            process.stdout.close()
            self.errors.close()
            left = world.wait_until_none(self.running, OUTLIVES)
            self.expect(not left, f"{len(left)} processes outlive a killed Rethread by more than {OUTLIVES} s")
            world.kill(left)
            self.stub.set(chunk_delay_ms=0, delay_ms=0)
        if not reached:
            raise Broken("the request never reached the model" if early else "the long answer never began")
        return " ".join(re.findall(r"word\d+(?= )", shown.decode("utf8", "replace")))

    def interrupted(self, agent_too, early=False):
        who = "both cut off" if agent_too else "Rethread cut off"
        self.step = name = f"{who} {'before' if early else 'in'} an answer"
        talk = self.talk()
        self.told(talk)
        prompt = f"Count {tag()} for me.\nstream: {WORDS}"
        asked, beginning = prompt.splitlines()[0], self.cut(talk, prompt, agent_too, early)
        once = [asked, beginning] if beginning else [asked]
        before = [*talk.records, *once]
        ways = [("again", self.agent, send, (*NATIVE, "retold"))]
        if agent_too and not early:
            ways.append((f"to {self.partner.name}", self.partner, resume(self.partner), ("retold",)))
        for way, agent, command, how in ways:
            self.step = f"{name}, {way}"
            question = self.ask()
            answer, seen, _ = self.turn(talk, agent, question, command(talk, question), how)
            self.recalled(talk, agent, answer, seen)
            for everything, _ in seen:
                self.expect(f"word{WORDS}" not in everything, "the cut answer reached the model whole")
                self.expect(places([*before, question], everything), "the records did not reach the model in their order")
                for record in once:
                    count, text = everything.count(record), f"{record[:20]!r} reached the model"
                    # Where an agent does not show what it has kept, it is sent again, and marked so.
                    marked = count == 2 and REPEATED.search(everything)
                    self.expect(count == 1 or marked, f"{text} {count} times, expected 1")
                    if marked:
                        self.result.notes.append(f"{self.step}: {text} twice, marked as possibly repeated")
            before += [question, answer["answer"].strip()]

    def apart(self):
        """No call of the model, side calls included, knows two conversations."""
        for request in self.stub.since():
            known = [talk for talk in self.talks if any(key in request.everything for key in talk.keys)]
            self.expect(len(known) < 2, f"a call of the model knows {len(known)} conversations")

    def titles(self):
        """No session is named after what we told an agent."""
        process = self.start("list")
        sessions = json.loads(process.communicate(timeout=SECONDS)[0])
        self.errors.close()
        for session in sessions:
            named = any(begin[:20] in str(session["title"]) for begin in INJECTED)
            self.expect(not named, f"a session is named after the telling: {session['title'][:60]!r}")

    def run(self):
        self.step = "another conversation"
        other = self.talk()
        self.told(other)

        self.step = "told, then killed"
        talk = self.talk()
        self.told(talk, kill=True)

        self.step = "the same agent"
        answer = self.again(talk, self.agent)
        self.result.tier, self.result.seconds = answer["opened"]["how"], answer["opened"].get("ms", 0) / 1000

        self.step = f"to {self.partner.name}"
        known = len(talk.records)
        self.result.elsewhere = self.retold(talk, self.partner, resume(self.partner))["opened"]["how"]
        self.step = f"in {self.partner.name}"
        talk.keys.append(passkey())
        self.again(talk, self.partner, f"Note {tag()}: my passkey is now {talk.key}.")

        self.step = "back"
        self.back(talk, known)
        self.step = "after the way back"
        self.again(talk, self.agent)
        if self.agent.model == "echo":
            self.kept_by_echo(talk)
        self.step = "the other conversation again"
        self.again(other, self.agent)
        if self.agent.model == "echo":
            self.step = "an answer cut off"
            self.cannot("an echo is never slow enough to be cut off; the same agent with the stub model is")
        else:
            self.interrupted(agent_too=True)
            self.interrupted(agent_too=True, early=True)
            self.interrupted(agent_too=False)
        self.step = "the agent forgot everything"
        self.forget()
        self.retold(talk, self.agent, send)
        self.step = "after it was told everything"
        self.again(talk, self.agent)
        self.step = "all along"
        self.titles()
        self.apart()
        return self.result


def check(agent, partner, rethread, folder, stub):
    scenario = Scenario(agent, partner, rethread, folder, stub)
    try:
        scenario.run()
    except Broken as broken:
        scenario.result.problems.append(f"{scenario.step}: {broken}")
    finally:
        world.kill(scenario.running())
    return scenario.result
