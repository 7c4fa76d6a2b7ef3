"""Which addresses a mirror may have, and that none of them can carry a secret."""

import os
from pathlib import Path

import pytest

from eunoe.memory.mirror_address import absolute_address, check_mirror_address, local_folder, without_secrets
from eunoe.state.errors import InvalidInput

GOOD = [
    "https://example.org/ada/memory.git",
    "http://localhost:3000/memory.git",
    "ssh://git@example.org:2222/memory.git",
    "git@example.org:ada/memory.git",
    "example.org:memory.git",
    "file:///srv/git/memory with space.git",
    "/srv/git/memory.git",
]
BAD = [
    "",
    "memory.git",
    "../memory.git",
    "git://example.org/memory.git",
    "ext::sh -c id",
    "ftp://example.org/x",
    "-oProxyCommand=id",
    "ssh://-oProxyCommand=id/x",
    "-x@example.org:y",
    "https:///nowhere",
    "file://host/share",
    "/srv/a\nb",
    "/srv/" + "x" * 2_000,
]
SECRET = [
    "https://ada:s3cr3t@example.org/x.git",
    "https://s3cr3t@example.org/x.git",
    "http://:s3cr3t@example.org/x.git",
    "ssh://git:s3cr3t@example.org/x.git",
    "https://example.org/x.git?token=s3cr3t",
    "https://example.org/x.git#s3cr3t",
    "https://ada:s3cr3t@[bad/x.git",
    "https://ada:s3cr3t@example.org:port/x.git",
    "ftp://ada:s3cr3t@example.org/x.git",
    "ada:s3cr3t@example.org/x.git",
]


@pytest.mark.parametrize("address", GOOD)
def test_address_that_git_pushes_to_is_taken(address: str):
    check_mirror_address(address)


@pytest.mark.parametrize("address", BAD)
def test_other_address_is_refused(address: str):
    with pytest.raises(InvalidInput) as refused:
        check_mirror_address(address)
    assert refused.value.field == "url"


@pytest.mark.parametrize("address", SECRET)
def test_address_with_a_secret_is_refused_and_not_repeated(address: str):
    with pytest.raises(InvalidInput) as refused:
        check_mirror_address(address)
    assert "s3cr3t" not in f"{refused.value!r} {refused.value.details} {refused.value.__cause__!r}"


def test_relative_path_is_made_absolute_and_nothing_else_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    assert absolute_address("backup/ada.git") == str(tmp_path / "backup/ada.git")
    assert [absolute_address(one) for one in GOOD] == GOOD
    assert local_folder("file:///srv/x.git") == local_folder("/srv/x.git") == Path("/srv/x.git")
    assert local_folder("file:///srv/a%2Fb.git") == Path("/srv/a/b.git")
    assert local_folder("git@example.org:x") is None


def test_relative_path_from_a_folder_that_is_gone_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    with pytest.raises(InvalidInput, match="working folder is gone"):
        absolute_address("backup.git")
    os.chdir(tmp_path)


@pytest.mark.parametrize(
    "said",
    [
        "fatal: unable to access 'https://ada:s3cr3t@example.org/x/': refused",
        "fatal: unable to access 'https://s3cr3t@example.org/x/': refused",
        "fatal: unable to access 'https://ada:s/3cr3t@example.org/x/': refused",
    ],
)
def test_what_git_says_is_kept_without_names_and_passwords(said: str):
    assert without_secrets(said) == "fatal: unable to access 'https://example.org/x/': refused"
