"""`eunoe skills`, `eunoe memory reflect` and `eunoe memory review`, on a real store."""

import json
import re
from pathlib import Path

import pytest
from cli_rig import Cli

TEA = 'TOOL:memory_replace {"label": "human", "old_string": "maps", "new_string": "tea"}\nTHEN:\nSAY:Done.'


@pytest.fixture
def ada(cli: Cli) -> Cli:
    """The command, on a store with Ada, whose memory is files."""
    cli.done("agents", "create", "--name", "Ada", "--model", "scripted/demo", "--human", "Likes maps.")
    assert cli.run("memory", "convert", "Ada", "--to", "git").exit_code == 0
    return cli


def put(folder: Path, name: str, text: str) -> Path:
    place = folder / name
    place.mkdir(parents=True)
    (place / "SKILL.md").write_text(text, "utf-8")
    return place


def test_a_skill_is_installed_shown_and_removed(ada: Cli, tmp_path: Path) -> None:
    place = put(tmp_path / "source", "pdf", "---\ndescription: Work with PDF files.\n---\nRead it.\n")
    result = ada.run("skills", "install", "Ada", str(place))
    assert result.exit_code == 0
    assert re.fullmatch(r"Skill pdf is in commit [0-9a-f]{10}\.\n", result.stderr)
    assert "Work with PDF files." in ada.done("skills", "list", "Ada")
    assert ada.done("skills", "show", "Ada", "pdf") == "Read it.\n"
    again = ada.run("skills", "install", "Ada", str(place))
    assert (again.exit_code, "already" in again.stderr) == (2, True)
    same = ada.run("skills", "install", "Ada", str(place), "--replace")
    assert same.stderr == "Skill pdf is there as it is in the source.\n"
    ada.done("skills", "remove", "Ada", "pdf")
    assert json.loads(ada.done("skills", "list", "Ada", "--json"))["skills"] == []


def test_the_skills_of_the_working_folder_count(ada: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(tmp_path / "work/.agents/skills", "build", "Build this.\n")
    put(ada.store / "skills", "bad", "---\ndescription: [\n---\n")
    monkeypatch.chdir(tmp_path / "work")
    result = ada.run("skills", "list", "Ada")
    assert "build" in result.stdout
    assert "bad/SKILL.md cannot be read: the front matter" in result.stderr
    told = json.loads(ada.done("run", "Ada", "-p", 'TOOL:load_skill {"name": "build"}\nTHEN:\nSAY:Done.', "--json"))
    assert "Build this." in json.dumps(told["messages"])


def test_a_source_that_is_no_skill_is_bad_input(ada: Cli, tmp_path: Path) -> None:
    for source in ("http://example.org/x.git", str(tmp_path / "nothing")):
        assert ada.run("skills", "install", "Ada", source).exit_code == 2


def test_a_reflection_is_reviewed_and_accepted(ada: Cli) -> None:
    ada.done("run", "Ada", "-p", "SAY:Noted.")
    told = ada.run("memory", "reflect", "Ada", "--policy", "review", "--instructions", TEA)
    assert (told.exit_code, told.stdout) == (0, "waits for review: Its edits wait for a person.\n")
    assert "waits for review" in ada.done("memory", "review", "Ada")
    waits = "1 reflection waits for somebody to accept or reject the edits (eunoe memory review).\n"
    assert waits in ada.done("memory", "status", "Ada")
    unknown = ada.run("memory", "review", "Ada", "xyz")
    assert (unknown.exit_code, "'xyz'; --all lists them" in unknown.stderr) == (2, True)
    waiting = json.loads(ada.done("memory", "review", "Ada", "--json"))
    assert "+Likes tea." in ada.done("memory", "review", "Ada", waiting[0]["id"])
    assert ada.run("memory", "review", "Ada", "--accept", "--reject").exit_code == 2
    assert ada.done("memory", "review", "Ada", "--accept").startswith("merged: Its edits are memory since ")
    assert ada.done("blocks", "show", "Ada", "system/human") == "Likes tea.\n"
    assert json.loads(ada.done("memory", "review", "Ada", "--json")) == []
    assert waits not in ada.done("memory", "status", "Ada")
    assert "merged" in ada.done("memory", "review", "Ada", "--all")
    assert "No reflection waits." in ada.run("memory", "review", "Ada", "--reject").stderr


def test_g14_the_exit_code_of_a_failed_reflection_is_no_success(ada: Cli) -> None:
    ada.done("run", "Ada", "-p", "SAY:Noted.")
    result = ada.run("memory", "reflect", "Ada", "--instructions", "ERROR:400")
    assert (result.exit_code, result.stdout[:7]) == (1, "failed:")
    nothing = ada.run("memory", "reflect", "Ada", "--instructions", "SAY:No.")
    assert (nothing.exit_code, nothing.stdout) == (0, "nothing to do: It left the files as they were.\n")


def test_rejected_edits_are_gone(ada: Cli) -> None:
    ada.done("run", "Ada", "-p", "SAY:Noted.")
    ada.done("memory", "reflect", "Ada", "--policy", "review", "--instructions", TEA)
    assert ada.done("memory", "review", "Ada", "--reject") == "rejected: A person rejected its edits.\n"
    assert ada.done("blocks", "show", "Ada", "system/human") == "Likes maps.\n"


def test_when_an_agent_is_reflected_for_by_itself(ada: Cli) -> None:
    asked = "Reflects only when somebody asks.\n"
    assert ada.done("memory", "reflect-when", "Ada") == asked
    told = ada.done("memory", "reflect-when", "Ada", "--steps", "25", "--compaction", "--policy", "review")
    assert told == "Reflects after 25 steps and after a compaction, policy review.\n"
    assert json.loads(ada.done("memory", "reflect-when", "Ada", "--json"))["every_steps"] == 25
    assert ada.run("memory", "reflect-when", "Ada", "--never", "--steps", "2").exit_code == 2
    assert ada.run("memory", "reflect-when", "Ada", "--policy", "review").exit_code == 2
    assert ada.done("memory", "reflect-when", "Ada", "--never") == asked
    assert ada.done("memory", "reflect-when", "Ada", "--never") == asked
