"""Skills in turns: which are listed, what loading one gives, and that it stays in its conversation (B10)."""

from pathlib import Path

import anyio
import pytest
from runtime_rig import BOUND, Told, request, send

from eunoe.embedded import Agent, Home
from eunoe.prompt.skills import Skill
from eunoe.runtime.conversations import ConversationSpec, create_conversation
from eunoe.runtime.preview import preview
from eunoe.state.errors import Conflict, InvalidInput, NotFound
from eunoe.store import conversations

pytestmark = pytest.mark.anyio

GIT = ("git-memory-enabled",)
DONE = "\nTHEN:\nSAY:Done."


def put(folder: Path, name: str, text: str, **files: str) -> Path:
    place = folder / name
    place.mkdir(parents=True)
    (place / "SKILL.md").write_text(text, "utf-8")
    for path, content in files.items():
        (place / path).write_text(content, "utf-8")
    return place


@pytest.fixture
async def filed(home: Home) -> Agent:
    return await home.create_agent(model="scripted/demo", tags=GIT, memory={"human": "Likes maps."})


async def asked(home: Home, agent: Agent, project: Path | None = None, **fields: object) -> str:
    """Return the bytes of the request that a message would send now."""
    payload = await preview(home.runtime, request(agent, "hello", project=project, **fields))
    return payload.body.decode().replace("\\n", "\n")


async def load(home: Home, agent: Agent, arguments: str, **fields: object) -> Told:
    return await send(home, agent, f"TOOL:load_skill {arguments}{DONE}", **fields)


async def test_skills_of_three_places_are_listed_after_the_stored_prompt(home: Home, filed: Agent, tmp_path: Path):
    source = tmp_path / "source"
    await filed.skills.install(put(source, "pdf", "---\ndescription: Work with PDF files.\n---\nx\n"))
    put(tmp_path / "skills", "mail", "Post mail.\n")
    put(tmp_path / "skills", "pdf", "The global one.\n")
    project = tmp_path / "work"
    put(project / ".agents/skills", "build", "Build this.\n")
    body = await asked(
        home, filed, project, client_skills=(Skill(name="slack", description="Post.", location="/c/slack/SKILL.md"),)
    )
    assert (
        "<available_skills>\n"
        "${MEMORY_DIR}/skills\n└── pdf/\n    └── SKILL.md (Work with PDF files.)\n\n"
        "/c\n└── slack/\n    └── SKILL.md (Post.)\n\n"
        f"{tmp_path}/skills\n└── mail/\n    └── SKILL.md (Post mail.)\n\n"
        f"{project}/.agents/skills\n└── build/\n    └── SKILL.md (Build this.)\n"
        "</available_skills>"
    ) in body
    assert "available_skills" not in await filed.prompt()
    assert "build/" not in await asked(home, filed)


async def test_b10_loading_a_skill_changes_nothing_in_another_conversation(home: Home, filed: Agent, tmp_path: Path):
    await filed.skills.install(put(tmp_path, "pdf", "The whole secret of PDF.\n"))
    one = await create_conversation(home.runtime, ConversationSpec(agent_id=filed.id))
    other = await create_conversation(home.runtime, ConversationSpec(agent_id=filed.id))
    before = await asked(home, filed, conversation_id=other.id)
    told = await load(home, filed, '{"name": "pdf"}', conversation_id=one.id)
    assert [part.content for part in told.returns] == ["The whole secret of PDF."]
    assert await asked(home, filed, conversation_id=other.id) == before
    assert "whole secret" in await asked(home, filed, conversation_id=one.id)
    stored = await home.runtime.db.read(lambda tx: conversations.get(tx, other.id))
    assert stored.updated_at == other.updated_at


async def test_a_skill_is_loaded_with_its_folder_and_its_other_files(home: Home, filed: Agent, tmp_path: Path):
    place = put(tmp_path, "pdf", "Run <SKILL_DIR>/go.py.\n", **{"go.py": "print()\n"})
    await filed.skills.install(place)
    told = await load(home, filed, '{"name": "pdf"}')
    assert told.returns[0].content == (
        "# Skill Directory: ${MEMORY_DIR}/skills/pdf\n- go.py\n\nRun ${MEMORY_DIR}/skills/pdf/go.py."
    )
    told = await load(home, filed, '{"name": "pdf", "file": "go.py"}')
    assert told.returns[0].content == "print()\n"
    told = await load(home, filed, '{"name": "pdf", "file": "../../system/human.md"}')
    assert told.returns[0].status == "error"


async def test_a_skill_for_people_and_one_that_is_not_there_are_refused(home: Home, filed: Agent, tmp_path: Path):
    await filed.skills.install(put(tmp_path, "shut", "---\ndisable-model-invocation: true\n---\nWords.\n"))
    assert "shut/" not in await asked(home, filed)
    told = await load(home, filed, '{"name": "shut"}')
    assert (told.returns[0].status, "people only" in told.returns[0].content) == ("error", True)
    told = await load(home, filed, '{"name": "nothing"}')
    assert told.returns[0].content == "There is no skill 'nothing' here. There are: shut."


async def test_a_skill_that_cannot_be_read_is_told_and_not_left_out(home: Home, filed: Agent, tmp_path: Path):
    put(tmp_path / "skills", "bad", "---\ndescription: [\n---\n")
    found = await filed.skills.list()
    assert [(one.name, one.source) for one in found.unread] == [("bad", "global")]
    assert "bad/\n    └── SKILL.md (cannot be read: the front matter" in await asked(home, filed)
    told = await load(home, filed, '{"name": "bad"}')
    assert "cannot be read" in told.returns[0].content


async def test_no_folder_of_skills_can_stop_a_turn_or_hold_up_the_close(home: Home, filed: Agent, tmp_path: Path):
    project = tmp_path / "work"
    place = put(project / ".agents/skills", "good", "Good.\n")
    for name, target in (("gone", "nowhere"), ("round", "SKILL.md")):
        (place.parent / name).mkdir()
        (place.parent / name / "SKILL.md").symlink_to(target)
    body = await asked(home, filed, project)
    assert "gone/\n" in body
    assert "cannot be read: it is a link that leads nowhere" in body
    told = await load(home, filed, '{"name": "good"}', project=project)
    assert told.ended.stop_reason == "end_turn"
    missing = await load(home, filed, '{"name": "good", "file": "a\\u0000b"}', project=project)
    assert missing.ended.stop_reason == "end_turn"
    with anyio.CancelScope() as scope:
        scope.cancel()
        await home.runtime.start(request(filed, "hello", project=project))
    with anyio.fail_after(BOUND):
        await home.runtime.end_runs_of(filed.id)


async def test_blocks_labelled_as_skills_are_an_agent_s_skills(home: Home):
    agent = await home.create_agent(
        model="scripted/demo", memory={"human": "x", "skills/pdf": "Read it.\n"}, tools=("load_skill",)
    )
    await agent.update_block("skills/pdf", description="Work with PDF files.\nMore.")
    assert "└── pdf/\n    └── SKILL.md (Work with PDF files.)" in await asked(home, agent)
    told = await load(home, agent, '{"name": "pdf"}')
    assert told.returns[0].content == "Read it."


async def test_global_skills_are_listed_for_agents_that_can_load_them_only(home: Home, tmp_path: Path):
    put(tmp_path / "skills", "mail", "Post mail.\n")
    agent = await home.create_agent(model="scripted/demo", memory={"human": "x"})
    assert "available_skills" not in await asked(home, agent)


async def test_installing_and_removing_are_commits(filed: Agent, tmp_path: Path):
    place = put(tmp_path, "pdf", "One.\n", **{"old.txt": "x"})
    done = await filed.skills.install(place)
    assert [one.path for one in done.change.files] == ["skills/pdf/SKILL.md", "skills/pdf/old.txt"]
    commit = (await filed.memory.show(done.change.commit)).commit
    assert commit.message == f"Install skill pdf\n\nFrom {place}\n"
    with pytest.raises(Conflict, match="'pdf' already"):
        await filed.skills.install(place)
    (place / "old.txt").unlink()
    await filed.skills.install(place, replace=True)
    assert (await filed.skills.show("pdf")).files == ()
    await filed.skills.remove("pdf")
    assert (await filed.skills.list()).skills == ()
    with pytest.raises(NotFound):
        await filed.skills.remove("pdf")
    assert await filed.memory.read("skills/pdf/old.txt", done.change.commit) == "x"


async def test_a_skill_above_others_goes_without_them(filed: Agent, tmp_path: Path):
    for name in ("office", "office/pdf"):
        await filed.memory.write(f"skills/{name}/SKILL.md", f"{name} text\n")
    await filed.memory.write("skills/office/lib/go.py", "go")
    await filed.skills.install(put(tmp_path / "source", "office", "Newer.\n"), replace=True)
    assert [one.path for one in (await filed.memory.files()).files if one.path.startswith("skills/")] == [
        "skills/office/SKILL.md",
        "skills/office/pdf/SKILL.md",
    ]
    await filed.skills.remove("office")
    assert [one.name for one in (await filed.skills.list()).skills] == ["office/pdf"]
    with pytest.raises(NotFound):
        await filed.skills.remove("office")


async def test_a_bad_skill_leaves_memory_as_it_is(filed: Agent, tmp_path: Path):
    before = (await filed.memory.files()).commit
    with pytest.raises(InvalidInput, match="the front matter"):
        await filed.skills.install(put(tmp_path, "bad", "---\ntitle: [\n---\n"))
    (tmp_path / "empty").mkdir()
    with pytest.raises(InvalidInput, match="holds no skill"):
        await filed.skills.install(tmp_path / "empty")
    assert (await filed.memory.files()).commit == before


async def test_an_agent_with_blocks_is_told_where_skills_live(home: Home, tmp_path: Path):
    agent = await home.create_agent(model="scripted/demo", memory={"human": "x"})
    with pytest.raises(Conflict, match="git-memory-enabled"):
        await agent.skills.install(put(tmp_path, "pdf", "x\n"))
