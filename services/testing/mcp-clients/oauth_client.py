"""
A client that must log in, with the official Python SDK. It prints the URL that its user must open, and reads the URL to which
the server redirected the user. It calls a tool, waits until its token has expired, and calls the tool again. It prints the
responses as JSON. Arguments: the server's URL, the redirect URI, the tool, and the seconds to wait.
"""

import asyncio
import json
import sys
from urllib.parse import parse_qs, urlsplit

import httpx2
from mcp import Client
from mcp.client.auth import AuthorizationCodeResult, OAuthClientProvider
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import OAuthClientMetadata

URL, REDIRECT, TOOL, WAIT = sys.argv[1:]


class Kept:
    """The state of this client, and all tokens that it has received, in order."""

    def __init__(self):
        self.tokens = []
        self.client = None

    async def get_tokens(self):
        return self.tokens[-1] if self.tokens else None

    async def set_tokens(self, tokens):
        self.tokens.append(tokens)

    async def get_client_info(self):
        return self.client

    async def set_client_info(self, client):
        self.client = client


async def go_to(url):
    print(url, flush=True)


async def came_back():
    line = await asyncio.to_thread(sys.stdin.readline)
    query = parse_qs(urlsplit(line.strip()).query)
    return AuthorizationCodeResult(code=query["code"][0], state=query["state"][0], iss=query["iss"][0])


async def main():
    kept = Kept()
    metadata = OAuthClientMetadata(redirect_uris=[REDIRECT], client_name="Python SDK")
    auth = OAuthClientProvider(URL, metadata, kept, go_to, came_back)
    async with httpx2.AsyncClient(auth=auth, timeout=60) as http:
        async with Client(streamable_http_client(URL, http_client=http)) as client:
            said = [(await client.call_tool(TOOL, {})).content[0].text]
            await asyncio.sleep(float(WAIT))
            said.append((await client.call_tool(TOOL, {})).content[0].text)
    print(json.dumps(said), flush=True)


asyncio.run(main())
