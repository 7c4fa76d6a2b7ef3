from pathlib import Path

import pytest
from cli_rig import Cli


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    """The command, on a store that does not exist yet."""
    return Cli(tmp_path)
