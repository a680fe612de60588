"""The agents, as data: what to install, how to start them as ACP servers, and how to point them at the stub model.

`{url}` stands for the stub, `{home}` for the agent's own HOME. Keys are the word `dummy`.
"""
import json
import os
import platform
from dataclasses import dataclass, field

import install


@dataclass(frozen=True)
class Agent:
    name: str
    packages: list          # of install.install
    command: list           # the first word below the first package's folder
    env: dict = field(default_factory=dict)
    files: dict = field(default_factory=dict)   # below HOME
    path: list = field(default_factory=list)    # programs it looks for: (package, folder in it)
    required: bool = False
    model: str = "stub"     # or "echo": answers with what it is asked, and never asks the stub
    store: str = ""         # "cwd": it keeps its sessions in the folder it works in
    preset: str = ""        # Rethread's name for it, if another
    mode: str = ""          # one of its modes
    has_model: str = ""     # one of its models
    shell: bool = True      # whether it has a tool to run commands
    sandbox: bool = False   # runs commands without asking where they can change nothing
    loads: bool = True      # whether session/load is safe
    permissions: str = ""   # what Rethread is told to do where it can keep no other rule
    fails_with: int = 400   # an HTTP status of its model that it gives up on quickly
    insists: bool = False   # asks its model for minutes when that says nothing

    @property
    def entry(self):
        """Its name in Rethread's configuration, where what Rethread knows of it applies."""
        return self.preset or self.name

    @property
    def version(self):
        return " + ".join(p.partition(":")[2].replace("==", "@").rpartition("/")[2].replace("@", " ") for p in self.packages)

    def program(self):
        return str(install.folder(self.packages[0].partition(":")[2]) / self.command[0])

    def argv(self, home):
        return [self.program(), *(word.replace("{home}", str(home)) for word in self.command[1:])]

    def environment(self, home, url):
        """Everything that a client must set: HOME and all that would lead out of it."""
        folders = [str(install.folder(p) / where) for p, where in self.path]
        return {
            "HOME": str(home), "XDG_CONFIG_HOME": f"{home}/.config", "XDG_DATA_HOME": f"{home}/.local/share",
            "XDG_STATE_HOME": f"{home}/.local/state", "XDG_CACHE_HOME": f"{home}/.cache", "TERM": "dumb", "LANG": "C.UTF-8",
            "PATH": os.pathsep.join([*folders, str(install.folder(install.NODE) / "bin"), "/usr/local/bin:/usr/bin:/bin"]),
            **{key: value.replace("{url}", url) for key, value in self.env.items()},
        }

    def furnish(self, home, url):
        """Writes the configuration files into an empty HOME."""
        for name, text in self.files.items():
            file = home / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text.replace("{url}", url))


OPENCODE = json.dumps({
    "model": "stub/stub-model", "small_model": "stub/stub-model", "autoupdate": False, "share": "disabled",
    "provider": {"stub": {
        "npm": "@ai-sdk/openai-compatible", "name": "stub", "options": {"baseURL": "{url}/v1", "apiKey": "dummy"},
        "models": {"stub-model": {"name": "stub", "tool_call": True, "limit": {"context": 200000, "output": 8192}}}}}})
CODEX = """\
model = "gpt-5.5"
model_provider = "stub"
approval_policy = "never"
sandbox_mode = "danger-full-access"
check_for_update_on_startup = false
[model_providers.stub]
name = "stub"
base_url = "{url}/v1"
env_key = "STUB_API_KEY"
wire_api = "responses"
[analytics]
enabled = false
"""
QWEN = json.dumps({
    "security": {"auth": {"selectedType": "openai"}}, "privacy": {"usageStatisticsEnabled": False},
    "telemetry": {"enabled": False}, "general": {"enableAutoUpdate": False}, "model": {"name": "stub-model"}})
FAST_AGENT = """\
default_model: generic.stub-model
generic:
  api_key: dummy
  base_url: {url}/v1
logger:
  type: none
"""
GOOSE = """\
GOOSE_TELEMETRY_ENABLED: false
extensions:
  developer:
    enabled: true
    type: platform
    name: developer
"""
PI_MODELS = json.dumps({"providers": {"stub": {
    "baseUrl": "{url}/v1", "apiKey": "dummy", "api": "openai-completions", "models": [{
        "id": "stub-model", "name": "stub", "reasoning": False, "input": ["text"], "contextWindow": 200000,
        "maxTokens": 8192, "cost": {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0}}]}}})
KIMI = """\
default_model = "stub"
telemetry = false
[providers.stub]
type = "openai"
base_url = "{url}/v1"
api_key = "dummy"
[models.stub]
provider = "stub"
model = "gpt-5.5"
max_context_size = 200000
capabilities = ["tool_use"]
"""
VIBE = """\
active_model = "stub"
enable_telemetry = false
enable_update_checks = false
[[providers]]
name = "stub"
api_base = "{url}/v1"
api_key_env_var = "STUB_API_KEY"
api_style = "openai"
backend = "generic"
[[models]]
name = "stub-model"
provider = "stub"
alias = "stub"
"""
GEMINI = json.dumps({
    "security": {"auth": {"selectedType": "gemini-api-key"}, "folderTrust": {"enabled": False}},
    "privacy": {"usageStatisticsEnabled": False}, "telemetry": {"enabled": False}, "model": {"name": "gemini-2.5-flash"},
    "general": {"enableAutoUpdate": False, "enableAutoUpdateNotification": False, "sessionRetention": {"enabled": False}}})
CLINE = json.dumps({"version": 1, "lastUsedProvider": "openai-compatible", "modes": {}, "providers": {"openai-compatible": {
    "updatedAt": "2026-01-01T00:00:00.000Z", "tokenSource": "manual", "settings": {
        "provider": "openai-compatible", "apiKey": "dummy", "model": "stub-model", "baseUrl": "{url}/v1"}}}})
HERE = f"{platform.system().lower()}-{ {'x86_64': 'x64', 'aarch64': 'arm64'}.get(platform.machine(), platform.machine()) }"
FAST_AGENT_PACKAGE = "pip3.13:fast-agent-mcp==0.10.46"
PI_PACKAGE = "@earendil-works/pi-coding-agent@0.87.1"

AGENTS = {agent.name: agent for agent in [
    Agent("opencode", ["npm:opencode-ai@1.18.33"], ["node_modules/.bin/opencode", "acp"], required=True,
          mode="plan", has_model="stub/stub-model",
          env={"OPENCODE_DISABLE_AUTOUPDATE": "1", "OPENCODE_DISABLE_MODELS_FETCH": "1", "OPENCODE_DISABLE_LSP_DOWNLOAD": "1"},
          files={".config/opencode/opencode.json": OPENCODE}),
    Agent("codex", ["npm:@agentclientprotocol/codex-acp@2.6.0"], ["node_modules/.bin/codex-acp"], required=True,
          mode="read-only", has_model="gpt-5.5", sandbox=True,
          env={"STUB_API_KEY": "dummy"}, files={".codex/config.toml": CODEX}),
    Agent("claude", ["npm:@agentclientprotocol/claude-agent-acp@0.99.1"], ["node_modules/.bin/claude-agent-acp"], required=True,
          mode="acceptEdits", has_model="sonnet",
          env={"ANTHROPIC_BASE_URL": "{url}", "ANTHROPIC_API_KEY": "sk-ant-dummy", "DISABLE_AUTOUPDATER": "1",
               "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "IS_SANDBOX": "1"}),   # the last lets root skip questions
    Agent("qwen", ["npm:@qwen-code/qwen-code@0.24.4"], ["node_modules/.bin/qwen", "--acp"], required=True,
          mode="auto-edit", has_model="stub-model",
          env={"OPENAI_API_KEY": "dummy", "OPENAI_BASE_URL": "{url}/v1", "OPENAI_MODEL": "stub-model"},
          files={".qwen/settings.json": QWEN}),
    Agent("fast-agent", [FAST_AGENT_PACKAGE], ["bin/fast-agent-acp", "--model", "passthrough"], required=True,
          mode="agent", shell=False,
          model="echo", store="cwd"),
    Agent("fast-agent-stub", [FAST_AGENT_PACKAGE], ["bin/fast-agent-acp", "--config-path", "{home}/fast-agent.yaml"],
          mode="agent", shell=False,
          files={"fast-agent.yaml": FAST_AGENT}, store="cwd", preset="fast-agent"),
    Agent("goose", [f"npm:@aaif/goose-binary-{HERE}@1.52.0"], [f"node_modules/@aaif/goose-binary-{HERE}/bin/goose", "acp"],
          mode="smart_approve", has_model="stub-model",
          env={"GOOSE_PROVIDER": "openai", "GOOSE_MODEL": "stub-model", "OPENAI_HOST": "{url}", "OPENAI_API_KEY": "dummy",
               "GOOSE_DISABLE_KEYRING": "1", "GOOSE_MODE": "auto"},
          files={".config/goose/config.yaml": GOOSE}),
    Agent("pi", ["npm:pi-acp@0.0.34", f"npm:{PI_PACKAGE}"], ["node_modules/.bin/pi-acp"],
          mode="off", has_model="stub/stub-model", permissions="agent",
          env={"PI_OFFLINE": "1", "PI_SKIP_VERSION_CHECK": "1"}, path=[(PI_PACKAGE, "node_modules/.bin")],
          files={".pi/agent/models.json": PI_MODELS, ".pi/agent/settings.json": json.dumps(
              {"defaultProvider": "stub", "defaultModel": "stub-model", "quietStartup": True})}),
    Agent("kimi-code", ["npm:@moonshot-ai/kimi-code@2.1.0"], ["node_modules/.bin/kimi", "acp"],
          mode="yolo", has_model="stub", insists=True,
          files={".kimi-code/config.toml": KIMI}, preset="kimi"),
    Agent("copilot", ["npm:@github/copilot@1.0.102"], ["node_modules/.bin/copilot", "--acp"],
          mode="session-modes#plan",
          env={"COPILOT_OFFLINE": "true", "COPILOT_PROVIDER_BASE_URL": "{url}/v1", "COPILOT_PROVIDER_API_KEY": "dummy",
               "COPILOT_MODEL": "stub-model", "COPILOT_AUTO_UPDATE": "false"}),
    Agent("vibe", ["pip3.12:mistral-vibe==3.0.2"], ["bin/vibe-acp"], env={"STUB_API_KEY": "dummy", "MISTRAL_API_KEY": "dummy"},
          mode="accept-edits", has_model="mistral-medium-3.5",
          files={".vibe/config.toml": VIBE}),
    Agent("gemini", ["npm:@google/gemini-cli@0.61.0"], ["node_modules/.bin/gemini", "--acp"],
          mode="autoEdit", has_model="gemini-2.5-pro", loads=False,
          env={"GEMINI_API_KEY": "dummy", "GOOGLE_GEMINI_BASE_URL": "{url}"}, files={".gemini/settings.json": GEMINI}),
    Agent("cline", ["npm:cline@3.0.65"], ["node_modules/.bin/cline", "--acp"],
          mode="act", has_model="gpt-4o",
          env={"CLINE_API_KEY": "dummy", "CLINE_PROVIDER": "openai-compatible", "CLINE_MODEL": "stub-model",
               "CLINE_API_BASE_URL": "{url}/v1"},
          files={".cline/data/settings/providers.json": CLINE}),
    Agent("kilo", [f"npm:@kilocode/cli-{HERE}@7.7.9"], [f"node_modules/@kilocode/cli-{HERE}/bin/kilo", "acp"],
          mode="plan", has_model="kilo/amazon/nova-lite-v1",      # of the 390 it has: an error names the first twelve
          env={"KILO_DISABLE_AUTOUPDATE": "1", "KILO_DISABLE_MODELS_FETCH": "1", "KILO_TELEMETRY_LEVEL": "off"},
          files={".config/kilo/kilo.json": OPENCODE}),
]}
