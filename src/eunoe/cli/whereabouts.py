"""Where a command is called from: the folder whose skills count."""

from pathlib import Path


def working_folder() -> Path | None:
    """Return the working folder, or ``None`` when it was deleted: it has no skills then."""
    try:
        return Path.cwd()
    except FileNotFoundError:
        return None
