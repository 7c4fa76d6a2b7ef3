"""Memory files over HTTP: real git on one side, a real server on the other."""

import io
import os
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def memory_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("memory-home")


@pytest.fixture(scope="module")
def api(memory_home: Path, serve_home: Any) -> Iterator[httpx2.Client]:
    with (
        serve_home(memory_home) as address,
        httpx2.Client(base_url=address, headers={"user-agent": "letta-client/1.12.1"}, timeout=30) as opened,
    ):
        yield opened


def good(answer: httpx2.Response) -> Any:
    assert answer.status_code == 200, answer.text
    return answer.json()


class Files:
    """An agent whose memory is files."""

    def __init__(self, api: httpx2.Client, home: Path) -> None:
        blocks = [{"label": "human", "value": "Likes maps.", "description": "Who is asking."}]
        body = {"model": "scripted/demo", "memory": "git", "memory_blocks": blocks}
        self.api = api
        self.created = good(api.post("/v1/agents", json=body))
        self.id = str(self.created["id"])
        self.folder = home / "memory" / self.id

    def get(self, path: str, /, **params: Any) -> Any:
        return good(self.api.get(f"/v1/agents/{self.id}/memory/{path}", params=params))

    def post(self, path: str, body: Any = None) -> Any:
        return good(self.api.post(f"/v1/agents/{self.id}/memory/{path}", json=body or {}))

    def put(self, path: str, text: str, **fields: Any) -> httpx2.Response:
        return self.api.put(f"/v1/agents/{self.id}/memory/files/{path}", json={"text": text, **fields})

    def text(self, path: str) -> str:
        return str(self.get(f"files/{path}")["text"])

    def git(self, *words: str, folder: Path | None = None) -> str:
        environment = {"PATH": os.environ["PATH"], "HOME": str(self.folder.parent), "GIT_CONFIG_NOSYSTEM": "1"}
        who = ["-c", "user.name=Ada", "-c", "user.email=ada@example.org"]
        done = subprocess.run(
            ["git", "-C", str(folder or self.folder), *who, *words],
            env=environment,
            capture_output=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.decode()

    def commit(self, path: str, text: str) -> str:
        place = self.folder / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text, encoding="utf-8")
        self.git("add", "-A")
        self.git("commit", "-q", "-m", "By hand")
        return self.git("rev-parse", "HEAD").strip()


@pytest.fixture
def files(api: httpx2.Client, memory_home: Path) -> Files:
    return Files(api, memory_home)


HUMAN = "system/human.md"
TEXT = "---\ndescription: Who is asking.\n---\nLikes tea.\n"


def test_g13_memory_git_makes_a_repository_and_says_so(files: Files):
    assert files.created["memory"]["git_enabled"] is True
    assert (files.folder / HUMAN).read_text(encoding="utf-8").endswith("Likes maps.")
    found = files.get("status")
    assert found["head"] == found["main"] == files.git("rev-parse", "HEAD").strip()
    assert found["said"] == []


def test_g13_an_agent_with_blocks_is_told_how_to_have_files(api: httpx2.Client):
    agent_id = good(api.post("/v1/agents", json={"model": "scripted/demo"}))["id"]
    answer = api.get(f"/v1/agents/{agent_id}/memory/log")
    assert answer.status_code == 409
    assert "git-memory-enabled" in answer.json()["detail"]


def test_g02_turning_to_files_and_back_keeps_blocks_with_id_description_and_history(api: httpx2.Client):
    blocks = [{"label": "human", "value": "Likes maps.", "description": "Who is asking."}]
    agent = good(api.post("/v1/agents", json={"model": "scripted/demo", "memory_blocks": blocks}))
    path = f"/v1/agents/{agent['id']}"
    (before,) = good(api.get(f"{path}/core-memory/blocks"))
    assert good(api.patch(path, json={"memory": "git"}))["memory"]["git_enabled"] is True
    (as_file,) = good(api.get(f"{path}/core-memory/blocks"))
    assert (as_file["id"], as_file["label"], as_file["description"]) == (before["id"], "system/human", "Who is asking.")
    first = good(api.get(f"{path}/memory/log"))
    assert good(api.patch(path, json={"memory": "blocks"}))["memory"]["git_enabled"] is False
    (back,) = good(api.get(f"{path}/core-memory/blocks"))
    assert (back["id"], back["label"], back["value"]) == (before["id"], "human", "Likes maps.")
    good(api.patch(path, json={"memory": "git"}))
    assert {one["id"] for one in first} <= {one["id"] for one in good(api.get(f"{path}/memory/log"))}


def test_a_commit_by_hand_is_in_every_read_at_once(files: Files):
    head = files.commit(HUMAN, TEXT)
    path = f"/v1/agents/{files.id}"
    block = good(files.api.get(f"{path}/core-memory/blocks/system/human"))
    assert block["value"].strip() == "Likes tea."
    assert good(files.api.get(path, params={"include": ["agent.blocks"]}))["blocks"][0]["value"] == block["value"]
    files.commit(HUMAN, TEXT.replace("tea", "ink"))
    assert "ink" in good(files.api.get(f"/v1/blocks/{block['id']}"))["value"]
    files.commit(HUMAN, TEXT.replace("tea", "fog"))
    listed = good(files.api.get("/v1/agents", params={"include": ["agent.blocks"], "limit": 1}))
    assert "fog" in listed[0]["blocks"][0]["value"]
    files.commit(HUMAN, TEXT.replace("tea", "owls"))
    assert "owls" in good(files.api.post(f"{path}/recompile?dry_run=true"))
    assert files.get("log")[-2]["id"] == head


def test_the_manifest_says_from_which_commit_the_prompt_is_and_whether_it_is_stale(files: Files):
    first = files.get("status")["head"]
    new = files.commit(HUMAN, TEXT)
    found = good(files.api.get(f"/v1/agents/{files.id}/manifest"))
    assert (found["compiled_from"], found["stale"]) == (first, True)
    assert [part["revision"] for part in found["parts"] if part["kind"] == "memory_files"] == [new]
    good(files.api.post(f"/v1/agents/{files.id}/recompile"))
    found = good(files.api.get(f"/v1/agents/{files.id}/manifest"))
    assert (found["compiled_from"], found["stale"]) == (new, False)


def test_a_write_names_its_base_and_is_refused_only_where_the_same_lines_changed(files: Files):
    base = files.get("files")["commit"]
    assert good(files.put("notes/one.md", "one\n"))["files"] == [{"path": "notes/one.md", "change": "added"}]
    assert files.put("notes/two.md", "two\n", expected=base).status_code == 200
    late = files.put("notes/one.md", "mine\n", expected=base)
    assert late.status_code == 409
    assert late.json()["code"] == "STALE_REVISION"
    assert late.json()["current_revision"] == files.get("status")["head"]
    assert late.json()["paths"] == ["notes/one.md"]
    assert files.text("notes/one.md") == "one\n"
    base = good(files.put("notes/list.md", "1\n2\n3\n4\n5\n"))["commit"]
    good(files.put("notes/list.md", "one\n2\n3\n4\n5\n"))
    good(files.put("notes/list.md", "1\n2\n3\n4\nfive\n", expected=base))
    assert files.text("notes/list.md") == "one\n2\n3\n4\nfive\n"
    assert files.put("notes/list.md", "uno\n2\n3\n4\n5\n", expected=base).json()["paths"] == ["notes/list.md"]
    removed = files.api.delete(f"/v1/agents/{files.id}/memory/files/notes/list.md", params={"expected": base})
    assert (removed.status_code, removed.json()["paths"]) == (409, ["notes/list.md"])
    back = files.api.post(f"/v1/agents/{files.id}/memory/restore", json={"revision": base, "expected": base})
    assert (back.status_code, back.json()["paths"]) == (409, ["notes/list.md"])
    gone = files.api.delete(f"/v1/agents/{files.id}/memory/files/notes/one.md")
    assert good(gone)["files"] == [{"path": "notes/one.md", "change": "deleted"}]
    assert files.api.get(f"/v1/agents/{files.id}/memory/files/notes/one.md").status_code == 404
    assert (files.folder / "notes/two.md").read_text(encoding="utf-8") == "two\n"


@pytest.mark.parametrize("path", ["system/a%0Ab.md", "notes/..%2Fx.md", "system/.git/x.md"])
def test_a_path_that_cannot_be_is_refused(files: Files, path: str):
    answer = files.put(path, "x")
    assert answer.status_code in (404, 422), answer.text
    assert files.get("log")[0]["subject"] == "Begin memory"


def test_a_file_that_breaks_a_rule_is_refused_with_path_and_rule(files: Files):
    answer = files.put("system/bad.md", "---\nlimit: many\n---\nx\n")
    assert answer.status_code == 422
    assert answer.json()["path"] == "system/bad.md"
    assert answer.json()["rule"] == "limit"
    assert len(files.get("log")) == 1


def test_blame_says_which_run_message_and_model_wrote_a_line(files: Files):
    call = 'TOOL:memory_insert {"label": "system/human", "new_string": "Likes tea."}'
    answer = good(files.api.post(f"/v1/agents/{files.id}/messages", json={"input": call}))
    written = next(line for line in files.get("blame", path=HUMAN) if "tea" in line["text"])
    assert written["commit"]["run_id"] == answer["messages"][0]["run_id"]
    assert written["commit"]["model"] == "scripted/demo"
    assert written["commit"]["message_id"].startswith("message-")
    other = next(line for line in files.get("blame", path=HUMAN) if "description" in line["text"])
    assert other["commit"]["run_id"] is None


def test_log_show_diff_and_files_tell_what_was(files: Files):
    first = files.get("files")["commit"]
    second = good(files.put(HUMAN, TEXT, why="She said so."))["commit"]
    assert [one["id"] for one in files.get("log", path=HUMAN)] == [second, first]
    assert [one["id"] for one in files.get("log", before=second)] == [first]
    shown = files.get(f"commits/{second[:8]}")
    assert "She said so." in shown["commit"]["message"]
    assert shown["files"] == [{"path": HUMAN, "change": "changed"}]
    assert "+Likes tea." in shown["diff"]
    assert files.get("diff", old=first)["diff"] == shown["diff"]
    assert files.get("diff", old="nothing", new=first)["files"] == [{"path": HUMAN, "change": "added"}]
    assert "maps" in files.get(f"files/{HUMAN}", revision="HEAD~1")["text"]
    entry = files.get("files")["files"][0]
    assert (entry["path"], entry["in_prompt"], entry["size"]) == (HUMAN, True, len(TEXT))


def test_restore_is_a_new_commit_and_the_prompt_follows(files: Files):
    first = files.get("files")["commit"]
    good(files.put(HUMAN, TEXT))
    good(files.put("notes/later.md", "later\n"))
    only = files.post("restore", {"revision": first, "paths": [HUMAN]})
    assert only["files"] == [{"path": HUMAN, "change": "changed"}]
    assert files.text("notes/later.md") == "later\n"
    everything = files.post("restore", {"revision": first})
    assert [one["path"] for one in files.get("files")["files"]] == [HUMAN]
    assert len(files.get("log")) == 5
    assert everything["commit"] == files.git("rev-parse", "main").strip()
    assert "Likes maps." in good(files.api.post(f"/v1/agents/{files.id}/recompile"))


def test_tags_branches_and_merges_with_each_policy(files: Files):
    tagged = files.post("tags", {"name": "start"})
    assert files.get("tags") == [tagged]
    files.post("branches", {"name": "idea", "revision": "start"})
    assert [one["name"] for one in files.get("branches")] == ["idea", "main"]
    work = files.folder.parent / f"work-{files.id}"
    files.git("worktree", "add", "-q", str(work), "idea")
    (work / HUMAN).write_text(TEXT.replace("tea", "coffee"), encoding="utf-8")
    files.git("commit", "-q", "-a", "-m", "Idea", folder=work)
    good(files.put(HUMAN, TEXT))
    stopped = files.post("merge", {"revision": "idea"})
    assert (stopped["outcome"], stopped["conflicts"]) == ("conflict", [HUMAN])
    assert files.text(HUMAN) == TEXT
    both = files.post("merge", {"revision": "idea", "policy": "both"})
    assert both["outcome"] == "merged"
    kept = [path["path"] for path in files.get("files")["files"] if path["path"].startswith("conflicts/")]
    assert len(kept) == 1
    assert "coffee" in files.text(kept[0])
    assert files.get("status")["conflicts"] == kept
    assert files.post("merge", {"revision": "idea"})["outcome"] == "nothing to do"
    files.git("worktree", "remove", str(work))
    good(files.api.delete(f"/v1/agents/{files.id}/memory/branches/idea"))
    assert [one["name"] for one in files.get("branches")] == ["main"]
    assert files.api.delete(f"/v1/agents/{files.id}/memory/branches/main").status_code == 409


@pytest.mark.parametrize(("policy", "wins"), [("ours", "tea"), ("theirs", "coffee")])
def test_a_merge_can_take_one_side(files: Files, policy: str, wins: str):
    files.git("branch", "idea")
    good(files.put(HUMAN, TEXT))
    work = files.folder.parent / f"work-{files.id}"
    files.git("worktree", "add", "-q", str(work), "idea")
    (work / HUMAN).write_text(TEXT.replace("tea", "coffee"), encoding="utf-8")
    files.git("commit", "-q", "-a", "-m", "Idea", folder=work)
    assert files.post("merge", {"revision": "idea", "policy": policy})["outcome"] == "merged"
    assert wins in files.text(HUMAN)


def test_g09_what_is_not_committed_is_told_and_kept_and_a_turn_runs_on(files: Files):
    (files.folder / "system/new.md").write_text("---\nlimit: many\n---\nx\n", encoding="utf-8")
    (files.folder / HUMAN).write_text("half an edit", encoding="utf-8")
    found = files.get("status")
    assert (found["working_tree"]["modified"], found["working_tree"]["untracked"]) == ([HUMAN], ["system/new.md"])
    assert any("new and not committed" in sentence for sentence in found["said"])
    problems = files.get("check")["problems"]
    assert ("working tree", "system/new.md") in [(one["where"], one["path"]) for one in problems]
    good(files.api.post(f"/v1/agents/{files.id}/messages", json={"input": "SAY:hello"}))
    assert (files.folder / HUMAN).read_text(encoding="utf-8") == "half an edit"
    assert "half an edit" not in good(files.api.post(f"/v1/agents/{files.id}/recompile"))


def test_a_commit_that_cannot_be_memory_is_told_and_memory_stays(files: Files):
    head = files.get("status")["head"]
    (files.folder / "system/bad.md").write_bytes(b"\xff\xfe")
    files.git("add", "-A")
    files.git("commit", "-q", "--no-verify", "-m", "Bad")
    found = files.get("status")
    assert found["head"] == head
    assert found["unread"]["revision"] == found["main"] != head
    assert "system/bad.md" in found["said"][0]
    (problem,) = files.get("check")["problems"]
    assert (problem["where"], problem["path"], problem["rule"]) == ("main", "system/bad.md", "encoding")
    assert files.get("log")[0]["subject"] == "Bad"


def test_a_block_is_changed_attached_detached_and_deleted_with_a_reason_that_the_commit_gives(
    files: Files, api: httpx2.Client
):
    blocks = f"/v1/agents/{files.id}/core-memory/blocks"

    def last() -> list[str]:
        return files.git("log", "-1", "--format=%an%n%B").strip().split("\n")

    human = good(api.patch(f"{blocks}/system/human", json={"value": "Likes tea.", "why": "She said so."}))
    assert last() == ["User", "Change system/human", "", "She said so."]
    good(api.patch(f"/v1/blocks/{human['id']}", json={"value": "Likes mint.", "why": "Run-Id: not a trailer"}))
    assert last() == ["User", "Change system/human", "", " Run-Id: not a trailer"]
    good(api.patch(f"/v1/blocks/{human['id']}", json={"value": "Likes ice."}))
    assert last() == ["User", "Change system/human"]
    past = good(api.get(f"/v1/blocks/{human['id']}/revisions"))
    assert [item["why"] for item in past[:3]] == ["", "Run-Id: not a trailer", "She said so."]
    plan = good(api.post("/v1/blocks", json={"label": "plan", "value": "Lisbon."}))
    good(api.patch(f"{blocks}/attach/{plan['id']}", params={"why": "She travels."}))
    assert last() == ["User", "Add system/plan", "", "She travels."]
    good(api.patch(f"{blocks}/detach/{plan['id']}", params={"why": "She is back."}))
    assert last() == ["User", "Remove system/plan", "", "She is back."]
    good(api.delete(f"/v1/blocks/{human['id']}", params={"why": "She wants it so."}))
    assert last() == ["User", "Remove system/human", "", "She wants it so."]


def test_a_label_of_a_file_outside_the_prompt_reads_and_writes_the_file(files: Files):
    good(files.put("notes/ideas.md", "first\n"))
    path = f"/v1/agents/{files.id}/core-memory/blocks/notes/ideas"
    answer = files.api.get(path)
    block = good(answer)
    assert (block["label"], block["value"]) == ("notes/ideas", "first\n")
    changed = files.api.patch(path, json={"value": "second\n"}, headers={"if-match": answer.headers["etag"]})
    assert (good(changed)["id"], good(changed)["value"]) == (block["id"], "second\n")
    assert files.text("notes/ideas.md").endswith("second\n")
    stale = files.api.patch(path, json={"value": "third\n"}, headers={"if-match": answer.headers["etag"]})
    assert stale.status_code == 409
    assert files.api.get(path.replace("ideas", "none")).status_code == 404


def test_memory_at_a_step_is_what_the_agent_knew_then(files: Files):
    first = files.get("status")["head"]
    answer = good(files.api.post(f"/v1/agents/{files.id}/messages", json={"input": "SAY:hello"}))
    step_id = answer["messages"][0]["step_id"]
    good(files.put(HUMAN, TEXT))
    known = files.get(f"steps/{step_id}")
    assert known["commit"] == first
    assert "Likes maps." in known["system"]
    assert [one["path"] for one in known["files"]] == [HUMAN]
    assert "Likes maps." in known["files"][0]["text"]


def test_a_request_can_put_off_the_refresh_of_its_prompt(files: Files):
    good(files.put(HUMAN, TEXT))

    def system(policy: str) -> str:
        body = {"input": "SAY:x", "memory_refresh": policy}
        answer = good(files.api.post(f"/v1/agents/{files.id}/messages", json=body))
        return str(files.get(f"steps/{answer['messages'][0]['step_id']}")["system"])

    assert "Likes maps." in system("defer")
    assert "Likes tea." in system("recompile")


def test_exports_come_in_again_and_nothing_is_written_over(files: Files, api: httpx2.Client, memory_home: Path):
    good(files.put("notes/one.md", "one\n"))
    bundle = api.get(f"/v1/agents/{files.id}/memory/export")
    archive = api.get(f"/v1/agents/{files.id}/memory/export", params={"format": "tar"})
    with tarfile.open(fileobj=io.BytesIO(archive.content)) as opened:
        assert sorted(opened.getnames()) == ["notes/one.md", HUMAN]
    for data in (bundle.content, archive.content):
        other = Files(api, memory_home)
        good(other.put("notes/mine.md", "mine\n"))
        good(other.put("notes/one.md", "not one\n"))
        path = f"/v1/agents/{other.id}/memory/import"
        taken = good(api.post(path, content=data))
        assert (taken["outcome"], taken["conflicts"]) == ("merged", ["notes/one.md"])
        assert other.text("notes/one.md") == "not one\n"
        assert other.text("notes/mine.md") == "mine\n"
        (second,) = other.get("status")["conflicts"]
        assert other.text(second) == "one\n"
        assert good(api.post(path, content=data))["outcome"] == "nothing to do"
    assert api.post(path, content=b"no archive").status_code == 422


@pytest.mark.parametrize("kind", ["blocks", "files"])
@pytest.mark.parametrize("why", ["cut\0here", "\r\n", "x" * 20_001], ids=["NUL", "CR", "long"])
def test_a_reason_that_cannot_be_kept_as_it_is_is_refused_and_nothing_changes(api: httpx2.Client, kind: str, why: str):
    spec = {
        "model": "scripted/demo",
        "tags": ["git-memory-enabled"] if kind == "files" else [],
        "memory_blocks": [{"label": "human", "value": "Likes maps."}],
    }
    agent = good(api.post("/v1/agents/", json=spec))
    blocks = f"/v1/agents/{agent['id']}/core-memory/blocks"
    (human,) = [block for block in good(api.get(blocks)) if block["label"].endswith("human")]
    plan = good(api.post("/v1/blocks/", json={"label": "plan", "value": "Lisbon"}))
    answers = [
        api.patch(f"{blocks}/{human['label']}", json={"value": "Likes tea.", "why": why}),
        api.patch(f"/v1/blocks/{human['id']}", json={"value": "Likes tea.", "why": why}),
        api.patch(f"{blocks}/attach/{plan['id']}", params={"why": why}),
        api.patch(f"{blocks}/detach/{human['id']}", params={"why": why}),
        api.delete(f"/v1/blocks/{human['id']}", params={"why": why}),
    ]
    assert [answer.status_code for answer in answers] == [422] * 5
    assert all("why" in answer.text for answer in answers)
    assert [block["value"] for block in good(api.get(blocks))] == ["Likes maps."]


@pytest.mark.parametrize("why", ["cut\0here", "x" * 20_001], ids=["NUL", "long"])
def test_merges_and_tags_take_no_message_that_cannot_be_kept_as_it_is(files: Files, api: httpx2.Client, why: str):
    files.post("branches", {"name": "plan"})
    memory = f"/v1/agents/{files.id}/memory"
    answers = [
        api.post(f"{memory}/merge", json={"revision": "plan", "why": why}),
        api.post(f"{memory}/tags", json={"name": "now", "message": why}),
        api.post(f"{memory}/import", content=b"", params={"why": why}),
    ]
    assert [answer.status_code for answer in answers] == [422] * 3
    assert files.get("tags") == []
