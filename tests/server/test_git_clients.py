"""A real git client clones, pushes, is refused, and pulls; what it pushed is memory when the push returns."""

import base64
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

pytestmark = pytest.mark.slow

TOKEN = "letmein-1"
TEA = "---\ndescription: About tea\n---\nGreen.\n"


class Client:
    """The git program as a person uses it, who has no settings and is never asked anything."""

    def __init__(self, folder: Path, remote: str) -> None:
        self.remote = remote
        self._folder = folder

    def run(self, *words: str, at: str = ".", status: int = 0) -> str:
        """Run git in a folder, expect how it ends, and return what it said."""
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(self._folder),
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_TERMINAL_PROMPT": "0",
            "LC_ALL": "C.UTF-8",
        }
        for who in ("AUTHOR", "COMMITTER"):
            environment |= {f"GIT_{who}_NAME": "Nell", f"GIT_{who}_EMAIL": "nell@example.org"}
        done = subprocess.run(
            ["git", *words],
            cwd=self._folder / at,
            env=environment,
            capture_output=True,
            encoding="utf-8",
            timeout=60,
            check=False,
        )
        assert done.returncode == status, done.stdout + done.stderr
        return done.stdout + done.stderr

    def clone(self, at: str = "clone", *options: str) -> Path:
        self.run("clone", "-q", *options, self.remote, at)
        return self._folder / at

    def commit(self, at: str, files: dict[str, str | bytes]) -> None:
        for path, text in files.items():
            file = self._folder / at / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(text if isinstance(text, bytes) else text.encode())
        self.run("add", "-A", at=at)
        self.run("commit", "-qm", "by hand", at=at)

    def push(self, at: str, *words: str, status: int = 0) -> str:
        return self.run("push", "-q", *(words or ("origin", "main")), at=at, status=status)


class Served:
    """A server with one agent whose memory is files, and a client of it."""

    def __init__(self, url: str, home: Path, clients: Path) -> None:
        self.http = httpx2.Client(base_url=url, headers={"authorization": f"Bearer {TOKEN}"}, timeout=20)
        blocks = [{"label": "human", "value": "Likes maps."}, {"label": "persona", "value": "Kind."}]
        self.agent_id: str = self._post("/v1/agents/", {"memory_blocks": blocks, "tags": ["git-memory-enabled"]})["id"]
        self.plain_id: str = self._post("/v1/agents/", {"memory_blocks": blocks})["id"]
        self.tree = home / "memory" / self.agent_id
        clients.mkdir()
        host = url.removeprefix("http://")
        self.git = Client(clients, f"http://anyone:{TOKEN}@{host}/v1/git/{self.agent_id}/state.git")
        self.bare = Client(clients, f"http://{host}/v1/git/{self.agent_id}/state.git")
        self.other = Client(clients, f"http://x:{TOKEN}@{host}/v1/git/{self.plain_id}/state.git")

    def _post(self, path: str, body: Any) -> Any:
        answer = self.http.post(path, json={"model": "scripted/demo", **body})
        assert answer.status_code == 200, answer.text
        return answer.json()

    def block(self, label: str) -> str:
        answer = self.http.get(f"/v1/agents/{self.agent_id}/core-memory/blocks/{label}")
        assert answer.status_code == 200, answer.text
        return answer.json()["value"]

    def edit(self, label: str, value: str) -> None:
        answer = self.http.patch(f"/v1/agents/{self.agent_id}/core-memory/blocks/{label}", json={"value": value})
        assert answer.status_code == 200, answer.text

    def prompt(self) -> str:
        return self.http.get(f"/v1/agents/{self.agent_id}/context").json()["core_memory"]


@pytest.fixture
def served(serve_home: Callable[..., Any], tmp_path: Path) -> Iterator[Served]:
    with serve_home(tmp_path / "home", token=TOKEN, body_limit=3_000_000) as url:
        opened = Served(url, tmp_path / "home", tmp_path / "clients")
        try:
            yield opened
        finally:
            opened.http.close()


def test_clone_has_the_newest_edit_and_a_push_is_memory_when_it_returns(served: Served):
    served.edit("system/human", "Likes globes.")
    served.git.run("-C", str(served.tree), "update-ref", "refs/eunoe/recorded", "main")  # as while an edit is recorded
    assert "eunoe" not in served.git.run("ls-remote", served.git.remote)
    clone = served.git.clone()
    assert (clone / "system" / "human.md").read_text().endswith("Likes globes.")
    assert served.git.run("log", "--format=%s", at="clone").startswith("Change system/human")
    served.git.commit(
        "clone", {"system/tea time é.md": TEA, "system/human.md": "---\ndescription: Who\n---\nLikes tea."}
    )
    served.git.push("clone")
    assert served.block("system/human") == "Likes tea."
    assert "Green." in served.prompt()
    assert (served.tree / "system" / "tea time é.md").read_text() == TEA
    assert served.git.run("-C", str(served.tree), "status", "--porcelain") == ""


def test_conflicting_push_is_refused_then_pulled_and_pushed(served: Served):
    served.git.clone()
    served.edit("system/human", "Likes globes.")
    served.git.commit("clone", {"system/persona.md": "---\ndescription: Me\n---\nKind and brief."})
    assert "fetch first" in served.git.push("clone", status=1)
    forced = served.git.push("clone", "--force", "origin", "main", status=1)
    assert "remote: 'main' would lose commits" in forced
    assert served.block("system/human") == "Likes globes."
    served.git.run("pull", "-q", "--rebase", at="clone")
    served.git.push("clone")
    assert (served.block("system/human"), served.block("system/persona")) == ("Likes globes.", "Kind and brief.")
    served.git.clone("second")
    served.edit("system/persona", "Bold.")
    served.git.run("pull", "-q", at="second")
    assert served.git.run("show", "HEAD:system/persona.md", at="second").endswith("Bold.")


@pytest.mark.parametrize(
    ("path", "content", "reason"),
    [
        ("system/bad name é.md", b"\xff\xfe", "remote: 'system/bad name é.md'"),
        ("system/torn.md", "<<<<<<< a\nx\n=======\ny\n>>>>>>> b\n", "(rule: conflict)"),
        ("system/big.md", "x" * 1_100_000, "(rule: size)"),
        ("system/human.md", "---\ndescription: Who\nlimit: 5\n---\nToo long.", "takes at most 5 characters"),
    ],
    ids=["encoding", "conflict", "size", "B01"],
)
def test_push_of_files_that_cannot_be_memory_is_refused_with_the_file_and_the_reason(
    served: Served, path: str, content: str | bytes, reason: str
):
    served.git.clone()
    served.git.commit("clone", {path: content})
    assert reason in served.git.push("clone", status=1)
    assert served.block("system/human") == "Likes maps."
    assert not (served.tree / "system" / "torn.md").exists()
    assert not list((served.tree / ".git" / "objects").glob("tmp_objdir*"))


def test_read_only_file_is_not_changed_by_a_push_that_does_not_say_so(served: Served):
    served.git.clone()
    served.git.commit("clone", {"system/rules.md": "---\ndescription: Rules\nread_only: true\n---\nBe kind."})
    served.git.push("clone")
    served.git.commit("clone", {"system/rules.md": "---\ndescription: Rules\nread_only: true\n---\nBe rude."})
    assert "remote: 'system/rules.md': Block 'system/rules' is read-only" in served.git.push("clone", status=1)
    assert served.block("system/rules") == "Be kind."


def test_links_and_submodules_are_refused(served: Served):
    clone = served.git.clone()
    (clone / "system" / "link.md").symlink_to("/etc/passwd")
    served.git.commit("clone", {})
    told = served.git.push("clone", status=1)
    assert "'system/link.md': Is a symbolic link." in told


def test_main_stays_and_other_branches_and_new_tags_may_be_pushed(served: Served):
    served.git.clone()
    assert "cannot be deleted" in served.git.push("clone", "origin", ":main", status=1)
    served.git.run("checkout", "-qb", "draft", at="clone")
    served.git.commit("clone", {"system/bad.md": b"\xff"})
    served.git.run("tag", "v1", at="clone")
    served.git.push("clone", "origin", "draft", "v1")
    assert served.git.run("ls-remote", "origin", at="clone").split()[1::2] == [
        "HEAD",
        "refs/heads/draft",
        "refs/heads/main",
        "refs/tags/v1",
    ]
    served.git.run("tag", "-f", "v1", "HEAD~1", at="clone")
    assert "a tag stays what it is" in served.git.push("clone", "--force", "origin", "v1", status=1)
    served.git.push("clone", "origin", ":draft")
    assert "hidden ref" in served.git.push("clone", "origin", "HEAD:refs/secret/x", status=1)
    assert served.block("system/human") == "Likes maps."


def test_uncommitted_edits_of_the_working_tree_survive_a_push(served: Served):
    clone = served.git.clone()
    (served.tree / "system" / "human.md").write_text("half a thought")
    human = (clone / "system" / "human.md").read_text()
    persona = (clone / "system" / "persona.md").read_text().replace("Kind", "Calm")
    served.git.commit("clone", {"system/human.md": human.replace("maps", "tea"), "system/persona.md": persona})
    served.git.push("clone")
    assert (served.tree / "system" / "human.md").read_text() == "half a thought"
    assert (served.tree / "system" / "persona.md").read_text() == persona
    assert served.block("system/human") == "Likes tea."


def test_shallow_clone_fetches_and_pushes(served: Served):
    for number in range(3):
        served.edit("system/human", f"Likes number {number}.")
    served.git.clone("shallow", "--depth", "1", "-c", "protocol.version=2")
    assert served.git.run("rev-list", "--count", "HEAD", at="shallow") == "1\n"
    served.git.commit("shallow", {"system/tea.md": TEA})
    served.git.push("shallow")
    assert "Green." in served.prompt()
    served.git.run("fetch", "-q", "--unshallow", at="shallow")
    assert served.git.run("rev-list", "--count", "HEAD", at="shallow") == "5\n"


def test_large_push_comes_in_chunks_and_a_larger_one_is_refused(served: Served):
    served.git.clone()
    served.git.commit("clone", {"notes/large.bin": os.urandom(2_000_000)})
    served.git.push("clone")
    assert (served.tree / "notes" / "large.bin").stat().st_size == 2_000_000
    served.git.commit("clone", {"notes/larger.bin": os.urandom(4_000_000)})
    assert "pack exceeds maximum allowed size" in served.git.push("clone", status=1)
    assert not (served.tree / "notes" / "larger.bin").exists()
    assert served.block("system/human") == "Likes maps."


def test_gzipped_request_is_read(served: Served):
    clone = served.git.clone()
    for number in range(40):
        served.edit("system/human", f"Likes number {number}.")
    # With so many commits in common that the client compresses its part of the talk.
    served.git.run("-c", "http.postBuffer=1048576", "-c", "protocol.version=0", "fetch", "-q", at="clone")
    assert served.git.run("rev-list", "--count", "origin/main", at="clone") == "41\n"
    assert clone.exists()


def test_token_is_asked_for_as_git_asks_people(served: Served):
    told = served.bare.run("ls-remote", served.bare.remote, status=128)
    assert "could not read Username" in told
    wrong = served.bare.remote.replace("http://", "http://x:wrong@")
    assert "Authentication failed" in served.bare.run("ls-remote", wrong, status=128)
    basic = base64.b64encode(f"me:{TOKEN}".encode()).decode()
    asked = f"/v1/git/{served.agent_id}/state.git/info/refs?service=git-upload-pack"
    headers = {"authorization": f"Basic {basic}"}
    assert served.http.get(asked, headers=headers).status_code == 200
    assert served.http.get(asked).status_code == 200
    assert served.http.get("/v1/agents/", headers=headers).status_code == 401


def test_agent_whose_memory_is_blocks_has_nothing_to_clone(served: Served):
    told = served.other.run("clone", served.other.remote, "none", status=128)
    assert "remote: The memory of agent" in told
    assert "git-memory-enabled" in told


@pytest.mark.parametrize(
    "path", ["HEAD", "config", "objects/info/packs", "../../config", "%2e%2e/%2e%2e/eunoe.db", "info/refs"]
)
def test_nothing_but_the_protocol_is_served(served: Served, path: str):
    answer = served.http.get(f"/v1/git/{served.agent_id}/state.git/{path}")
    assert answer.status_code in {403, 404}
    assert served.http.get(f"/v1/git/..%2f{served.agent_id}/state.git/info/refs").status_code in {404, 422}


def test_hooks_and_settings_in_the_repository_do_not_run_in_the_server(served: Served, tmp_path: Path):
    ran = tmp_path / "ran"
    for name in ("pre-receive", "update", "post-receive", "post-update", "reference-transaction"):
        hook = served.tree / ".git" / "hooks" / name
        hook.write_text(f"#!/bin/sh\ntouch {ran}\n")
        hook.chmod(0o755)
    (tmp_path / "home" / ".gitconfig").write_text("[core]\n\thooksPath = /nowhere\n")
    served.git.clone()
    served.git.commit("clone", {"system/tea.md": TEA})
    served.git.push("clone")
    assert not ran.exists()
    assert "Green." in served.prompt()


def test_log_tells_the_agent_the_api_key_and_the_person_with_git_apart(served: Served, serve_home: Any, tmp_path: Path):
    served.edit("system/human", "Likes globes.")
    call = 'TOOL:memory_insert {"label": "system/human", "new_string": "Likes tea."}\nTHEN:\nSAY:Done.'
    messages = {"messages": [{"role": "user", "content": call}]}
    answer = served.http.post(f"/v1/agents/{served.agent_id}/messages", json=messages)
    assert answer.status_code == 200, answer.text
    run_id = next(one["run_id"] for one in answer.json()["messages"])
    served.git.clone()
    served.git.commit("clone", {"system/tea.md": TEA})
    served.git.push("clone")
    log = served.http.get(f"/v1/agents/{served.agent_id}/memory/log").json()
    by = [(one["author"]["name"], one["author"]["email"], one["run_id"]) for one in log[:3]]
    name = served.http.get(f"/v1/agents/{served.agent_id}").json()["name"]
    assert by == [
        ("Nell", "nell@example.org", None),
        (name, f"{served.agent_id}@eunoe.local", run_id),
        ("API key", "api-key@eunoe.local", None),
    ]
    with serve_home(tmp_path / "open") as url, httpx2.Client(base_url=url, timeout=20) as http:
        body = {"model": "scripted/demo", "memory": "git", "memory_blocks": [{"label": "human", "value": "x"}]}
        agent_id = http.post("/v1/agents/", json=body).json()["id"]
        http.patch(f"/v1/agents/{agent_id}/core-memory/blocks/system%2Fhuman", json={"value": "y"})
        assert http.get(f"/v1/agents/{agent_id}/memory/log").json()[0]["author"]["name"] == "User"
