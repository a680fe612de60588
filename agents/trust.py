"""What people rely on with every agent: consent means what it says, and nothing is lost, mixed up or glossed over.

Rethread is used through its command line only: with `--json`, and in a terminal where it asks somebody. Each check stands
on its own, so one that fails hides no other.
"""
import fcntl
import json
import os
import pathlib
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time

import checks
import smoke
import world

ERROR_SECONDS = 100             # for agents that try again and again when their model fails
NO_SHELL = "it has no tool to run commands"
QUIET = 25                      # seconds without a word on the terminal after which nothing more is expected
CHOICE = re.compile(r"^\s*(\d+)\. (.*?)\s*$", re.M)
ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\r")


class Terminal:
    """One command of Rethread in a terminal, and a person who answers its questions."""

    def __init__(self, argv, env, cwd, answer):
        self.shown, self.questions, self.answers, self.code = "", [], [], None
        self.pid, self.screen = pty.fork()
        if not self.pid:
            os.chdir(cwd)
            os.execve(argv[0], argv, env)
        fcntl.ioctl(self.screen, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 240, 0, 0))
        self.watch(answer)

    def watch(self, answer):
        read, silent = 0, time.monotonic() + checks.SECONDS
        while time.monotonic() < silent:
            if not select.select([self.screen], [], [], 0.2)[0]:
                continue
            try:
                piece = os.read(self.screen, 1 << 16)
            except OSError:         # the end of a terminal
                break
            if not piece:
                break
            self.shown += ESCAPES.sub("", piece.decode("utf8", "replace"))
            silent = time.monotonic() + max(QUIET, checks.SECONDS / 4)
            question = self.shown[read:]
            if "Number (" in question and CHOICE.search(question):
                read = len(self.shown)
                self.questions.append(question)
                choices = {name: number for number, name in CHOICE.findall(question)}
                self.answers.append(answer(choices))
                os.write(self.screen, f"{choices[self.answers[-1]]}\n".encode())
        self.end()

    def end(self):
        """Waits for the command, and ends it where it does not."""
        def is_over():
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            self.code = os.waitstatus_to_exitcode(status) if pid else None
            return pid
        if not world.wait_for(is_over, 10):
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        os.close(self.screen)


LASTING = re.compile(r"always|don't ask again|for this session|remainder", re.I)


def always(choices):
    """The yes that holds for good, or else a plain one."""
    yes = [name for name in choices if not re.match(r"refuse|reject|deny|never|no", name, re.I) and not re.search(r"always (refuse|reject|deny)", name, re.I)]
    return next(filter(LASTING.search, yes), yes[0])


def no(choices):
    """A no, for this once where there is one."""
    refusals = [name for name in choices if re.match(r"refuse|reject|deny|no", name, re.I)]
    return next((name for name in refusals if not LASTING.search(name)), list(choices)[-1])


class Trust(checks.Scenario):
    # ---- Rethread, to its end -----------------------------------------------------------------------------------
    def ended(self, *words, config="config", seconds=checks.SECONDS):
        """(exit code, the JSON it printed or None, all that it said) of one command; nothing is expected of it."""
        errors = self.folder / "stderr"
        begin = errors.stat().st_size if errors.exists() else 0
        process = self.start(*words, config=config)
        try:
            out = process.communicate(timeout=seconds)[0].decode("utf8", "replace")
        except subprocess.TimeoutExpired:
            process.kill()
            out = process.communicate()[0].decode("utf8", "replace")
            process.returncode = None
        self.errors.close()
        left = world.wait_until_none(self.running, checks.OUTLIVES)
        self.expect(not left, f"{len(left)} processes were still there after the end of Rethread")
        world.kill(left)
        try:
            answer = json.loads(out)
        except ValueError:
            answer = None
        with errors.open("rb") as said:
            said.seek(begin)
            return process.returncode, answer, f"{out}\n{said.read().decode('utf8', 'replace')}"

    def asked(self, command, answer):
        """Asks the agent in a terminal to run a command; gives the Terminal."""
        argv = [self.rethread, "--store", f"sqlite:{self.own}/store.db", "run", self.agent.entry, f"Please {checks.tag()}.\nrun: {command}",
                "--permissions", "ask"]
        terminal = Terminal(argv, {**self.environment(), "TERM": "xterm"}, self.cwd, answer)
        world.kill(world.wait_until_none(self.running, checks.OUTLIVES))
        return terminal

    def exported(self, talk):
        """The lines that `rethread export` writes of a conversation."""
        process = self.start("export", talk.id, json=False)
        out = process.communicate(timeout=checks.SECONDS)[0].decode("utf8", "replace")
        self.errors.close()
        return [json.loads(line) for line in out.splitlines() if line.startswith("{")]

    def say(self, talk, prompt, *more):
        """One turn of a conversation, begun with it where it is new; gives Rethread's answer."""
        answer = self.call(*(["send", talk.id] if talk.id else ["run", self.agent.entry]), prompt, *more)
        talk.id = talk.id or answer["session_id"]
        return answer

    # ---- consent ------------------------------------------------------------------------------------------------
    def denied(self):
        """`--permissions deny`: nothing is written, by no tool; or it is refused to run, and said how it could."""
        for tool in ("run", "write"):
            file = self.cwd / f"denied-{tool}.txt"
            order = f"run: echo denied > {file.name}" if tool == "run" else f"write: {file}"
            code, _, said = self.ended("run", self.agent.entry, f"Please {checks.tag()}.\n{order}", "--permissions", "deny")
            self.expect(not file.exists(), f"the agent has written a file with its tool to {tool}")
            self.expect(code == 0 or "--permissions" in said, f"refused to run ({code}) without saying how it can: {said[-300:]!r}")

    def allowed(self):
        """`--permissions allow`: a command with arguments, quotes and a redirection is run as the model wrote it."""
        if not self.agent.shell:
            return self.cannot(NO_SHELL)
        file = self.cwd / "allowed.txt"
        _, answer, said = self.ended("run", self.agent.entry, f"Please {checks.tag()}.\nrun: printf '%s-' one 'two three' > {file.name}",
                                     "--permissions", "allow")
        held = file.read_text() if file.exists() else None
        self.expect(held == "one-two three-", f"the command was not run as it was written: {held!r}, {str(answer or said)[-300:]}")

    def bound(self):
        """Nothing is run that was not shown before; "always" holds for this command in other processes, and for no other."""
        if not self.agent.shell:
            return self.cannot(NO_SHELL)
        one, two = self.cwd / "always-one.txt", self.cwd / "always-two.txt"
        first = self.asked(f"touch {one.name}", always)
        seen = any(f"touch {one.name}" in question for question in first.questions)
        if first.questions:
            self.expect(seen, f"the question does not show the command: {first.questions[0][-400:]!r}")
            self.expect(one.exists(), "the command was allowed, and not run")
        else:
            self.expect(not one.exists(), "the command was run without asking")
            self.expect(first.code or self.agent.sandbox, f"nothing was asked, nothing was said: {first.shown[-300:]!r}")
            return self.cannot("it asks for no command: it runs them where they can change nothing, or refuses to be run like this")
        if LASTING.search(first.answers[0]):
            one.unlink(missing_ok=True)
            again = self.asked(f"touch {one.name}", no)
            self.expect(one.exists() and not again.questions, f"asked again for what is always allowed: {again.shown[-300:]!r}")
        other = self.asked(f"touch {two.name}", no)
        self.expect(not two.exists(), f"after \"always\" for one command another was run: {other.shown[-300:]!r}")

    def unknown(self):
        """A mode or a model that the agent does not have is an error that names those it has; no prompt reaches the model."""
        config = self.own / "unknown/rethread/config.toml"
        config.parent.mkdir(parents=True)
        text = (self.own / "config/rethread/config.toml").read_text()
        config.write_text(text.replace(f"[agents.{self.agent.entry}]\n", f"[agents.{self.agent.entry}]\nmode = \"no-such-mode\"\n"))
        for what, known, more, place in (("mode", self.agent.mode, [], "unknown"),
                                         ("model", self.agent.has_model, ["--model", "no-such-model"], "config")):
            mark, prompt = self.stub.mark(), f"Note {checks.tag()}: never said."
            code, _, said = self.ended("run", self.agent.entry, prompt, "--permissions", "allow", *more, config=place)
            reached = self.agent.model != "echo" and any(prompt in request.text for request in self.stub.since(mark))
            self.expect(code not in (0, None) and not reached, f"a {what} that the agent does not have was taken ({code}): {said[-200:]!r}")
            if not known:
                self.cannot(f"it offers no {what} to choose from")
            self.expect(f"no-such-{what}" in said and known in said, f"the error does not name the {what}s there are ({known}): {said[-400:]!r}")

    # ---- nothing is lost or mixed -------------------------------------------------------------------------------
    def same_words(self):
        """Two conversations begin with the same words, the second after the agent lost its sessions (ids may come again)."""
        talks = [self.talk(), self.talk()]
        for talk in talks:
            self.say(talk, "hello")
            self.say(talk, f"Note {checks.tag()}: my passkey is {talk.key}.")
            if talk is talks[0]:
                self.forget()
        for talk in talks:
            mark, prompt = self.stub.mark(), self.ask()
            answer = self.say(talk, prompt)
            if self.agent.model != "echo":
                self.expect(talk.key in answer["answer"], f"not recalled: {answer['answer'][:200]!r}")
            others = [other.key for other in talks if other is not talk]
            known = [request for request in self.stub.since(mark) if any(key in request.everything for key in others)]
            self.expect(not known and not any(key in answer["answer"] for key in others), "one conversation knows the other")

    def in_between(self):
        """What was said to the agent itself, without Rethread, is in the record after the next turn."""
        if not self.agent.loads:
            return self.cannot("nothing shows what its session holds: session/load destroys a session in the minute of its creation")
        talk = self.talk()
        self.say(talk, f"Note {checks.tag()}: my passkey is {talk.key}.")
        native = next(line["native"] for line in reversed(self.exported(talk)) if line.get("native"))
        talk.keys.append(checks.passkey())
        note = f"Note {checks.tag()}: said natively, my passkey is now {talk.key}."
        try:
            client = smoke.Client(self.agent.argv(self.home(self.agent)), self.agent.environment(self.home(self.agent), self.stub.url), self.cwd)
            client.call("session/load", {"sessionId": native, "cwd": str(self.cwd), "mcpServers": []})
            client.prompt(native, note)
        except smoke.Broken as broken:
            raise checks.Broken(f"the agent itself: {broken}") from None
        finally:
            world.kill(self.running())
        mark, prompt = self.stub.mark(), self.ask()
        answer = self.say(talk, prompt)
        if self.agent.model != "echo":
            self.expect(talk.key in answer["answer"], f"not recalled: {answer['answer'][:200]!r}")
            for request in self.stub.since(mark):
                if prompt in request.last and request.tools:
                    self.expect(request.text.count(note) == 1, f"what was said natively reached the model {request.text.count(note)} times")
        said = [line for line in self.exported(talk) if line.get("type") == "message"]
        taken = [place for place, line in enumerate(said) if line.get("role") == "user" and note in str(line.get("content"))]
        self.expect(len(taken) == 1, f"what was said natively is {len(taken)} times in the record")
        asked = [place for place, line in enumerate(said) if prompt in str(line.get("content"))]
        self.expect(taken and asked and taken[0] < asked[0], "what was said natively does not stand before what was said after it")

    def named(self):
        """No title comes from a system prompt; one that the user gives stays, and is found."""
        system, mark = self.folder / "system.md", checks.tag()
        system.write_text(f"Zebra rules {mark}: be brief, name no stripes.\n")
        plain, given = self.talk(), self.talk()
        self.say(plain, f"Note {checks.tag()}: hello.", "--system-prompt", str(system))
        title = f"Kept{checks.tag()}"
        self.say(given, f"Note {checks.tag()}: hello.", "--system-prompt", str(system), "--title", title)
        _, sessions, _ = self.ended("list")
        titles = {session["session_id"]: str(session["title"]) for session in sessions or []}
        self.expect("zebra" not in titles.get(plain.id, "zebra").lower() and mark not in titles[plain.id],
                    f"a title from the system prompt: {titles.get(plain.id)!r}")
        self.expect(titles.get(given.id) == title, f"the title of the user is {titles.get(given.id)!r}, given was {title!r}")
        _, found, _ = self.ended("search", title)
        self.expect(any(one.get("session_id") == given.id for one in found or []), "a search does not find the title")

    # ---- nothing is glossed over --------------------------------------------------------------------------------
    def failed(self):
        """An error of the model, or an answer without a word: exit code 1 and a message."""
        if self.agent.model == "echo":
            return self.cannot("an echo never fails; the same agent with the stub model does")
        for name, settings, prompt, words in (
                ("an error of the model", {"fail_rate": 1.0, "fail_status": self.agent.fails_with}, f"Note {checks.tag()}: hello.", None),
                ("an answer without a word", {}, f"Please {checks.tag()}.\nnothing: at all", r"nothing|empty|no.answer|no usable|without (an answer|a word)")):
            if words and self.agent.insists:
                self.cannot("it asks its model for minutes when that says nothing")
                continue
            mark = self.stub.mark()
            self.stub.set(**settings)
            try:
                code, answer, said = self.ended("run", self.agent.entry, prompt, seconds=ERROR_SECONDS)
            finally:
                self.stub.set(fail_rate=0.0)
            replies = [request.reply for request in self.stub.since(mark) if request.reply and request.tools]
            if code == 0 and words and answer and any(str(reply) in answer["answer"] for reply in replies):
                continue            # the agent asked once more by itself, and was answered
            self.expect(code == 1, f"after {name} the exit code is {code}: {said[-300:]!r}")
            outcome = json.dumps(answer) if answer else said
            if code == 1 and words:
                self.expect(re.search(words, outcome + said, re.I), f"it is not said that there was nothing: {said[-300:]!r}")
            elif code == 1:
                self.expect(re.search(r"fault|\b4\d\d\b|\b5\d\d\b|error", outcome + said, re.I), f"the error is not told: {said[-300:]!r}")

    def run(self):
        steps = [("deny", self.denied), ("allow", self.allowed), ("always", self.bound), ("unknown mode or model", self.unknown),
                 ("the same first words", self.same_words), ("said natively in between", self.in_between), ("titles", self.named),
                 ("errors of the model", self.failed)]
        for self.step, check in steps:
            try:
                check()
            except checks.Broken as broken:
                self.expect(False, broken)
            finally:
                world.kill(self.running())
        return self.result


def check(agent, partner, rethread, folder, stub):
    folder.mkdir()
    trust = Trust(agent, partner, rethread, folder, stub)
    try:
        return trust.run()
    finally:
        world.kill(trust.running())
