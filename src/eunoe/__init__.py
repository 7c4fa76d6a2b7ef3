"""Eunoe: a runtime for agents that stop and come back whole."""

from typing import TYPE_CHECKING, Any

from eunoe.version import __version__

if TYPE_CHECKING:
    from eunoe.embedded import Agent, Home, SyncAgent, SyncHome, TurnFailed, open, open_sync
    from eunoe.state.blocks import BlockSpec
    from eunoe.state.errors import EunoeError


__all__ = [
    "Agent",
    "BlockSpec",
    "EunoeError",
    "Home",
    "SyncAgent",
    "SyncHome",
    "TurnFailed",
    "__version__",
    "open",
    "open_sync",
]

_HOMES = {"BlockSpec": "eunoe.state.blocks", "EunoeError": "eunoe.state.errors"}


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used, so that ``import eunoe`` costs next to nothing."""
    if name not in __all__:
        raise AttributeError(f"module 'eunoe' has no attribute {name!r}")
    import importlib

    value = getattr(importlib.import_module(_HOMES.get(name, "eunoe.embedded")), name)
    globals()[name] = value
    return value
