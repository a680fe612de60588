"""`rethread mcp install` with the clients themselves: what each lists of its servers, and what it tells its model of them."""
import importlib.machinery
import importlib.util
import pathlib
import re
import subprocess

import catalogue
import install
import world

loader = importlib.machinery.SourceFileLoader("agents_import", str(pathlib.Path(__file__).with_name("import")))
imports = importlib.util.module_from_spec(importlib.util.spec_from_loader("agents_import", loader))
loader.exec_module(imports)

# How each lists its servers, and what stands in the list where it has reached ours. The others have no such command.
LISTED = {
    "claude": (["mcp", "list"], r"rethread.*Connected"),
    "codex": (["mcp", "list"], r"rethread.*enabled"),
    "gemini": (["mcp", "list"], r"rethread.*Connected"),
    "opencode": (["mcp", "list"], r"rethread.*connected"),
    "copilot": (["mcp", "list", "--json"], r'"rethread": \{[^}]*"enabled": true'),
    "qwen": (["mcp", "list"], r"rethread.*- Connected"),
    "kilo": (["mcp", "list"], r"rethread.*connected"),
}
CLIENTS = [*LISTED, "kimi", "goose", "vibe", "cline"]
# Its own program takes a prompt without a terminal where it does not resume.
CLINE = imports.Cli(imports.of("cline"), ["--json", "-P", "openai-compatible", "-m", "stub-model", "{p}"], None, None, "")
PROGRAMS = imports.PROGRAMS | {"cline": CLINE}
# What a model is told, in its tools or in words. Codex and Vibe name the server, and let their models search it.
TOLD = dict.fromkeys(CLIENTS, "list_sessions") | {"codex": "- rethread: ", "vibe": "mcp_rethread"}
COLOUR = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


def packages():
    return [package for name in CLIENTS for package in [*imports.known(name).packages, *PROGRAMS[name].packages]]


def one(name, folder, rethread, expect):
    cli, agent = PROGRAMS[name], imports.known(name)
    home, work = folder / name / "home", folder / name / "work"
    for made in (home, work):
        made.mkdir(parents=True)
    subprocess.run(["git", "init", "-q"], cwd=work, check=True)     # Codex works only in repositories.
    with world.Stub(folder / name / "stub") as stub:
        agent.furnish(home, stub.url)
        env = agent.environment(home, stub.url)

        def run(words):
            done = subprocess.run(words, env=env, cwd=work, stdin=subprocess.DEVNULL, text=True, capture_output=True, timeout=180)
            return COLOUR.sub("", done.stdout + done.stderr)

        written = run([rethread, "mcp", "install", "--client", agent.entry])
        expect("Written" in written, f"{name}: {written}")
        before = "has no list"
        if name in LISTED:
            words, wanted = LISTED[name]
            listed = run([cli.program(), *words])
            expect(re.search(wanted, listed, re.I), f"{name} does not list it: {listed[-1500:]}")
            before = "listed"
        said = run([cli.program(), *(word.replace("{p}", "say: hello").replace("{home}", str(home)) for word in cli.first)])
        told = stub.log.read_text()
        expect(told, f"{name} asks its model nothing: {said[-1500:]}")
        expect(TOLD[name] in told, f"{name} does not tell its model of the server: {said[-1500:]}")
    world.kill(world.living_in(folder / name))
    install.say(f"  {name}: {before}, and its model is told of it")


def check(folder, rethread, expect):
    for name in CLIENTS:
        one(name, folder, rethread, expect)
    return f"{len(CLIENTS)} clients start the server and tell their models of it, {len(LISTED)} list it"
