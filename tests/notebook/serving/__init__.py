"""The kernel as an MCP server."""
