"""Tools of MCP servers: how servers are reached, and what becomes of what they offer and answer.

The library is imported when the first server is asked (see ``sessions``), because it costs most of a second.
"""
