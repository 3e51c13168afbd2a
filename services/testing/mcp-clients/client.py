"""
A client of the tool server that uses the official Python SDK. Its first argument is a JSON list of servers: {"name", "url",
"token"} or {"name", "command"}, each with "mode". The client connects to all servers concurrently. It prints `ready` when it
has subscribed to each server that supports subscriptions, and then the results of all servers as JSON.
"""

import asyncio
import json
import sys

import anyio
import httpx2
from mcp import Client, MCPError, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client

SLOW = "WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t) SELECT count(*), '{}' FROM t"
RUNS = "SELECT count(*) AS running FROM pg_stat_activity WHERE state = 'active' AND query LIKE '%, ''{}'' FROM t%' AND pid <> pg_backend_pid()"
WATCHED = "pg://schemas"


def transport_to(way):
    if "command" in way:
        command, *args = way["command"]
        return StdioServerParameters(command=command, args=args, env=way["env"])
    headers = {"Authorization": f"Bearer {way['token']}"}
    return streamable_http_client(way["url"], http_client=httpx2.AsyncClient(headers=headers, timeout=60))


async def cancelled(client, name):
    """Whether a cancelled call ends at once in this client and in Postgres."""
    call = asyncio.create_task(client.call_tool("query_database", {"query": SLOW.format(name)}))
    await asyncio.sleep(0.5)
    call.cancel()
    try:
        await call
        return False
    except asyncio.CancelledError:
        pass
    for _ in range(50):
        running = await client.call_tool("query_database", {"query": RUNS.format(name)})
        if "\nrunning\n0\n" in running.content[0].text:
            return True
        await asyncio.sleep(0.1)
    return False


async def updated(client, updates, subscribed):
    """The URI in the first notification about a change."""
    if client.protocol_version >= "2026-07-28":
        async with client.listen(resource_subscriptions=[WATCHED]) as subscription:
            subscribed.set()
            async for event in subscription:
                return event.uri
    await client.subscribe_resource(WATCHED)
    subscribed.set()
    return await updates.get()


def is_late(error):
    """Whether the error is only a late response: this SDK fails if the response to a cancelled call arrives while it closes."""
    within = getattr(error, "exceptions", ())
    return isinstance(error, anyio.ClosedResourceError) or (len(within) > 0 and all(is_late(one) for one in within))


async def go(way, subscribed):
    updates = asyncio.Queue()

    async def take(message):
        if getattr(message, "method", None) == "notifications/resources/updated":
            await updates.put(str(message.params.uri))

    found = {"name": way["name"]}
    try:
        async with Client(transport_to(way), mode=way["mode"], message_handler=take) as client:
            found["version"] = client.protocol_version
            found["tools"] = [tool.name for tool in (await client.list_tools()).tools]
            result = await client.call_tool("query_database", {"query": "SELECT name FROM fruit ORDER BY name"})
            found["text"] = result.content[0].text
            refused = await client.call_tool("query_database", {"query": "DELETE FROM fruit"})
            found["refused"] = refused.is_error
            found["resource"] = (await client.read_resource("pg://system_info")).contents[0].text
            try:
                await client.read_resource("pg://nothing")
            except MCPError as error:
                found["unknown"] = error.error.message
            if way["subscribes"]:
                found["updated"] = await updated(client, updates, subscribed)
                found["cancelled"] = await cancelled(client, way["name"])
    except Exception as error:
        if not is_late(error):
            raise
    return found


async def main():
    ways = json.loads(sys.argv[1])
    events = [asyncio.Event() for _ in ways]
    tasks = [asyncio.create_task(go(way, event)) for way, event in zip(ways, events)]
    for way, event, task in zip(ways, events, tasks):
        waiting = asyncio.create_task(event.wait())
        # A task that fails, or that does not subscribe, ends without setting the event.
        await asyncio.wait([waiting, task], return_when=asyncio.FIRST_COMPLETED) if way["subscribes"] else None
        waiting.cancel()
    print("ready", flush=True)
    print(json.dumps(await asyncio.gather(*tasks)), flush=True)


asyncio.run(main())
