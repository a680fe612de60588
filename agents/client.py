"""A client made with the official Python SDK: `client.py PHASE FOLDER SESSION KEY COMMAND…`, run by `clients`.

Prints what it saw as one JSON object. Every frame passed the SDK's own models on the way.
"""
import asyncio
import json
import sys

import acp
from acp import schema

phase, folder, session, key, *command = sys.argv[1:]
seen = {"texts": [], "replayed": "", "permissions": 0, "stops": [], "errors": []}


class Client:
    def __init__(self):
        self.text, self.heard = [], asyncio.Event()

    def on_connect(self, connection):
        pass

    async def request_permission(self, options, session_id, tool_call, **_):
        seen["permissions"] += 1
        option = next(option for option in options if option.kind == "allow_once")
        return schema.RequestPermissionResponse(outcome=schema.AllowedOutcome(outcome="selected", option_id=option.option_id))

    async def session_update(self, session_id, update, **_):
        if getattr(update, "session_update", "").endswith("_message_chunk") and hasattr(update.content, "text"):
            self.text.append(update.content.text)
            self.heard.set()

    async def ext_method(self, method, params):
        raise acp.RequestError.method_not_found(method)

    async def ext_notification(self, method, params):
        pass


async def say(client, agent, text, cancels=False):
    client.text.clear()
    client.heard.clear()
    asked = asyncio.ensure_future(agent.prompt(session_id=seen["session"], prompt=[acp.text_block(text)]))
    if cancels:
        await asyncio.wait_for(client.heard.wait(), 120)
        await agent.cancel(session_id=seen["session"])
    answer = await asyncio.wait_for(asked, 240)
    await asyncio.sleep(0.3)
    seen["texts"].append("".join(client.text))
    seen["stops"].append(answer.stop_reason)


async def main():
    client = Client()
    process = await asyncio.create_subprocess_exec(*command, stdin=-1, stdout=-1, limit=50_000_000)
    agent = acp.connect_to_agent(client, process.stdin, process.stdout)
    hello = await asyncio.wait_for(agent.initialize(
        protocol_version=1, client_capabilities=schema.ClientCapabilities(),
        client_info=schema.Implementation(name="py-sdk", version="0")), 120)
    seen["loads"] = bool(hello.agent_capabilities and hello.agent_capabilities.load_session)
    if phase == "first":
        seen["session"] = (await agent.new_session(cwd=folder, mcp_servers=[])).session_id
        await say(client, agent, f"Note: my passkey is {key}.")
        await say(client, agent, "run: touch made-by-a-client")
        await say(client, agent, "stream: 400", cancels=True)
        try:
            await agent.ext_method("rethread.test/unknown", {"x": [1.5, None]})
        except acp.RequestError as error:
            seen["errors"].append(error.code)
        process.kill()
    else:
        seen["session"] = session
        listed = await agent.list_sessions(cwd=folder)
        seen["listed"] = [one.session_id for one in listed.sessions]
        open_again = agent.load_session if phase == "load" else agent.resume_session
        await open_again(cwd=folder, session_id=session, mcp_servers=[])
        await asyncio.sleep(0.5)
        seen["replayed"] = "".join(client.text)
        await say(client, agent, "what was the passkey?")
        process.stdin.close()
    await process.wait()
    print(json.dumps(seen))


asyncio.run(main())
