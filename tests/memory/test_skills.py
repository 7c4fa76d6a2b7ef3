"""Skills: what their files say, where they are looked for, and what is taken from a source."""

import os
import socket
import subprocess
from pathlib import Path

import pytest
from repository_rig import git_environment

from eunoe.memory.skill_folders import files_of, read_file_of, skills_in
from eunoe.memory.skill_sources import MOST_FILES, check_address, checked_files, clone, skill_from
from eunoe.memory.skills import FoundSkill, Skills, discover, loaded, merged, read_skill
from eunoe.state.errors import InvalidInput, NotFound

PDF = (
    b"---\nname: PDF\ndescription: Work with PDF files.\nwhen_to_use: a file ends in .pdf\n---\n"
    b"Run <SKILL_DIR>/go.py.\n"
)


def put(folder: Path, path: str, data: bytes = PDF) -> Path:
    place = folder / path
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_bytes(data)
    return place


def names(found: Skills) -> list[str]:
    return [skill.name for skill in found.skills]


def test_the_description_is_the_file_s_with_when_to_use_it():
    text = read_skill(PDF, "pdf/SKILL.md")
    assert (text.title, text.description) == ("PDF", "Work with PDF files.\n\nWhen to use: a file ends in .pdf")
    assert (text.body, text.disabled, text.user_invocable) == ("Run <SKILL_DIR>/go.py.", False, True)


def test_without_a_description_the_first_paragraph_describes_it():
    assert read_skill(b"# Title\n\nTurns words\ninto maps.\n\nMore.\n", "x").description == "Turns words into maps."


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"\xff\xfe", "UTF-16"),
        (b"---\ndescription: [\n---\n", "front matter"),
        (b"---\ndisable-model-invocation: maybe\n---\n", "must be true or false"),
        (b"x" * (1024 * 1024 + 1), "1048577 bytes"),
    ],
)
def test_what_cannot_be_read_is_told_with_the_reason(data: bytes, reason: str):
    found = discover(
        ["bad/SKILL.md", "good/SKILL.md"], {"bad/SKILL.md": data, "good/SKILL.md": PDF}.__getitem__, "agent", "r"
    )
    assert names(found) == ["good"]
    assert [(one.name, one.path) for one in found.unread] == [("bad", "r/bad/SKILL.md")]
    assert reason in found.unread[0].reason


def test_the_narrower_place_wins(tmp_path: Path):
    for place in ("global", "project"):
        put(tmp_path / place, "pdf/SKILL.md", f"{place} text\n".encode())
    put(tmp_path / "global", "office/word/skill.md")
    found = merged((skills_in(tmp_path / "project", "project"), skills_in(tmp_path / "global", "global")))
    assert [(one.name, one.source) for one in found.skills] == [("office/word", "global"), ("pdf", "project")]


def test_loading_names_the_folder_and_its_files(tmp_path: Path):
    put(tmp_path, "pdf/SKILL.md")
    put(tmp_path, "pdf/lib/go.py", b"print()\n")
    (skill,) = skills_in(tmp_path, "global").skills
    assert files_of(skill) == ("lib/go.py",)
    assert loaded(skill, files_of(skill)) == (
        f"# Skill Directory: {tmp_path}/pdf\n- lib/go.py\n\nRun {tmp_path}/pdf/go.py."
    )
    assert read_file_of(skill, "lib/go.py") == b"print()\n"


def test_a_skill_for_people_is_refused_to_the_model(tmp_path: Path):
    put(tmp_path, "x/SKILL.md", b"---\ndisable-model-invocation: true\n---\nSecret ways.\n")
    (skill,) = skills_in(tmp_path, "global").skills
    with pytest.raises(InvalidInput, match="people only"):
        loaded(skill, ())


def test_files_out_of_a_skill_s_folder_are_refused(tmp_path: Path):
    secret = put(tmp_path, "secret", b"hidden")
    put(tmp_path / "root", "pdf/SKILL.md")
    (tmp_path / "root/pdf/link").symlink_to(secret)
    (tmp_path / "root/pdf/folder").symlink_to(tmp_path)
    (skill,) = skills_in(tmp_path / "root", "global").skills
    for path in ("../../secret", "link", "folder/secret", str(secret)):
        with pytest.raises(InvalidInput, match="leads out of"):
            read_file_of(skill, path)
    with pytest.raises(NotFound):
        read_file_of(skill, "nothing")


def test_links_between_folders_are_followed_once_and_a_project_s_not_out_of_it(tmp_path: Path):
    put(tmp_path / "elsewhere", "pdf/SKILL.md")
    root = tmp_path / "work/.agents/skills"
    put(root, "own/SKILL.md")
    (root / "linked").symlink_to(tmp_path / "elsewhere")
    (root / "round").symlink_to(root)
    assert names(skills_in(root, "global")) == ["linked/pdf", "own"]
    assert names(skills_in(root, "project", within=tmp_path / "work")) == ["own"]


def test_a_file_linked_out_of_a_project_is_told_and_not_read(tmp_path: Path):
    secret = put(tmp_path, "secret", b"hidden words")
    root = tmp_path / "work/skills"
    (root / "sly").mkdir(parents=True)
    (root / "sly/SKILL.md").symlink_to(secret)
    found = skills_in(root, "project", within=tmp_path / "work")
    assert names(found) == []
    assert [one.name for one in found.unread] == ["sly"]
    assert "hidden" not in found.unread[0].reason


def test_a_skill_file_that_is_no_plain_file_is_told_and_not_waited_for(tmp_path: Path):
    (tmp_path / "pipe").mkdir()
    os.mkfifo(tmp_path / "pipe/SKILL.md")
    found = skills_in(tmp_path, "global")
    assert [(one.name, one.reason) for one in found.unread] == [("pipe", f"{tmp_path}/pipe/SKILL.md is no plain file")]


def test_links_that_lead_nowhere_or_round_are_told(tmp_path: Path):
    put(tmp_path, "good/SKILL.md")
    for name, target in (("gone", "nowhere"), ("round", "SKILL.md")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "SKILL.md").symlink_to(target)
    (tmp_path / "circle").symlink_to("circle")
    found = skills_in(tmp_path, "global")
    assert names(found) == ["good"]
    assert [(one.name, one.reason.rpartition(": ")[2]) for one in found.unread] == [
        ("gone", "it is a link that leads nowhere, or it went while skills were looked for"),
        ("round", "Too many levels of symbolic links"),
    ]


def test_names_that_are_no_utf_8_are_told_and_can_be_sent(tmp_path: Path):
    put(tmp_path, "good/SKILL.md")
    for path in (b"caf\xe9/SKILL.md", b"good/f\xfcr.txt"):
        put(tmp_path, os.fsdecode(path))
    found = skills_in(tmp_path, "global")
    assert [(one.name, one.reason) for one in found.unread] == [
        ("caf\ufffd", "its folder has a name that is no UTF-8; rename it")
    ]
    (skill,) = found.skills
    assert files_of(skill) == ("f\ufffdr.txt",)
    below = skills_in(tmp_path / os.fsdecode(b"caf\xe9"), "global").unread + found.unread
    assert all(one.path.encode() for one in below)


@pytest.mark.parametrize("path", ["a\0b", "half\ud83d", "x" * 300 + "/" + "y" * 5000])
def test_a_name_that_no_file_can_have_names_no_file(tmp_path: Path, path: str):
    put(tmp_path, "pdf/SKILL.md")
    (skill,) = skills_in(tmp_path, "global").skills
    with pytest.raises((NotFound, InvalidInput)):
        read_file_of(skill, path)


def test_a_look_that_goes_through_too_much_says_so(tmp_path: Path):
    put(tmp_path, "pdf/SKILL.md")
    for number in range(10):
        put(tmp_path, f"heap/{number}")
    found = skills_in(tmp_path, "global", most=10)
    assert [(one.path, one.reason) for one in found.unread] == [
        (str(tmp_path), "it holds more than 10 files, and no more are looked at")
    ]


def test_the_one_skill_of_a_source_is_taken_whole(tmp_path: Path):
    put(tmp_path, "repo/tools/pdf/SKILL.md")
    put(tmp_path, "repo/tools/pdf/lib/go.py", b"x")
    put(tmp_path, "repo/.git/config", b"x")
    skill = skill_from(tmp_path / "repo")
    assert (skill.name, sorted(skill.files)) == ("pdf", ["SKILL.md", "lib/go.py"])
    assert skill_from(tmp_path / "repo/tools/pdf", name="paper").name == "paper"


def test_several_skills_need_a_path_and_none_is_told(tmp_path: Path):
    put(tmp_path, "a/SKILL.md")
    put(tmp_path, "b/SKILL.md")
    with pytest.raises(InvalidInput, match=r"2 skills: a, b\. Name the path"):
        skill_from(tmp_path)
    assert skill_from(tmp_path, below="b").name == "b"
    with pytest.raises(InvalidInput, match="leads out"):
        skill_from(tmp_path / "a", below="../b")
    (tmp_path / "empty").mkdir()
    with pytest.raises(InvalidInput, match="holds no skill"):
        skill_from(tmp_path / "empty")


def test_links_and_too_much_are_refused(tmp_path: Path):
    put(tmp_path, "a/SKILL.md")
    (tmp_path / "a/passwords").symlink_to("/etc/passwd")
    with pytest.raises(InvalidInput, match="'passwords' is a link"):
        skill_from(tmp_path / "a")
    with pytest.raises(InvalidInput, match="at most 500 files"):
        checked_files("x", {f"{number}": b"" for number in range(MOST_FILES + 1)})
    with pytest.raises(InvalidInput, match="10485760 bytes"):
        checked_files("x", {"SKILL.md": b"x" * (10 * 1024 * 1024 + 1)})
    for bad in ("../x", "/etc/x", ".git/hooks/x"):
        with pytest.raises(InvalidInput, match="The path"):
            checked_files("x", {"SKILL.md": b"", bad: b""})
    with pytest.raises(InvalidInput, match="is no name for a skill"):
        checked_files("../x", {"SKILL.md": b""})


@pytest.mark.parametrize(
    "address", ["http://example.org/x", "ext::sh -c id", "ext://x", "git://example.org/x", "-u://x", "--upload-pack=x"]
)
def test_other_addresses_are_refused(address: str):
    with pytest.raises(InvalidInput, match="comes from a repository at"):
        check_address(address)


@pytest.mark.parametrize(
    "address", ["https://[::1/x", "https://h/a\0b", "https://h/half\ud83d", "https://h/\nx", "https://h\u2100.org/x"]
)
def test_addresses_that_are_none_are_told(address: str):
    with pytest.raises(InvalidInput, match="The address of the skill"):
        check_address(address)


def test_a_password_in_an_address_is_refused_and_not_repeated():
    for address in ("https://ada:hunter2@example.org/x", "https://hunter2@example.org/x"):
        with pytest.raises(InvalidInput) as raised:
            check_address(address)
        assert "hunter2" not in raised.value.message


def commit_all(source: Path) -> None:
    """Make a folder a repository with one commit."""
    commands = (
        ["init", "-q", "-b", "main"],
        ["add", "-A"],
        ["-c", "user.name=Ada", "-c", "user.email=a@example.org", "commit", "-q", "-m", "One"],
    )
    for words in commands:
        subprocess.run(["git", "-C", str(source), *words], check=True, env=git_environment(source.parent), timeout=60)


@pytest.mark.anyio
async def test_a_repository_is_fetched_and_nothing_of_it_runs(tmp_path: Path):
    source = tmp_path / "skills.git"
    put(source, "pdf/SKILL.md")
    put(source, ".gitattributes", b"* filter=sly\n")
    commit_all(source)
    put(source, ".git/hooks/post-checkout", b"#!/bin/sh\ntouch ran\n").chmod(0o755)
    await clone(f"file://{source}", tmp_path / "target")
    assert skill_from(tmp_path / "target").files["SKILL.md"] == PDF
    assert not any("ran" in names for _, _, names in os.walk(tmp_path))
    with pytest.raises(InvalidInput, match="cannot be fetched; git says"):
        await clone(f"file://{tmp_path}/nothing", tmp_path / "other")
    with pytest.raises(InvalidInput, match="no branch or tag"):
        await clone(f"file://{source}", tmp_path / "third", "--upload-pack=id")
    with pytest.raises(InvalidInput, match="no branch or tag"):
        await clone(f"file://{source}", tmp_path / "fourth", "ma\0in")


@pytest.mark.anyio
async def test_a_small_pack_of_huge_files_is_not_unpacked(tmp_path: Path):
    source = tmp_path / "bomb"
    put(source, "SKILL.md")
    put(source, "zeros", bytes(1_000_000))
    commit_all(source)
    with pytest.raises(InvalidInput, match=f"has {1_000_000 + len(PDF)} bytes of files; at most 500000 are taken"):
        await clone(f"file://{source}", tmp_path / "target", largest=500_000)
    assert not (tmp_path / "target/zeros").exists()


@pytest.mark.anyio
async def test_a_large_pack_is_not_fetched_to_its_end(tmp_path: Path):
    source = tmp_path / "heavy"
    put(source, "SKILL.md")
    put(source, "noise", os.urandom(1_000_000))
    commit_all(source)
    with pytest.raises(InvalidInput, match="has too many bytes to fetch, or is damaged; at most 500000 are taken"):
        await clone(f"file://{source}", tmp_path / "target", largest=500_000)


@pytest.mark.anyio
async def test_a_skill_with_a_submodule_is_refused_and_one_beside_it_is_not(tmp_path: Path):
    source = tmp_path / "skills"
    put(source, "pdf/SKILL.md")
    put(source, "mail/SKILL.md")
    put(source, "mail/inner/file")
    commit_all(source / "mail/inner")
    commit_all(source)
    submodules = await clone(f"file://{source}", tmp_path / "target")
    assert submodules == ("mail/inner",)
    assert skill_from(tmp_path / "target", below="pdf", without=submodules).name == "pdf"
    with pytest.raises(InvalidInput, match="'mail/inner' is a submodule"):
        skill_from(tmp_path / "target", below="mail", without=submodules)


@pytest.mark.anyio
async def test_a_server_that_says_nothing_is_left_in_time_with_all_that_git_started(tmp_path: Path):
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(30)
        with pytest.raises(InvalidInput, match=r"not fetched within 0\.5 seconds"):
            await clone(f"https://127.0.0.1:{server.getsockname()[1]}/x.git", tmp_path / "target", seconds=0.5)
        connection, _ = server.accept()
        with connection:
            connection.settimeout(10)
            while connection.recv(65_536):
                pass  # it ends when whoever fetched is gone


@pytest.mark.parametrize("source", ["~nobody-of-this-name/x", "round", "round/x", "half\ud83d"])
def test_a_source_that_is_no_folder_is_told(tmp_path: Path, source: str):
    (tmp_path / "round").symlink_to("round")
    folder = Path(source) if source.startswith("~") else tmp_path / source
    with pytest.raises(InvalidInput):
        skill_from(folder)


def test_the_file_of_a_skill_may_be_written_small(tmp_path: Path):
    put(tmp_path, "pdf/skill.md")
    put(tmp_path, "pdf/inner/x", b"x")
    assert set(skill_from(tmp_path / "pdf").files) == {"SKILL.md", "inner/x"}


def test_two_files_of_one_skill_are_told():
    found = discover(["x/SKILL.md", "x/skill.md"], lambda _: PDF, "agent", "r")
    assert names(found) == ["x"]
    assert found.unread[0].reason == "r/x/SKILL.md is there already"
    assert isinstance(found.skills[0], FoundSkill)
