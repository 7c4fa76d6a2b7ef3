"""One verdict on a commit: the hook of the working tree, a push, and the compile say the same of a file (I9)."""

import json
import os
import subprocess
import sys
import unicodedata
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

import pytest
from files_house import HEADER, FilesHouse, git
from runtime_rig import send

from eunoe.embedded import Home
from eunoe.memory.constraints import CONFIG
from eunoe.memory.hook import APPROVED
from eunoe.memory.push_hook import push_hooks
from eunoe.state.errors import InvalidInput

pytestmark = [pytest.mark.slow, pytest.mark.anyio]

TEXT: Final = f"{HEADER}Some text.\n".encode()
MARKS: Final = f"{HEADER}<<<<<<< a\nx\n=======\ny\n>>>>>>> b\n".encode()
NFC: Final = unicodedata.normalize("NFC", "system/café.md")
NFD: Final = unicodedata.normalize("NFD", "system/café.md")
_NO_BYTES: Final = b""
_FILE, _LINK, _SUBMODULE = "100644", "120000", "160000"

Files = Mapping[str, tuple[str, bytes]]
"""Modes and bytes by path; a byte that is no text stands in a path as Python has it (``surrogateescape``)."""

GOOD: Final[dict[str, Files]] = {
    "spaces": {"system/two  words here.md": (_FILE, TEXT)},
    "quotes": {"system/\"double\" 'single' `back`.md": (_FILE, TEXT)},
    "composed": {NFC: (_FILE, TEXT)},
    "decomposed": {NFD: (_FILE, TEXT)},
    "other scripts": {"system/記憶 🗺️ ذاكرة.md": (_FILE, TEXT)},
    "signs of the shell": {"system/$(touch x); -n *?[a].md": (_FILE, TEXT)},
    "large outside the prompt": {"notes/large.bin": (_FILE, b"\xff" * 5_000_000)},
}
BAD: Final[dict[str, tuple[Files, str]]] = {
    "line end in a name": ({"system/two\nlines.md": (_FILE, TEXT)}, "path"),
    "tab in a name": ({"notes/a\tb.bin": (_FILE, TEXT)}, "path"),
    "name that is no text": ({"system/\udcff.md": (_FILE, TEXT)}, "path"),
    "both forms of a name": ({NFC: (_FILE, TEXT), NFD: (_FILE, TEXT)}, "clash"),
    "upper and lower case": ({"system/Tea time.md": (_FILE, TEXT), "system/tea time.md": (_FILE, TEXT)}, "clash"),
    "conflict": ({"system/bad.md": (_FILE, MARKS)}, "conflict"),
    "conflict outside the prompt": ({"notes/bad.md": (_FILE, MARKS)}, "conflict"),
    "5 MB": ({"system/bad.md": (_FILE, HEADER.encode() + b"x" * 5 * 1024 * 1024)}, "size"),
    "no text": ({"system/bad.md": (_FILE, HEADER.encode() + b"\xff\xfe")}, "encoding"),
    "no text outside the prompt": ({"notes/bad name é.md": (_FILE, b"\xff")}, "encoding"),
    "link": ({"system/bad.md": (_LINK, b"/etc/passwd")}, "mode"),
    "link that is no memory file": ({"notes/shortcut": (_LINK, b"../..")}, "mode"),
    "submodule": ({"system/bad": (_SUBMODULE, _NO_BYTES)}, "mode"),
    "over its limit": ({"system/bad.md": (_FILE, b"---\ndescription: x\nlimit: 3\n---\nlonger")}, "value"),
    "torn front matter": ({"system/bad.md": (_FILE, b"---\ndescription: [\n---\nx")}, "front matter"),
}


def _stage(folder: Path, files: Files) -> None:
    """Put files into the index alone: no file system has to take their names."""
    for path, (mode, data) in files.items():
        if mode == _SUBMODULE:
            object_id = git(folder, "rev-parse", "HEAD").strip()
        else:
            made = subprocess.run(
                ["git", "-C", str(folder), "hash-object", "-w", "--stdin"], input=data, capture_output=True, check=True
            )
            object_id = made.stdout.decode().strip()
        subprocess.run(
            ["git", "-C", str(folder), "update-index", "--add", "--cacheinfo", mode, object_id, path], check=True
        )


def _said(folder: Path, *words: str, **extra: str) -> str:
    """Run git as Nell and return what it told her, whether it did what she asked or not."""
    environment = {"PATH": os.environ["PATH"], "HOME": str(folder.parent), "LC_ALL": "C.UTF-8"}
    environment |= {"GIT_CONFIG_NOSYSTEM": "1", "MEMORY_PYTHON": sys.executable, **extra}
    who = ("-c", "user.name=Nell", "-c", "user.email=nell@example.org")
    done = subprocess.run(["git", "-C", str(folder), *who, *words], env=environment, capture_output=True, check=False)
    return done.stderr.decode("utf-8", "surrogateescape")


def _sentences(told: str, prefix: str) -> list[str]:
    return sorted(
        line.removeprefix(prefix).strip() for line in told.splitlines() if line.startswith(prefix) and "(rule: " in line
    )


async def _prepared(home: Home, beside: Path) -> tuple[FilesHouse, Callable[[str], str]]:
    house = await FilesHouse.build(home, beside)
    git(house.tree, "clone", "-q", str(house.tree), str(house.clone))
    hooks = push_hooks(home.runtime.homes.folder)
    pack = f"git -c receive.denyCurrentBranch=ignore -c core.hooksPath='{hooks}' receive-pack"
    return house, lambda branch: _said(house.clone, "push", "-q", f"--receive-pack={pack}", "origin", branch)


@pytest.mark.parametrize("case", BAD)
async def test_what_cannot_be_memory_is_refused_in_the_same_words_at_every_door(home: Home, tmp_path: Path, case: str):
    files, rule = BAD[case]
    house, push = await _prepared(home, tmp_path)
    _stage(house.clone, files)
    git(house.clone, "commit", "-qm", "bad")
    pushed = _sentences(push("main"), "remote: ")
    _stage(house.tree, files)
    committed = _sentences(_said(house.tree, "commit", "-qm", "bad"), "  ")
    assert git(house.tree, "rev-parse", "main").strip() == house.main
    git(house.tree, "commit", "-qm", "bad", "--no-verify")
    head = (await house.agent.memory.status()).head
    memory = (await house.agent.state()).memory
    assert memory is not None
    assert memory.unread is not None
    assert head == house.main
    assert pushed == committed == [memory.unread.reason]
    assert [f"(rule: {rule})" in sentence for sentence in pushed] == [True]
    assert await house.agent.ask("SAY:I go on.") == "I go on."
    assert "could not be read" in await house.agent.prompt()


@pytest.mark.parametrize("case", GOOD)
async def test_what_can_be_memory_is_taken_at_every_door(home: Home, tmp_path: Path, case: str):
    files = GOOD[case]
    house, push = await _prepared(home, tmp_path)
    _stage(house.clone, files)
    git(house.clone, "commit", "-qm", "pushed")
    assert push("main") == ""
    status = await house.agent.memory.status()
    assert (status.head, status.said) == (git(house.clone, "rev-parse", "main").strip(), ())
    for path, (_, data) in files.items():
        assert await house.agent.memory.read_bytes(path) == data
        if path.startswith("system/"):
            assert (await house.agent.block(path.removesuffix(".md"))).value == "Some text.\n"
    assert await house.agent.prompt() != ""
    await house.agent.memory.restore("HEAD~1")
    _stage(house.tree, files)
    assert _said(house.tree, "commit", "-qm", "by hand") == ""
    assert [file.path for file in (await house.agent.memory.files()).files if file.path in files] == sorted(files)


async def test_files_that_are_only_announced_are_not_judged(home: Home, tmp_path: Path):
    house = await FilesHouse.build(home, tmp_path)
    (house.tree / "system" / "later.md").write_bytes(b"\xff")
    git(house.tree, "add", "--intent-to-add", "system/later.md")
    (house.tree / "system" / "tea.md").write_bytes(TEXT)
    assert _said(house.tree, "commit", "-qm", "tea alone", "system/tea.md") == ""
    assert (await house.agent.block("system/tea")).value == "Some text.\n"


async def test_limits_of_the_repository_hold_at_every_door(home: Home, tmp_path: Path):
    house, push = await _prepared(home, tmp_path)
    named = "---\nname: x\ndescription: About x\n---\n"
    limits = json.dumps({"version": 1, "maxFileCharacters": 60, "readOnlyFiles": ["rules.md"]})
    files = {"MEMORY.md": "# Index\n", "rules.md": f"{named}Be kind.", "tea.md": f"{named}Green.", CONFIG: limits}
    git(house.clone, "rm", "-rq", "system")
    _stage(house.clone, {path: (_FILE, text.encode()) for path, text in files.items()})
    git(house.clone, "commit", "-qm", "the other layout")
    assert push("main") == ""
    await house.agent.update_block("tea", value="Black.")
    long = f"Has {len(named) + 50} characters; {CONFIG} allows 60."
    with pytest.raises(InvalidInput, match=long):
        await house.agent.update_block("tea", value="x" * 50)
    with pytest.raises(InvalidInput, match=long):
        await house.agent.memory.write("tea.md", named + "x" * 50)
    tool = 'TOOL:memory_replace {"label": "rules", "old_string": "kind", "new_string": "rude"}\nTHEN:\nSAY:Done.'
    told = await send(home, house.agent, tool)
    assert [(part.status, "read-only" in part.content) for part in told.returns] == [("error", True)]
    for path, text, said in (
        ("tea.md", named + "x" * 50, long),
        ("rules.md", f"{named}Be rude.", "read-only"),
        (CONFIG, "{}", "cannot be understood"),
    ):
        (house.tree / path).write_text(text)
        assert said in _said(house.tree, "commit", "-qam", "by hand")
        git(house.tree, "checkout", "-q", "HEAD", "--", path)
    (house.tree / "tea.md").write_text(named + "x" * 50)
    git(house.tree, "commit", "-qam", "round the hook", "--no-verify")
    assert long in (await house.agent.memory.status()).said[0]
    assert (await house.agent.block("tea")).value == "Black."
    git(house.tree, "revert", "--no-edit", "HEAD")
    assert (await house.agent.memory.status()).said == ()
    # An agent that commits may not raise a limit, unless a person lets it.
    (house.tree / CONFIG).write_text(limits.replace("60", "6000"))
    assert "Ask the user to change it." in _said(house.tree, "commit", "-qam", "more", EUNOE_ACTOR="agent")
    assert _said(house.tree, "commit", "-qam", "more", EUNOE_ACTOR="agent", **{APPROVED: "1"}) == ""
    await house.agent.update_block("tea", value="x" * 50)


async def test_an_empty_state_replaces_no_full_one_whoever_brings_it(home: Home, tmp_path: Path):
    house, push = await _prepared(home, tmp_path)
    said = "All 4 files of memory would be gone."
    for folder in (house.clone, house.tree):
        git(folder, "rm", "-rq", ".")
    git(house.clone, "commit", "-qm", "nothing")
    assert said in push("main")
    assert said in _said(house.tree, "commit", "-qm", "nothing")
    git(house.tree, "commit", "-qm", "nothing", "--no-verify")
    status = await house.agent.memory.status()
    assert said in status.said[0]
    assert len((await house.agent.state()).blocks) == 4
    # A correction is taken; and what is meant can be done one by one.
    git(house.tree, "revert", "--no-edit", "HEAD")
    for block in (await house.agent.state()).blocks:
        await house.agent.memory.delete(f"{block.label}.md")
    assert (await house.agent.state()).blocks == ()
    assert (await house.agent.memory.status()).said == ()
