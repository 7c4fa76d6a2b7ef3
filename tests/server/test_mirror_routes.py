"""Mirrors over HTTP, with a real repository as the remote."""

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory, serve_home: Any) -> Iterator[httpx2.Client]:
    with (
        serve_home(tmp_path_factory.mktemp("mirror-home")) as address,
        httpx2.Client(base_url=address, timeout=30) as opened,
    ):
        yield opened


@pytest.fixture
def memory(api: httpx2.Client) -> str:
    """The path of a new agent's memory."""
    body = {"model": "scripted/demo", "memory": "git", "memory_blocks": [{"label": "human", "value": "Likes maps."}]}
    return f"/v1/agents/{told(api.post('/v1/agents', json=body))['id']}/memory"


def told(answer: httpx2.Response, status: int = 200) -> Any:
    assert answer.status_code == status, answer.text
    return answer.json()


def test_mirror_is_set_pushed_shown_and_removed(api: httpx2.Client, memory: str, tmp_path: Path):
    remote = tmp_path / "mirror.git"
    assert "on this machine only" in told(api.get(f"{memory}/mirror"), 404)["detail"]
    missing = told(api.put(f"{memory}/mirror", json={"url": str(remote)}))
    assert (missing["url"], missing["state"], missing["pushed"]) == (str(remote), "due", None)
    failed = told(api.post(f"{memory}/mirror/push"))
    assert (failed["state"], failed["fault"]) == ("needs a person", "missing")
    assert told(api.get(f"{memory}/status"))["said"] == [failed["said"]]
    subprocess.run(["git", "init", "-q", "--bare", "-b", "main", str(remote)], check=True, timeout=60)
    pushed = told(api.post(f"{memory}/mirror/push"))
    main = subprocess.run(["git", "-C", str(remote), "rev-parse", "main"], capture_output=True, text=True, check=True)
    assert (pushed["state"], pushed["pushed"], pushed["said"]) == ("up to date", main.stdout.strip(), None)
    assert told(api.get(f"{memory}/status"))["mirror"] == told(api.get(f"{memory}/mirror")) == pushed
    told(api.delete(f"{memory}/mirror"))
    told(api.delete(f"{memory}/mirror"), 404)
    assert told(api.get(f"{memory}/status"))["mirror"] is None


def test_address_with_a_password_is_refused_and_never_repeated(
    api: httpx2.Client, memory: str, caplog: pytest.LogCaptureFixture
):
    answer = api.put(f"{memory}/mirror", json={"url": "https://ada:s3cr3t@example.org/x.git"})
    assert answer.status_code == 422
    assert "credential helper" in answer.text
    assert "s3cr3t" not in answer.text + caplog.text
    told(api.get(f"{memory}/mirror"), 404)


def test_agent_whose_memory_is_blocks_has_no_mirror(api: httpx2.Client, tmp_path: Path):
    agent = told(api.post("/v1/agents", json={"model": "scripted/demo"}))["id"]
    told(api.put(f"/v1/agents/{agent}/memory/mirror", json={"url": str(tmp_path)}), 409)
    told(api.get("/v1/agents/agent-00000000-0000-4000-8000-000000000000/memory/mirror"), 404)
