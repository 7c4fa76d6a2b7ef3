"""Reflection: a background agent's edits are one diff in a branch, and its outcome is what really happened (G14)."""

import json
import threading
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest
from chat_endpoint import MODEL, Answer, Asked, ChatEndpoint
from files_house import git
from runtime_rig import BOUND, open_home, send

from eunoe.embedded import Agent, Home
from eunoe.runtime.reflection import reflect, start_reflection
from eunoe.runtime.reflection_review import list_reflections
from eunoe.runtime.runtime import utc_now
from eunoe.state.errors import Conflict, InvalidInput, NotFound
from eunoe.state.ids import new_id
from eunoe.state.reflections import Reflection, ReflectionPolicy, companion_tag
from eunoe.store import agents, reflections
from eunoe.store.agents import AgentQuery

pytestmark = pytest.mark.anyio

GIT = ("git-memory-enabled",)
TEA = 'TOOL:memory_replace {"label": "human", "old_string": "maps", "new_string": "tea"}\nTHEN:\nSAY:Wrote it down.'
NOTE = (
    'TOOL:memory {"command": "create", "path": "notes/lisbon", "description": "A plan.", "file_text": "Go in May."}\n'
    'TOOL:memory_replace {"label": "human", "old_string": "maps", "new_string": "tea"}\nTHEN:\n'
    'TOOL:memory_open {"path": "notes/lisbon.md"}\nTHEN:\nSAY:Done.'
)


@pytest.fixture
async def filed(home: Home) -> Agent:
    """An agent with memory files that somebody has talked with."""
    agent = await home.create_agent(model="scripted/demo", name="Ada", tags=GIT, memory={"human": "Likes maps."})
    await send(home, agent, "SAY:Noted.")
    return agent


async def human(agent: Agent) -> str:
    return (await agent.block("system/human")).value


async def ended(agent: Agent, reflection_id: str) -> Reflection:
    """Wait for the end of a reflection that goes on in the background."""
    with anyio.fail_after(BOUND):
        while True:
            found = (await agent.memory.reflection(reflection_id)).reflection
            if found.outcome is not None:
                return found


async def branches(agent: Agent) -> list[str]:
    return [one.name for one in await agent.memory.branches()]


async def test_g14_merged_means_that_its_commits_are_memory(filed: Agent):
    base = (await filed.memory.files()).commit
    done = await filed.memory.reflect(instructions=NOTE)
    assert (done.outcome, done.base) == ("merged", base)
    assert await human(filed) == "Likes tea."
    assert (await filed.memory.read("notes/lisbon.md")).endswith("Go in May.")
    assert await branches(filed) == ["main"]
    log = await filed.memory.log()
    assert [one.author.name for one in log] == ["Reflection of Ada", "Reflection of Ada", "Ada"]
    assert {one.run_id for one in log[:2]} == {done.run_id}
    shown = await filed.memory.reflection(done.id)
    assert [one.path for one in shown.files] == ["notes/lisbon.md", "system/human.md"]
    assert [one.id for one in shown.commits] == [one.id for one in log[:2]]
    assert "-Likes maps." in shown.diff
    assert "+Likes tea." in shown.diff


async def test_g14_nothing_to_do_means_that_nothing_changed(filed: Agent):
    before = (await filed.memory.files()).commit
    done = await filed.memory.reflect(instructions="SAY:All is well.")
    assert (done.outcome, done.detail) == ("nothing to do", "It left the files as they were.")
    assert (await filed.memory.files()).commit == before
    assert await branches(filed) == ["main"]


async def test_g14_edits_that_undo_each_other_are_nothing_to_do(filed: Agent):
    back = 'TOOL:memory_replace {"label": "human", "old_string": "tea", "new_string": "maps"}\nTHEN:\nSAY:No.'
    done = await filed.memory.reflect(instructions=f"{TEA.partition('SAY')[0]}{back}")
    assert done.outcome == "nothing to do"
    assert len(await filed.memory.log()) == 1


async def test_g14_a_model_that_fails_is_a_failure_and_its_commits_wait(filed: Agent):
    before = (await filed.memory.files()).commit
    done = await filed.memory.reflect(instructions=f"{TEA.partition('SAY')[0]}ERROR:400")
    assert done.outcome == "failed"
    assert "did not come to its end" in done.detail
    assert (await filed.memory.files()).commit == before
    assert await branches(filed) == ["main", done.branch]
    again = await filed.memory.reflect(instructions="SAY:Nothing.")
    assert again.from_seq == done.from_seq
    await filed.memory.accept(done.id)
    assert await human(filed) == "Likes tea."


async def test_g14_a_failure_without_commits_leaves_nothing(filed: Agent):
    done = await filed.memory.reflect(instructions="ERROR:400")
    assert done.outcome == "failed"
    assert await branches(filed) == ["main"]
    with pytest.raises(Conflict, match=r"does not wait for a person \(failed\)"):
        await filed.memory.accept(done.id)


@pytest.mark.parametrize("policy", ["auto", "review"])
@pytest.mark.parametrize(
    "script",
    [
        "SAY:All is well.",
        TEA,
        f"{TEA.partition('SAY')[0]}ERROR:400",
        f"{TEA.partition('SAY')[0]}ERROR:500",
        "ERROR:400",
        TEA.replace("maps", "nothing of the kind"),
        TEA.replace("memory_replace", "no_such_tool"),
        'TOOL:memory_replace {"label": \nTHEN:\nSAY:Done.',
        NOTE,
    ],
)
async def test_g14_a_success_is_a_commit_in_memory_or_nothing_to_change(
    filed: Agent, script: str, policy: ReflectionPolicy
):
    before = {one.path: await filed.memory.read(one.path) for one in (await filed.memory.files()).files}
    base = (await filed.memory.files()).commit
    done = await filed.memory.reflect(policy=policy, instructions=script)
    after = {one.path: await filed.memory.read(one.path) for one in (await filed.memory.files()).files}
    of_its_run = [one for one in await filed.memory.log() if one.run_id == done.run_id]
    kept = {one.name: one.commit for one in await filed.memory.branches()}.get(done.branch)
    if done.outcome == "merged":
        assert of_its_run
        assert after != before
    else:
        assert (await filed.memory.files()).commit == base
        assert after == before
    if done.outcome == "nothing to do":
        assert "ERROR" not in script
        assert kept is None
    assert (done.outcome == "waits for review") == (policy == "review" and script in {TEA, NOTE})
    assert (done.outcome == "failed") == ("ERROR" in script)


async def test_each_message_is_gone_over_once(home: Home, filed: Agent):
    one = await filed.memory.reflect(instructions="SAY:Nothing.")
    two = await filed.memory.reflect(instructions=TEA)
    assert (two.outcome, two.detail, two.run_id) == ("nothing to do", "Nothing was said since the last time.", None)
    await send(home, filed, "SAY:More.")
    three = await filed.memory.reflect(instructions=TEA)
    assert (three.outcome, three.from_seq) == ("merged", one.to_seq)


async def test_with_the_policy_review_a_person_accepts_or_rejects(home: Home, filed: Agent):
    done = await filed.memory.reflect(policy="review", instructions=TEA)
    assert done.outcome == "waits for review"
    assert await human(filed) == "Likes maps."
    assert (await filed.memory.reject(done.id)).outcome == "rejected"
    assert await branches(filed) == ["main"]
    await send(home, filed, "SAY:More.")
    again = await filed.memory.reflect(policy="review", instructions=TEA)
    assert (await filed.memory.accept(again.id)).outcome == "merged"
    assert await human(filed) == "Likes tea."
    with pytest.raises(Conflict, match=r"\(merged\)"):
        await filed.memory.reject(again.id)
    assert [one.outcome for one in await filed.memory.reflections()] == ["merged", "rejected"]


async def test_what_collides_is_kept_for_review_and_main_stays(filed: Agent):
    done = await filed.memory.reflect(policy="review", instructions=TEA)
    await filed.update_block("system/human", value="Likes boats.")
    with pytest.raises(Conflict, match=r"both changed system/human\.md"):
        await filed.memory.accept(done.id)
    assert await human(filed) == "Likes boats."
    assert (await filed.memory.accept(done.id, policy="both")).outcome == "merged"
    assert await human(filed) == "Likes boats."
    kept = [one.path for one in (await filed.memory.files()).files if one.path.startswith("conflicts/")]
    assert len(kept) == 1
    assert (await filed.memory.read(kept[0])).endswith("Likes tea.")


async def test_a_collision_while_it_works_is_the_outcome_conflict(home: Home, endpoint: ChatEndpoint):
    agent = await home.create_agent(model=MODEL, tags=GIT, memory={"human": "Likes maps."})
    await send(home, agent, "hello")
    change = {"label": "human", "old_string": "maps", "new_string": "tea"}
    release = threading.Event()
    endpoint.answers(
        Answer(calls=(Asked("1", "memory_replace", json.dumps(change)),)),
        Answer(text=("Done", "."), hold=release),
    )
    started = await start_reflection(home.runtime, agent.id)
    with anyio.fail_after(BOUND):
        while len(endpoint.received) < 3:
            await anyio.lowlevel.checkpoint()
    await agent.update_block("system/human", value="Likes boats.")
    release.set()
    done = await ended(agent, started.id)
    assert (done.outcome, done.detail) == ("conflict", "Memory and the reflection both changed system/human.md.")
    assert await human(agent) == "Likes boats."
    assert await branches(agent) == ["main", done.branch]
    assert "+Likes tea." in (await agent.memory.reflection(done.id)).diff


async def test_a_file_that_became_read_only_meanwhile_is_a_conflict(filed: Agent):
    done = await filed.memory.reflect(policy="review", instructions=TEA)
    await filed.update_block("system/human", read_only=True)
    with pytest.raises(Conflict, match="read-only"):
        await filed.memory.accept(done.id)
    assert await human(filed) == "Likes maps."


async def test_its_edits_are_held_to_the_rules_of_the_agent(filed: Agent):
    await filed.update_block("system/human", read_only=True)
    done = await filed.memory.reflect(instructions=TEA)
    assert done.outcome == "nothing to do"
    assert await human(filed) == "Likes maps."


async def test_the_conversation_that_goes_on_is_not_touched(home: Home, filed: Agent):
    window = await filed.window()
    prompt = await filed.prompt()
    await filed.memory.reflect(policy="review", instructions=TEA)
    assert (await filed.window(), await filed.prompt()) == (window, prompt)
    listed = await home.agents()
    assert [one.id for one in listed] == [filed.id]


async def test_the_hidden_agent_is_one_and_goes_with_the_agent(home: Home, filed: Agent):
    await filed.memory.reflect(instructions="SAY:No.")
    await send(home, filed, "SAY:More.")
    await filed.memory.reflect(instructions="SAY:No.")
    query = AgentQuery(tags=(companion_tag(filed.id),), show_hidden=True)
    (companion,) = await home.runtime.db.read(lambda tx: agents.page(tx, query))
    assert companion.hidden
    await filed.delete()
    assert await home.runtime.db.read(lambda tx: agents.page(tx, query)) == []


async def test_one_at_a_time_and_the_next_when_it_has_ended(home: Home, filed: Agent):
    started = await start_reflection(home.runtime, filed.id, instructions=TEA)
    assert started.outcome is None
    with pytest.raises(Conflict, match="goes on"):
        await filed.memory.reflect()
    assert (await ended(filed, started.id)).outcome == "merged"


async def test_one_of_a_process_that_is_gone_has_failed(home: Home, filed: Agent):
    lost = Reflection(
        id=new_id("reflection"),
        agent_id=filed.id,
        branch="reflection/lost",
        base=(await filed.memory.files()).commit,
        policy="auto",
        owner="nobody",
        created_at=utc_now(),
        from_seq=0,
        to_seq=5,
    )
    await home.runtime.db.write(lambda tx: reflections.insert(tx, lost))
    (told,) = await list_reflections(home.runtime, filed.id)
    assert (told.outcome, told.detail) == ("failed", "The process that carried it ended before it did.")
    assert (await filed.memory.reflect(instructions=TEA)).outcome == "merged"


async def test_a_cancelled_one_has_failed(home: Home, endpoint: ChatEndpoint):
    agent = await home.create_agent(model=MODEL, tags=GIT, memory={"human": "Likes maps."})
    await send(home, agent, "hello")
    release = threading.Event()
    endpoint.answers(Answer(text=("Slow", "."), hold=release))
    done = await reflect(home.runtime, agent.id, seconds=0.2)
    release.set()
    assert done.outcome == "failed"
    assert "cancelled" in done.detail


async def test_the_branch_of_a_cancelled_one_stays_where_it_is_told_to_be(home: Home, endpoint: ChatEndpoint):
    agent = await home.create_agent(model=MODEL, tags=GIT, memory={"human": "Likes maps."})
    await send(home, agent, "hello")
    change = {"label": "human", "old_string": "maps", "new_string": "tea"}
    release = threading.Event()
    endpoint.answers(
        Answer(calls=(Asked("1", "memory_replace", json.dumps(change)),)),
        Answer(text=("Slow", "."), hold=release),
    )
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(lambda: reflect(home.runtime, agent.id))
        with anyio.fail_after(BOUND):
            while len(endpoint.received) < 3:
                await anyio.lowlevel.checkpoint()
        tasks.cancel_scope.cancel()
    release.set()
    (told,) = await agent.memory.reflections()
    assert (told.outcome, told.detail) == ("failed", "It was interrupted.")
    assert {one.name: one.commit for one in await agent.memory.branches()}[told.branch] == told.tip
    assert (await agent.memory.accept(told.id)).outcome == "merged"


async def test_one_that_goes_on_when_the_store_closes_is_told_as_failed(tmp_path: Path, endpoint: ChatEndpoint):
    release = threading.Event()
    with anyio.fail_after(BOUND):
        async with open_home(tmp_path, endpoint.environment) as home:
            agent = await home.create_agent(model=MODEL, tags=GIT, memory={"human": "Likes maps."})
            await send(home, agent, "hello")
            endpoint.answers(Answer(text=("Slow", "."), hold=release))
            await start_reflection(home.runtime, agent.id)
            while len(endpoint.received) < 2:
                await anyio.lowlevel.checkpoint()
        release.set()
        async with open_home(tmp_path, endpoint.environment) as home:
            (told,) = await home.runtime.db.read(lambda tx: reflections.of_agent(tx, agent.id))
            assert (told.outcome, told.tip) == ("failed", told.base)
            assert (await (await home.agent(agent.id)).memory.reflect()).outcome == "nothing to do"


async def test_whoever_waits_for_the_reflection_of_a_deleted_agent_is_told(home: Home, endpoint: ChatEndpoint):
    agent = await home.create_agent(model=MODEL, tags=GIT, memory={"human": "Likes maps."})
    await send(home, agent, "hello")
    release = threading.Event()
    endpoint.answers(Answer(text=("Slow", "."), hold=release))

    async def wait() -> None:
        with pytest.raises(NotFound, match=agent.id):
            await agent.memory.reflect()

    with anyio.fail_after(BOUND):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(wait)
            while len(endpoint.received) < 2:
                await anyio.lowlevel.checkpoint()
            await agent.delete()
    release.set()


async def test_of_decisions_at_once_one_counts_and_the_others_are_told(filed: Agent):
    done = await filed.memory.reflect(policy="review", instructions=TEA)
    told: list[str] = []

    async def decide(accept: bool) -> None:
        try:
            one = await (filed.memory.accept if accept else filed.memory.reject)(done.id)
            told.append(str(one.outcome))
        except Conflict as error:
            told.append("told" if "does not wait for a person" in error.message else error.message)

    async with anyio.create_task_group() as tasks:
        for accept in (False, True) * 4:
            tasks.start_soon(decide, accept)
    (counted,) = {*told} - {"told"}
    assert told.count("told") == 7
    assert (await filed.memory.reflection(done.id)).reflection.outcome == counted
    assert await human(filed) == ("Likes tea." if counted == "merged" else "Likes maps.")
    assert await branches(filed) == ["main"]


async def test_edits_whose_branch_somebody_deleted_are_still_there_to_be_decided_on(home: Home, filed: Agent):
    tree = home.runtime.homes.path(filed.id)
    done = await filed.memory.reflect(policy="review", instructions=TEA)
    git(tree, "update-ref", "-d", f"refs/heads/{done.branch}")
    assert "+Likes tea." in (await filed.memory.reflection(done.id)).diff
    assert (await filed.memory.accept(done.id)).outcome == "merged"
    await send(home, filed, "SAY:More.")
    back = await filed.memory.reflect(policy="review", instructions=TEA.replace("tea", "x").replace("maps", "tea"))
    git(tree, "worktree", "remove", "--force", str(home.runtime.homes.worktree(filed.id, back.branch)))
    git(tree, "branch", "-D", back.branch)
    git(tree, "gc", "-q", "--prune=now")
    with pytest.raises(Conflict, match=r"somebody deleted the branch reflection/.*Reject it"):
        await filed.memory.accept(back.id)
    assert (await filed.memory.reject(back.id)).outcome == "rejected"
    assert await human(filed) == "Likes tea."


async def test_a_branch_that_somebody_has_checked_out_is_accepted_and_goes_later(home: Home, filed: Agent):
    tree = home.runtime.homes.path(filed.id)
    done = await filed.memory.reflect(policy="review", instructions=TEA)
    git(tree, "checkout", "-q", "--ignore-other-worktrees", done.branch)
    assert (await filed.memory.accept(done.id)).outcome == "merged"
    assert await human(filed) == "Likes tea."
    assert await branches(filed) == ["main", done.branch]
    git(tree, "checkout", "-q", "main")
    await send(home, filed, "SAY:More.")
    await filed.memory.reflect(instructions="SAY:Nothing.")
    assert await branches(filed) == ["main"]


async def test_a_commit_that_cannot_be_memory_does_not_keep_reflections_from_it(home: Home, filed: Agent):
    tree = home.runtime.homes.path(filed.id)
    (tree / "system/bad.md").write_bytes(b"\xff\xfe")
    git(tree, "add", "-A")
    git(tree, "commit", "-q", "--no-verify", "-m", "Bad")
    done = await filed.memory.reflect(policy="review", instructions=TEA)
    assert done.outcome == "waits for review"
    git(tree, "rm", "-q", "system/bad.md")
    git(tree, "commit", "-q", "-m", "Correct")
    assert (await filed.memory.accept(done.id)).outcome == "merged"
    assert await human(filed) == "Likes tea."


async def test_main_that_moves_elsewhere_meanwhile_is_kept_with_the_edits(home: Home, filed: Agent):
    tree = home.runtime.homes.path(filed.id)
    done = await filed.memory.reflect(policy="review", instructions=TEA)
    (tree / "notes").mkdir()
    (tree / "notes/plan.md").write_text("Go in May.\n")
    git(tree, "add", "-A")
    git(tree, "commit", "-q", "-m", "By hand")
    await filed.update_block("system/human", description="Who is asking.")
    assert (await filed.memory.accept(done.id)).outcome == "merged"
    assert await human(filed) == "Likes tea."
    assert await filed.memory.read("notes/plan.md") == "Go in May.\n"
    assert (await filed.block("system/human")).description == "Who is asking."


async def test_what_somebody_is_editing_stays_and_is_no_conflict(home: Home, filed: Agent):
    file = home.runtime.homes.path(filed.id) / "system/human.md"
    file.write_text("half a thought")
    assert (await filed.memory.reflect(instructions=TEA)).outcome == "merged"
    assert await human(filed) == "Likes tea."
    assert file.read_text() == "half a thought"


async def test_an_agent_with_the_tag_of_a_hidden_one_is_neither_used_nor_deleted(home: Home, filed: Agent):
    copied = await home.create_agent(model="scripted/demo", tags=(companion_tag(filed.id),))
    await filed.memory.reflect(instructions=TEA)
    assert await copied.window() == ()
    await filed.delete()
    assert (await copied.state()).agent.id == copied.id


async def test_an_agent_that_is_deleted_meanwhile_takes_its_reflection_with_it(home: Home, endpoint: ChatEndpoint):
    agent = await home.create_agent(model=MODEL, tags=GIT, memory={"human": "Likes maps."})
    await send(home, agent, "hello")
    release = threading.Event()
    endpoint.answers(Answer(text=("Slow", "."), hold=release))
    await start_reflection(home.runtime, agent.id)
    with anyio.fail_after(BOUND):
        while len(endpoint.received) < 2:
            await anyio.lowlevel.checkpoint()
    await agent.delete()
    release.set()
    other = await home.create_agent(model="scripted/demo", memory={"human": "x"})
    assert (await send(home, other, "SAY:Still here.")).ended.stop_reason == "end_turn"


async def test_an_agent_with_blocks_cannot_be_reflected_for(home: Home):
    agent = await home.create_agent(model="scripted/demo", memory={"human": "x"})
    with pytest.raises(Conflict, match="git-memory-enabled"):
        await agent.memory.reflect()
    with pytest.raises(NotFound):
        await reflect(home.runtime, new_id("agent"))


async def test_what_was_decided_is_there_after_a_restart(tmp_path: Path):
    async with open_home(tmp_path) as home:
        agent = await home.create_agent(model="scripted/demo", tags=GIT, memory={"human": "Likes maps."})
        await send(home, agent, "SAY:Noted.")
        done = await agent.memory.reflect(policy="review", instructions=TEA)
    async with open_home(tmp_path) as home:
        agent = await home.agent(agent.id)
        assert await agent.memory.reflections() == [done]
        assert (await agent.memory.accept(done.id)).outcome == "merged"
        assert await human(agent) == "Likes tea."


async def test_an_unknown_model_is_told_before_anything_runs(filed: Agent):
    done = await filed.memory.reflect(model="nowhere/x")
    assert done.outcome == "failed"
    assert "nowhere" in done.detail
    with pytest.raises(InvalidInput):
        await filed.memory.log(limit=0)
