"""The official Python client, run by the Python of its own environment: tells an agent a passkey, or asks for it.

    python mcp_passkey.py WHERE MODE AGENT PROMPT [SESSION]

WHERE is `stdio PROGRAM …` as one JSON array, or a URL with the token after a space. MODE is `auto` (the newest protocol that
both speak) or `legacy` (the one with a handshake). Prints one JSON object.
"""
import asyncio
import json
import sys

import httpx2
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client


def transport(where):
    if where.startswith("["):
        command, *args = json.loads(where)
        import os
        return stdio_client(StdioServerParameters(command=command, args=args, env=dict(os.environ)))
    url, token = where.split(" ")
    client = httpx2.AsyncClient(headers={"Authorization": f"Bearer {token}"}, timeout=120)
    return streamable_http_client(url, http_client=client)


def given(result):
    return json.loads(result.content[0].text)


async def main(where, mode, agent, prompt, session=None):
    arguments = {"agentName": agent, "prompt": prompt}
    if session:
        arguments["continueSessionId"] = session
    async with Client(transport(where), mode=mode, read_timeout_seconds=120) as client:
        tools = await client.list_tools()
        result = await client.call_tool("invoke_agent", arguments)
        # On a busy machine a real agent may need more than 45 seconds to start.
        while not result.is_error and given(result)["status"] == "running":
            result = await client.call_tool("wait_for_agent", {"handle": given(result)["handle"]})
        print(json.dumps({"tools": [tool.name for tool in tools.tools], "is_error": result.is_error,
                          "text": result.content[0].text, "result": None if result.is_error else given(result)}))


asyncio.run(main(*sys.argv[1:]))
