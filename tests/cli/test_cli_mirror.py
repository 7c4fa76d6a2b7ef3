"""`eunoe memory mirror`, and what status and doctor say of mirrors."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest
from cli_rig import Cli

pytestmark = pytest.mark.slow


def with_files(cli: Cli) -> None:
    """Create Ada, whose memory is files."""
    cli.done("agents", "create", "--name", "Ada", "--model", "scripted/demo", "--human", "Likes maps.")
    assert cli.run("memory", "convert", "Ada", "--to", "git").exit_code == 0


def bare(folder: Path) -> Path:
    subprocess.run(["git", "init", "-q", "--bare", "-b", "main", str(folder)], check=True, timeout=60)
    return folder


def test_mirror_follows_commands_and_tells_when_it_cannot(cli: Cli, tmp_path: Path) -> None:
    with_files(cli)
    missing = cli.run("memory", "mirror", "push", "Ada")
    assert missing.exit_code == 2
    assert "has no mirror, so it is on this machine only" in missing.output
    remote = bare(tmp_path / "mirror.git")
    assert f"The mirror {remote} has everything" in cli.done("memory", "mirror", "set", "Ada", str(remote))
    assert f"The mirror {remote} has everything" in cli.done("memory", "status", "Ada")
    cli.done("blocks", "set", "Ada", "system/human", "Likes tea.")  # pushed when the command ends
    shown = subprocess.run(
        ["git", "-C", str(remote), "show", "main:system/human.md"], capture_output=True, text=True, check=True
    )
    assert "Likes tea." in shown.stdout
    shutil.rmtree(remote)
    failed = cli.run("memory", "mirror", "push", "Ada")
    assert failed.exit_code == 1
    assert "is no git repository" in failed.output
    assert "is no git repository" in cli.done("memory", "status", "Ada")
    doctor = cli.run("doctor").output
    assert f"The mirror {remote} is no git repository" in doctor
    assert json.loads(cli.done("memory", "mirror", "show", "Ada", "--json"))["state"] == "needs a person"
    cli.done("memory", "mirror", "remove", "Ada")
    assert "The mirror" not in cli.done("memory", "status", "Ada")


def test_relative_path_is_from_the_working_folder_and_passwords_are_refused(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_files(cli)
    remote = bare(tmp_path / "backup.git")
    monkeypatch.chdir(tmp_path)
    assert f"The mirror {remote} has everything" in cli.done("memory", "mirror", "set", "Ada", "backup.git")
    refused = cli.run("memory", "mirror", "set", "Ada", "https://ada:s3cr3t@example.org/x.git")
    assert refused.exit_code == 2
    assert "s3cr3t" not in refused.output
    assert json.loads(cli.done("memory", "mirror", "show", "Ada", "--json"))["url"] == str(remote)


def test_doctor_tells_of_a_mirror_that_cannot_be_reached(cli: Cli) -> None:
    with_files(cli)
    failed = cli.run("memory", "mirror", "set", "Ada", "http://127.0.0.1:1/x.git")
    assert failed.exit_code == 1
    assert "cannot be reached now; Eunoe tries again by itself" in failed.output
    assert "Everything is committed." in cli.done("memory", "status", "Ada")
    assert "cannot be reached now" in cli.run("doctor").output
