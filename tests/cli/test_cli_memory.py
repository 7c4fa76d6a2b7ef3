"""`eunoe memory` and what doctor says of repositories, on real repositories."""

import json
import os
import subprocess
from pathlib import Path

from cli_rig import Cli

HUMAN = "system/human.md"


def git(folder: Path, *words: str) -> str:
    environment = {"PATH": os.environ["PATH"], "HOME": str(folder.parent), "GIT_CONFIG_NOSYSTEM": "1"}
    command = ["git", "-C", str(folder), "-c", "user.name=Ada", "-c", "user.email=ada@example.org", *words]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=60).stdout


def with_files(cli: Cli) -> Path:
    """Create Ada, turn her memory into files, and return their folder."""
    agent_id = cli.done(
        "agents", "create", "--name", "Ada", "--model", "scripted/demo", "--human", "Likes maps."
    ).strip()
    assert cli.run("memory", "convert", "Ada", "--to", "git").exit_code == 0
    return cli.store / "memory" / agent_id


def commit(folder: Path, path: str, text: str) -> None:
    place = folder / path
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(text, encoding="utf-8")
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "By hand")


def test_an_edit_by_hand_is_in_the_history_and_is_taken_back(cli: Cli) -> None:
    folder = with_files(cli)
    commit(folder, HUMAN, "---\ndescription: Who is asking.\n---\nLikes tea.\n")
    assert "Likes tea." in cli.done("blocks", "show", "Ada", "system/human")
    log = json.loads(cli.done("memory", "log", "Ada", "--json"))
    assert [one["subject"] for one in log] == ["By hand", "Begin memory"]
    assert "+Likes tea." in cli.done("memory", "show", "Ada")
    assert "-Likes tea." in cli.done("memory", "diff", "Ada", "main", log[1]["id"])
    blamed = cli.done("memory", "blame", "Ada", HUMAN)
    assert "Ada" in next(line for line in blamed.splitlines() if "Likes tea." in line)
    assert f"changed: {HUMAN}" in cli.done("memory", "restore", "Ada", log[1]["id"], HUMAN, "--why", "No tea.")
    assert "Likes maps." in cli.done("blocks", "show", "Ada", "system/human")
    assert (folder / HUMAN).read_text(encoding="utf-8").endswith("Likes maps.")
    assert "No tea." in git(folder, "log", "-1", "--format=%B")


def test_g09_status_check_and_doctor_tell_what_is_not_committed(cli: Cli) -> None:
    folder = with_files(cli)
    assert "Everything is committed." in cli.done("memory", "status", "Ada")
    assert "ok       memory files: 1 repositories, everything committed" in cli.run("doctor").output
    (folder / "system/new.md").write_bytes(b"\xff")
    assert "1 file is new and not committed, so not in memory: 'system/new.md'." in cli.done("memory", "status", "Ada")
    checked = cli.run("memory", "check", "Ada")
    assert checked.exit_code == 1
    assert "working tree: 'system/new.md'" in checked.output
    assert f"memory of {folder.name}: 1 file is new and not committed" in cli.run("doctor").output


def test_a_repository_that_is_gone_is_told_by_doctor(cli: Cli) -> None:
    folder = with_files(cli)
    folder.rename(folder.with_name("elsewhere"))
    done = cli.run("doctor")
    assert done.exit_code == 1
    assert f"memory of {folder.name}: The memory repository {folder} cannot be opened" in done.output


def test_g03_what_is_exported_comes_in_again_beside_what_is_there(cli: Cli, tmp_path: Path) -> None:
    folder = with_files(cli)
    commit(folder, "notes/one.md", "one\n")
    assert cli.run("memory", "export", "Ada", str(tmp_path / "plain")).exit_code == 0
    assert (tmp_path / "plain/notes/one.md").read_text(encoding="utf-8") == "one\n"
    again = cli.run("memory", "export", "Ada", str(tmp_path / "plain"))
    assert again.exit_code == 2
    assert cli.run("memory", "export", "Ada", str(tmp_path / "all.bundle"), "--history").exit_code == 0
    git(tmp_path, "clone", "-q", str(folder), "clone")
    commit(tmp_path / "clone", "notes/two.md", "two\n")
    commit(folder, "notes/one.md", "changed here\n")
    commit(tmp_path / "clone", "notes/one.md", "changed there\n")
    stopped = cli.run("memory", "import", "Ada", str(tmp_path / "clone"), "--policy", "abort")
    assert (stopped.exit_code, "both sides have: notes/one.md" in stopped.output) == (1, True)
    assert "added: notes/two.md" in cli.done("memory", "import", "Ada", str(tmp_path / "clone"))
    assert (folder / "notes/one.md").read_text(encoding="utf-8") == "changed here\n"
    (kept,) = (folder / "conflicts").rglob("one.md")
    assert kept.read_text(encoding="utf-8") == "changed there\n"
    assert "Nothing to do." in cli.run("memory", "import", "Ada", str(tmp_path / "all.bundle")).output
    plain = tmp_path / "plain"
    (plain / "notes/three.md").write_text("three\n", encoding="utf-8")
    assert "added: notes/three.md" in cli.done("memory", "import", "Ada", str(plain), "--policy", "ours")


def test_a_folder_with_a_link_in_it_is_refused(cli: Cli, tmp_path: Path) -> None:
    with_files(cli)
    (tmp_path / "source").mkdir()
    (tmp_path / "source/link.md").symlink_to("/etc/passwd")
    done = cli.run("memory", "import", "Ada", str(tmp_path / "source"))
    assert done.exit_code == 2
    assert "'link.md' is no plain file" in done.output


def test_memory_goes_back_to_blocks_with_its_history_kept(cli: Cli) -> None:
    folder = with_files(cli)
    assert cli.run("memory", "convert", "Ada", "--to", "blocks").exit_code == 0
    assert cli.done("blocks", "show", "Ada", "human").strip() == "Likes maps."
    refused = cli.run("memory", "log", "Ada")
    assert refused.exit_code == 2
    assert "git-memory-enabled" in refused.stderr
    assert git(folder, "log", "--format=%s").strip() == "Begin memory"


def test_doctor_tells_folders_of_agents_that_the_store_does_not_know(cli: Cli) -> None:
    folder = with_files(cli)
    assert "memory of nobody" not in cli.run("doctor").output
    (folder.parent / "agent-gone").mkdir()
    told = cli.run("doctor").output
    assert "memory of nobody: 1 folders of agents that are not in the store: agent-gone" in told
