"""What an agent is shown of its memory files, and that no path leads out of them."""

from pathlib import Path

import pytest
from repository_rig import git, make, write

from eunoe.memory.file_views import MOST_FOUND, MemoryView, path_in_memory
from eunoe.memory.pages import PAGE
from eunoe.memory.repository import MemoryRepository
from eunoe.state.errors import InvalidInput, NotFound

FILES = {
    "system/human.md": b"---\ndescription: Who is asking.\n---\nLikes maps.\n",
    "notes/MEMORY.md": b"All my notes.\n",
    "notes/ideas.md": b"---\ndescription: Ideas for May.\n---\nA map of Lisbon.\nTea.\n",
    "notes/deep/one.md": b"one\n",
    "picture.png": b"\x89PNG\xff",
}


@pytest.fixture
def repository(tmp_path: Path) -> MemoryRepository:
    return make(tmp_path, FILES)


@pytest.fixture
def view(repository: MemoryRepository) -> MemoryView:
    return MemoryView(repository, repository.head() or "")


def test_a_file_is_opened_by_path_by_label_and_by_the_name_of_the_root(view: MemoryView):
    body = "A map of Lisbon.\nTea.\n"
    for named in ("notes/ideas.md", "notes/ideas", "$MEMORY_DIR/notes/ideas.md", "${MEMORY_DIR}/notes/ideas.md"):
        assert view.open(named) == body
    assert view.open("human") == "Likes maps.\n"


def test_a_folder_is_its_index_and_its_entries_with_descriptions(view: MemoryView):
    assert view.open("notes/") == (
        "All my notes.\n\n\nIn notes:\n- notes/deep/ (1 file)\n- notes/ideas.md: Ideas for May."
    )
    assert view.open("") == ("In the root of memory:\n- notes/ (3 files)\n- system/ (1 file)\n- picture.png")


@pytest.mark.parametrize(
    "path", ["../secret", "notes/../../secret", "/etc/passwd", "~/x", "notes/./ideas.md", "a\\b", ".git/config", "/"]
)
def test_a_path_that_leads_out_is_refused(view: MemoryView, path: str):
    for look in (view.open, view.list, view.history):
        with pytest.raises(InvalidInput):
            look(path)


def test_a_symbolic_link_in_a_commit_is_never_followed(tmp_path: Path):
    (tmp_path / "secret").write_text("hidden", "utf-8")
    repository = make(tmp_path, FILES)
    (repository.path / "out.md").symlink_to(tmp_path / "secret")
    git(repository.path, "add", "-A")
    git(repository.path, "-c", "core.hooksPath=/dev/null", "commit", "-q", "-m", "Link")
    view = MemoryView(repository, repository.head() or "")
    with pytest.raises(InvalidInput, match=r"'out\.md' is no plain file"):
        view.open("out.md")
    assert view.search("hidden") == "Nothing in memory holds 'hidden'."


def test_what_is_not_there_and_what_is_no_text_is_told(view: MemoryView):
    with pytest.raises(NotFound, match="memory_list"):
        view.open("notes/nothing.md")
    with pytest.raises(InvalidInput, match=r"'picture\.png' is no text; it has 5 bytes"):
        view.open("picture.png")


def test_a_long_file_is_read_page_by_page(repository: MemoryRepository):
    text = "".join(f"line {number}\n" for number in range(6_000))
    view = MemoryView(repository, write(repository, {"notes/long.md": text.encode()}))
    read, offset = "", 0
    while offset < len(text):
        page, _, note = view.open("notes/long.md", offset).rpartition("\n[")
        assert len(page) <= PAGE
        read, offset = read + page, offset + len(page)
        assert note == (
            f"Characters {offset - len(page)} to {offset} of {len(text)}; "
            + (f"read on with offset {offset}.]" if offset < len(text) else "this is the end.]")
        )
    assert read == text
    with pytest.raises(InvalidInput, match=f"has {len(text)} characters"):
        view.open("notes/long.md", len(text))


def test_a_search_finds_lines_and_paths_whatever_the_case_and_is_bounded(repository: MemoryRepository):
    view = MemoryView(repository, repository.head() or "")
    assert view.search("LISBON") == "notes/ideas.md:4: A map of Lisbon."
    assert view.search("deep/") == "notes/deep/one.md"
    many = {f"many/{number:03}.md": b"a needle\n" for number in range(MOST_FOUND + 9)}
    lines = MemoryView(repository, write(repository, many)).search("needle").split("\n")
    assert (len(lines), lines[-1]) == (MOST_FOUND + 1, "[More than 50 places; look for a longer text.]")
    large = MemoryView(repository, write(repository, {"large.md": b"needle\n" * 200_000}))
    assert large.search("needle").endswith("[1 large files were not looked into.]")


def test_the_history_of_a_path_is_told_also_when_it_is_gone(repository: MemoryRepository):
    gone = write(repository, {"notes/ideas.md": None})
    told = MemoryView(repository, gone).history("notes/ideas.md").split("\n")
    assert [line.split(" ", 3)[0] for line in told] == [gone[:10], (repository.head() or "")[:10]]
    assert told[0].endswith("Mnemosyne: Change")
    with pytest.raises(NotFound, match="No commit changed 'nothing'"):
        MemoryView(repository, gone).history("nothing")


def test_the_root_is_named_in_several_ways():
    assert [path_in_memory(named) for named in ("", ".", "$MEMORY_DIR", "${MEMORY_DIR}/")] == ["", "", "", ""]
