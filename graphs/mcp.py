"""The MCP server of `egg-graph mcp`, which takes the place of LangGraph's own at /mcp.

LangGraph's makes each graph a tool whose answer is the whole state. It serves callers of this machine; EGG_MCP_HOSTS
names further hosts by which it may be called, such as "kernels.example.com:*", separated by commas.
"""

import os

from mcp.server.transport_security import TransportSecuritySettings

from egg_graph.mcp.server import build_server

HOSTS = ["127.0.0.1:*", "localhost:*", "[::1]:*", *filter(None, os.environ.get("EGG_MCP_HOSTS", "").split(","))]

app = build_server(os.environ.get("EGG_RUNS") or "runs", model=os.environ.get("EGG_MODEL") or None).streamable_http_app(
    transport_security=TransportSecuritySettings(
        allowed_hosts=HOSTS, allowed_origins=[f"{scheme}://{host}" for scheme in ("http", "https") for host in HOSTS]
    )
)
