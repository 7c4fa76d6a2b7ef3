"""What MCP servers may take, and which may be asked at all."""

from msgspec import Struct


class McpLimits(Struct, frozen=True, kw_only=True):
    """Seconds for opening a session, listing tools and calling one, and for which an unused session is kept.

    ``private`` says whether addresses that are not on the public internet may be called, and ``programs`` whether
    programs may be started on this machine.
    """

    connect: float = 30.0
    list: float = 30.0
    call: float = 60.0
    idle: float = 300.0
    private: bool = True
    programs: bool = False
