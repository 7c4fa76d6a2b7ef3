"""The manifest says of every part of an agent what it is, which content it has, and where it is kept."""

import hashlib
from collections import Counter

import pytest
from runtime_rig import send

from eunoe.embedded import Agent, Home
from eunoe.runtime.conversations import ConversationSpec, create_conversation
from eunoe.runtime.manifest import ManifestPart
from eunoe.runtime.runtime import utc_now
from eunoe.state.blocks import BlockSpec
from eunoe.state.identities import Identity
from eunoe.state.ids import new_id
from eunoe.state.rules import ApprovalRule
from eunoe.store import identities

pytestmark = pytest.mark.anyio


async def full_agent(home: Home) -> Agent:
    """An agent that has a part of every kind."""
    now = utc_now()
    ada = Identity(
        id=new_id("identity"),
        identifier_key="ada",
        name="Ada",
        identity_type="user",
        created_at=now,
        updated_at=now,
    )
    await home.runtime.db.write(lambda tx: identities.insert(tx, ada))
    return await home.create_agent(
        model="scripted/demo",
        memory=(BlockSpec(label="human", value="Likes maps."), BlockSpec(label="private", value="...", hidden=True)),
        system="Be brief.",
        identity_ids=(ada.id,),
        secrets={"KEY": "not-to-be-told"},
        tool_rules=(ApprovalRule(tool_name="memory_replace"),),
    )


def found(parts: tuple[ManifestPart, ...], kind: str) -> list[ManifestPart]:
    return [part for part in parts if part.kind == kind]


async def test_a_manifest_holds_every_part_with_its_content_and_its_source(home: Home) -> None:
    agent = await full_agent(home)
    parts = (await agent.manifest()).parts
    assert Counter(part.kind for part in parts) == {
        "system": 1,
        "model": 1,
        "tool_rules": 1,
        "block": 2,
        "tool": 3,
        "identity": 1,
        "secret": 1,
        "window": 1,
        "compiled_prompt": 1,
    }
    (system,) = found(parts, "system")
    assert (system.hash, system.characters, system.source) == (
        hashlib.sha256(b"Be brief.").hexdigest(),
        9,
        f"agents/{agent.id}",
    )
    (compiled,) = found(parts, "compiled_prompt")
    assert compiled.hash == hashlib.sha256((await agent.prompt()).encode()).hexdigest()
    (secret,) = found(parts, "secret")
    assert (secret.name, secret.hash, secret.characters) == ("KEY", None, 0)
    assert "not-to-be-told" not in str(parts)
    assert all(part.hash and part.characters and part.tokens for part in parts if part.kind not in {"secret", "window"})


async def test_a_change_of_a_part_is_a_new_hash_of_that_part_and_of_what_shows_it(home: Home) -> None:
    agent = await full_agent(home)
    before = {(part.kind, part.name): part for part in (await agent.manifest()).parts}
    await agent.update_block("human", value="Likes tea.")
    await send(home, agent, "SAY:Noted.")
    after = {(part.kind, part.name): part for part in (await agent.manifest()).parts}
    assert {key for key in before if before[key].hash != after[key].hash} == {
        ("block", "human"),
        ("window", "default"),
        ("compiled_prompt", "default"),
    }
    assert (before["block", "human"].revision, after["block", "human"].revision) == ("1", "2")


async def test_each_conversation_is_told_with_its_window_and_the_blocks_that_it_has_for_itself(home: Home) -> None:
    agent = await full_agent(home)
    spec = ConversationSpec(agent_id=agent.id, isolated_block_labels=("human",))
    aside = await create_conversation(home.runtime, spec)
    await send(home, agent, 'TOOL:memory_insert {"label":"human","new_string":"Likes tea."}', conversation_id=aside.id)
    parts = (await agent.manifest()).parts
    assert [part.name for part in found(parts, "window")] == ["default", aside.id]
    assert [part.name for part in found(parts, "compiled_prompt")] == ["default", aside.id]
    shared, own = (part for part in found(parts, "block") if part.name == "human")
    assert "conversation_id" not in shared.details
    assert own.details["conversation_id"] == aside.id
    assert own.hash == hashlib.sha256(b"Likes maps.\nLikes tea.").hexdigest()
    assert shared.hash == hashlib.sha256(b"Likes maps.").hexdigest()


@pytest.mark.parametrize("damage", ["UPDATE texts SET text = 'Obey everyone.'", "DELETE FROM texts"])
async def test_a_prompt_that_was_damaged_is_told_beside_all_that_is_whole(home: Home, damage: str) -> None:
    agent = await full_agent(home)
    whole = (await agent.manifest()).parts
    await home.runtime.db.write(lambda tx: tx.execute(damage))
    parts = (await agent.manifest()).parts
    (compiled,) = found(parts, "compiled_prompt")
    assert compiled.hash is None
    assert compiled.id in compiled.details["error"]
    assert [part for part in parts if part is not compiled] == [p for p in whole if p.kind != "compiled_prompt"]
    verified = await agent.verify()
    assert not verified.ok
    assert [one.what for one in verified.differences] == [compiled.details["error"]]
