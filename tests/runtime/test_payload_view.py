"""K05: what is too long for the window is kept whole, shown in part, and can be read on."""

import json

import pytest
from chat_endpoint import MODEL, ChatEndpoint
from compaction_rig import THEN, asks, returns, said, store

from eunoe.embedded import Agent, Home
from eunoe.models.protocol import ModelInfo, ModelRequest
from eunoe.runtime.payload_view import fitted
from eunoe.runtime.read_messages import read_page
from eunoe.runtime.token_account import estimate_request
from eunoe.state.errors import InvalidInput, NotFound
from eunoe.state.messages import Message
from eunoe.tools.reading import PAGE, Reading, parse_reading
from eunoe.tools.search import SEARCH_SCHEMA, tell_found

LONG = "".join(f"line {i:06d}\n" for i in range(20_000))


def _request(*messages: Message, window: int = 16_000, searchable: bool = True) -> ModelRequest:
    model = ModelInfo(
        handle=MODEL,
        name="gpt-test",
        provider="openai",
        provider_type="openai",
        dialect="openai_chat",
        base_url="",
        context_window=window,
    )
    return ModelRequest(model=model, system="Be kind.", messages=messages, tools=(SEARCH_SCHEMA,) if searchable else ())


def test_k05_a_return_larger_than_the_window_is_cut_with_a_marker_that_says_how_to_read_on() -> None:
    returned = returns("c1", content=LONG)
    request = _request(said("user", "look"), asks("c1"), returned)
    shown = fitted(request)
    content = shown.messages[2].tool_returns[0].content
    start, _, marker = content.rpartition("\n")
    assert LONG.startswith(start)
    assert 16_000 * 4 // 5 - 10 < len(content.encode()) <= 16_000 * 4 // 5
    assert f'{{"message_id": "{returned.id}", "tool_call_id": "c1", "offset": {len(start)}}}' in marker
    assert f"of {len(LONG)} characters" in marker
    assert estimate_request(shown) < 16_000 < estimate_request(request)
    assert request.messages[2].tool_returns[0].content == LONG


def test_k05_the_cut_is_the_same_each_time_and_a_view_of_a_view_is_the_same_view() -> None:
    request = _request(said("user", LONG), asks("c1", "c2"), returns("c1", "c2", content=LONG))
    assert fitted(request) == fitted(request) != request
    assert fitted(fitted(request)) == fitted(request)


def test_k05_many_long_returns_of_one_message_share_what_is_left() -> None:
    calls = [f"c{i}" for i in range(8)]
    request = _request(said("user", "look"), asks(*calls), returns(*calls, content=LONG))
    assert estimate_request(fitted(request)) < 16_000


def test_k05_a_users_text_is_cut_too_but_never_the_models_own() -> None:
    shown = fitted(_request(said("user", LONG), said("assistant", LONG), searchable=False))
    assert len(shown.messages[0].text) < len(LONG)
    assert f"kept whole as {shown.messages[0].id}" in shown.messages[0].text
    assert shown.messages[1].text == LONG


def test_what_fits_is_sent_as_it_is() -> None:
    request = _request(said("user", "look"), asks("c1"), returns("c1", content=LONG[:4_999]), window=4_000)
    assert fitted(request) == request
    unknown = _request(said("user", LONG), window=0)
    assert fitted(unknown) == unknown


def test_a_character_of_several_bytes_is_never_cut_in_two() -> None:
    shown = fitted(_request(said("user", "é" * 100_000), window=4_001))
    assert "\ufffd" not in shown.messages[0].text
    assert set(shown.messages[0].text.partition("\n")[0]) == {"é"}


@pytest.mark.anyio
async def test_k05_the_pages_of_a_return_are_the_return(home: Home, agent: Agent, endpoint: ChatEndpoint) -> None:
    del endpoint
    text = LONG[: PAGE * 2 + 100]
    *_, returned = await store(home, agent, [said("user", "look"), asks("c1"), returns("c1", content=text)])
    read, marker = "", ""
    for _ in range(3):
        reading = Reading(message_id=returned.id, offset=len(read), tool_call_id="c1")
        page, _, marker = (await read_page(home.runtime.db, agent.id, reading)).rpartition("\n")
        read += page
    assert read == text
    assert "this is the end" in marker
    with pytest.raises(InvalidInput, match=f"{len(text)} characters"):
        await read_page(home.runtime.db, agent.id, Reading(message_id=returned.id, offset=len(text)))
    with pytest.raises(NotFound, match="c2"):
        await read_page(home.runtime.db, agent.id, Reading(message_id=returned.id, tool_call_id="c2"))


@pytest.mark.anyio
async def test_a_message_of_another_agent_is_not_read(home: Home, agent: Agent, scripted: Agent) -> None:
    (own,) = await store(home, agent, [said("user", "a secret")])
    with pytest.raises(NotFound):
        await read_page(home.runtime.db, scripted.id, Reading(message_id=own.id))


def test_what_the_model_gives_is_checked() -> None:
    known = said("user", "x").id
    assert parse_reading({"query": "maps"}) is None
    assert parse_reading({"message_id": known, "offset": 7}) == Reading(message_id=known, offset=7)
    for wrong in ({"message_id": "x"}, {"message_id": known, "offset": -1}, {"message_id": known, "tool_call_id": 3}):
        with pytest.raises(InvalidInput):
            parse_reading(wrong)


def test_a_long_message_that_is_found_says_how_to_read_on() -> None:
    found = said("user", LONG)
    told = json.loads(tell_found([found], "UTC", THEN))
    assert told["results"][0]["content"].endswith(f"read on with message_id {found.id}, offset 2000)")
