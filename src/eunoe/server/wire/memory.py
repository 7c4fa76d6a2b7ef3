"""Memory files as Eunoe's own routes show them."""

import base64
from typing import Any

from eunoe.runtime.memory_history import MemoryFileRead


def memory_file(found: MemoryFileRead) -> dict[str, Any]:
    """Return a file: its text, or what is no UTF-8 in base64."""
    try:
        text, encoded = found.data.decode(), None
    except UnicodeDecodeError:
        text, encoded = None, base64.b64encode(found.data).decode()
    return {"path": found.path, "commit": found.commit, "size": len(found.data), "text": text, "base64": encoded}
