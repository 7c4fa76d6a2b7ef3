"""Skills and reflections over HTTP, on a real server."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

pytestmark = pytest.mark.slow

TEA = 'TOOL:memory_replace {"label": "human", "old_string": "maps", "new_string": "tea"}\nTHEN:\nSAY:Done.'


@pytest.fixture(scope="module")
def skill_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("skill-home")


@pytest.fixture(scope="module")
def api(skill_home: Path, serve_home: Any) -> Iterator[httpx2.Client]:
    with serve_home(skill_home) as address, httpx2.Client(base_url=address, timeout=30) as opened:
        yield opened


@pytest.fixture
def agent(api: httpx2.Client) -> str:
    blocks = [{"label": "human", "value": "Likes maps."}]
    body = {"model": "scripted/demo", "memory": "git", "memory_blocks": blocks}
    return f"/v1/agents/{good(api.post('/v1/agents', json=body))['id']}"


def good(answer: httpx2.Response) -> Any:
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_a_skill_is_installed_from_its_files_read_and_removed(api: httpx2.Client, agent: str):
    files = {"SKILL.md": "---\ndescription: Work with PDF files.\n---\nRead it.\n", "lib/go.py": "print()\n"}
    done = good(api.post(f"{agent}/skills", json={"name": "pdf", "files": files}))
    assert [one["path"] for one in done["change"]["files"]] == ["skills/pdf/SKILL.md", "skills/pdf/lib/go.py"]
    assert [one["name"] for one in good(api.get(f"{agent}/skills"))["skills"]] == ["pdf"]
    shown = good(api.get(f"{agent}/skills/pdf"))
    assert (shown["text"], shown["files"]) == ("Read it.", ["lib/go.py"])
    assert api.post(f"{agent}/skills", json={"name": "pdf", "files": files}).status_code == 409
    assert api.get(f"{agent}/skills/nothing").status_code == 404
    assert len(good(api.delete(f"{agent}/skills/pdf"))["files"]) == 2
    assert good(api.get(f"{agent}/skills"))["skills"] == []


@pytest.mark.parametrize(
    "body",
    [
        {"source": "file:///etc"},
        {"source": "/etc"},
        {"source": "ext::sh -c id"},
        {"files": {"SKILL.md": "x"}},
        {"name": "x"},
        {"name": "x", "files": {"SKILL.md": "x", "../../out": "x"}},
        {"name": "..", "files": {"SKILL.md": "x"}},
    ],
)
def test_a_client_cannot_reach_the_server_s_files(api: httpx2.Client, agent: str, body: dict[str, Any]):
    answer = api.post(f"{agent}/skills", json=body)
    assert answer.status_code in (400, 422), answer.text
    assert good(api.get(f"{agent}/skills"))["skills"] == []


def test_a_client_s_own_skill_is_not_read_by_the_server(api: httpx2.Client, agent: str, skill_home: Path):
    secret = skill_home / "secret" / "SKILL.md"
    secret.parent.mkdir()
    secret.write_text("hidden words\n", "utf-8")
    text = 'TOOL:load_skill {"name": "secret"}\nTHEN:\nSAY:Done.'
    skill = {"name": "secret", "description": "x", "location": str(secret)}
    body = {"messages": [{"role": "user", "content": text}], "client_skills": [skill]}
    answer = good(api.post(f"{agent}/messages", json=body))
    assert "hidden words" not in str(answer)
    assert "There is no skill 'secret' here" in str(answer)


def test_a_reflection_is_started_shown_and_accepted(api: httpx2.Client, agent: str):
    good(api.post(f"{agent}/messages", json={"messages": [{"role": "user", "content": "SAY:Noted."}]}))
    path = f"{agent}/memory/reflections"
    done = good(api.post(path, json={"policy": "review", "instructions": TEA, "wait": True}))
    assert done["outcome"] == "waits for review"
    assert [one["id"] for one in good(api.get(path))] == [done["id"]]
    shown = good(api.get(f"{path}/{done['id']}"))
    assert [one["path"] for one in shown["files"]] == ["system/human.md"]
    assert "+Likes tea." in shown["diff"]
    assert good(api.post(f"{path}/{done['id']}/accept"))["outcome"] == "merged"
    assert good(api.get(f"{agent}/core-memory/blocks/system/human"))["value"] == "Likes tea."
    assert api.post(f"{path}/{done['id']}/reject").status_code == 409
    assert api.get(f"{path}/nonsense").status_code == 422


def test_without_waiting_the_answer_has_no_outcome_yet(api: httpx2.Client, agent: str):
    good(api.post(f"{agent}/messages", json={"messages": [{"role": "user", "content": "SAY:Noted."}]}))
    begun = good(api.post(f"{agent}/memory/reflections", json={"instructions": "SAY:Nothing."}))
    assert begun["outcome"] is None
    path = f"{agent}/memory/reflections/{begun['id']}"
    outcomes = (good(api.get(path))["reflection"]["outcome"] for _ in range(500))
    assert next(outcome for outcome in outcomes if outcome is not None) == "nothing to do"


def test_when_an_agent_is_reflected_for_by_itself_is_set_shown_and_taken_back(api: httpx2.Client, agent: str):
    path = f"{agent}/memory/reflection-trigger"
    assert good(api.get(path)) is None
    wanted = {"every_steps": 25, "after_compaction": True, "policy": "review", "instructions": "Names.", "model": None}
    made = good(api.put(path, json=wanted))
    assert {key: made[key] for key in wanted} == wanted
    assert good(api.get(path)) == made
    assert api.put(path, json={}).status_code == 422
    assert "reflected for only when somebody asks" in good(api.delete(path))["message"]
    assert api.delete(path).status_code == 404
    assert good(api.get(path)) is None
