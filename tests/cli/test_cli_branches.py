"""`eunoe memory tag`, `branch` and `merge`, on a real repository."""

import json
import subprocess
from pathlib import Path

import pytest
from cli_rig import Cli

HUMAN = "system/human.md"


@pytest.fixture
def folder(cli: Cli) -> Path:
    """The memory files of Ada."""
    agent_id = cli.done(
        "agents", "create", "--name", "Ada", "--model", "scripted/demo", "--human", "Likes maps."
    ).strip()
    assert cli.run("memory", "convert", "Ada", "--to", "git").exit_code == 0
    return cli.store / "memory" / agent_id


def names(cli: Cli, kind: str) -> dict[str, str]:
    return {one["name"]: one["commit"] for one in json.loads(cli.done("memory", kind, "Ada", "--json"))}


@pytest.mark.usefixtures("folder")
def test_a_tag_names_a_revision_for_good(cli: Cli) -> None:
    assert names(cli, "tag") == {}
    made = cli.run("memory", "tag", "Ada", "first", "--message", "As it began.")
    (first,) = names(cli, "tag").values()
    assert (made.exit_code, made.stderr) == (0, f"Tag first is at {first[:10]}.\n")
    cli.run("blocks", "set", "Ada", "system/human", "Likes tea.")
    assert json.loads(cli.done("memory", "tag", "Ada", "now", "--json"))["commit"] != first
    assert json.loads(cli.done("memory", "tag", "Ada", "again", "first", "--json"))["commit"] == first
    listed = [line.split()[0] for line in cli.done("memory", "tag", "Ada").splitlines()]
    assert (listed[0], listed[2:]) == ("tag", ["again", "first", "now"])
    taken = cli.run("memory", "tag", "Ada", "first")
    assert (taken.exit_code, "There is a tag 'first' already" in taken.stderr) == (2, True)
    assert "-Likes maps." in cli.done("memory", "diff", "Ada", "first")


@pytest.mark.parametrize("words", [("tag", "Ada", "a..b"), ("branch", "Ada", "x", "nothing"), ("tag", "Nobody")])
@pytest.mark.usefixtures("folder")
def test_bad_names_are_told_in_a_sentence(cli: Cli, words: tuple[str, ...]) -> None:
    result = cli.run("memory", *words)
    assert result.exit_code == 2
    assert result.stderr.count("\n") == 1
    assert "Traceback" not in result.output


def test_a_branch_is_begun_merged_and_deleted(cli: Cli, folder: Path) -> None:
    def git(*words: str) -> None:
        command = ["git", "-C", str(folder), "-c", "user.name=Ada", "-c", "user.email=a@example.org", *words]
        subprocess.run(command, check=True, capture_output=True, timeout=60)

    assert cli.run("memory", "branch", "Ada", "idea").exit_code == 0
    assert set(names(cli, "branch")) == {"idea", "main"}
    git("checkout", "-q", "idea")
    (folder / "notes").mkdir()
    (folder / "notes/plan.md").write_text("Go in May.\n")
    (folder / HUMAN).write_text((folder / HUMAN).read_text().replace("maps", "boats"))
    git("add", "-A")
    git("commit", "-q", "-m", "An idea")
    git("checkout", "-q", "main")
    cli.run("blocks", "set", "Ada", "system/human", "Likes tea.")
    stopped = cli.run("memory", "merge", "Ada", "idea")
    assert (stopped.exit_code, f"both sides have: {HUMAN}" in stopped.stderr) == (1, True)
    assert cli.run("memory", "branch", "Ada", "main", "--delete").exit_code == 2
    merged = cli.run("memory", "merge", "Ada", "idea", "--policy", "ours", "--why", "It is good.")
    assert (merged.exit_code, merged.stdout) == (0, "added: notes/plan.md\n")
    assert "It is good." in cli.done("memory", "show", "Ada")
    assert cli.done("blocks", "show", "Ada", "system/human") == "Likes tea.\n"
    again = json.loads(cli.done("memory", "merge", "Ada", "idea", "--json"))
    assert again["outcome"] == "nothing to do"
    deleted = cli.run("memory", "branch", "Ada", "idea", "--delete")
    assert (deleted.exit_code, deleted.stderr) == (0, "Deleted branch idea.\n")
    assert set(names(cli, "branch")) == {"main"}
    assert cli.run("memory", "branch", "Ada", "idea", "--delete").exit_code == 2
    assert cli.run("memory", "branch", "Ada", "--delete").exit_code == 2
