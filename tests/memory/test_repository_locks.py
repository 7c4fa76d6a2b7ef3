"""Writers of one repository wait for each other and for git, and a crash leaves nothing that blocks the next one."""

import os
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest
from repository_rig import PERSONA, git, make, write

from eunoe.memory.locks import index_locked, until_free, writing
from eunoe.memory.repository import MemoryRepository
from eunoe.memory.repository_create import clear_unfinished
from eunoe.memory.working_tree import fast_forward_working_tree
from eunoe.state.errors import StoreLocked

WRITER = """
import sys
from datetime import UTC, datetime
from pathlib import Path
from eunoe.memory.git_library import Author
from eunoe.memory.locks import writing
from eunoe.memory.repository import MemoryRepository
from eunoe.memory.repository_create import clear_unfinished
from eunoe.memory.working_tree import fast_forward_working_tree
repository = MemoryRepository.open(Path(sys.argv[1]))
for number in range(int(sys.argv[3])):
    with writing(repository.git_folder, 60):
        head = repository.head()
        entry = repository.snapshot(head).entry("count.md")
        count = int(repository.read(entry.blob_id)) + 1
        changes = {"count.md": b"%d" % count, f"{sys.argv[2]}/{number}.md": b"x"}
        new = repository.write_commit(
            head, changes, author=Author("a", "b"), message="Count", when=datetime.now(UTC)
        )
        repository.move_head(head, new)
        fast_forward_working_tree(repository, head, new)
"""


MAKER = """
import sys
from datetime import UTC, datetime
from pathlib import Path
from eunoe.memory.repository_create import create_repository

class Halting(dict):
    def items(self):
        print("half", flush=True)
        sys.stdin.read()

create_repository(
    Path(sys.argv[1]), agent_id="a", agent_name="A", files=Halting(), message="x", when=datetime.now(UTC)
)
"""


def in_a_process(code: str, *arguments: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", code, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE)


def test_two_processes_write_and_no_update_is_lost(tmp_path: Path):
    repository = make(tmp_path, {"count.md": b"0"})
    writers = [in_a_process(WRITER, str(repository.path), name, "8") for name in ("one", "other")]
    assert [writer.communicate(timeout=90)[0] for writer in writers] == [b"", b""]
    assert [writer.returncode for writer in writers] == [0, 0]
    assert git(repository.path, "show", "main:count.md") == "16"
    assert (repository.path / "count.md").read_bytes() == b"16"
    assert git(repository.path, "rev-list", "--count", "main") == "17\n"
    assert git(repository.path, "status", "--porcelain") == ""
    assert git(repository.path, "fsck", "--strict") == ""


def test_G04_twenty_repositories_made_at_once_are_all_whole(tmp_path: Path):
    names = [f"agent-{number}" for number in range(20)]
    with ThreadPoolExecutor(8) as pool:
        repositories = list(pool.map(lambda name: make(tmp_path / "memory", name=name), names))
    assert sorted(path.name for path in (tmp_path / "memory").iterdir()) == sorted(names)
    for repository, name in zip(repositories, names, strict=True):
        assert repository.handle().config["eunoe.agentId"] == name
        assert repository.handle().status() == {}


def test_one_repository_made_by_many_at_once_is_made_by_one(tmp_path: Path):
    def attempt(_: int) -> bool:
        try:
            make(tmp_path)
        except Exception as error:
            if type(error).__name__ != "Conflict":
                raise
            return False
        return True

    with ThreadPoolExecutor(4) as pool:
        assert sum(pool.map(attempt, range(8))) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["agent-1"]


@pytest.mark.parametrize("name", ["index.lock", "refs/heads/main.lock"])
def test_lock_of_another_git_process_is_waited_for(tmp_path: Path, name: str):
    repository = make(tmp_path)
    lock = repository.git_folder / name
    lock.write_bytes(b"")
    head = repository.head()
    new = write(repository, {PERSONA: b"2"})
    waiting = threading.Event()

    def advance() -> None:
        waiting.set()
        repository.move_head(head, new)
        fast_forward_working_tree(repository, head, new)

    thread = threading.Thread(target=advance)
    thread.start()
    waiting.wait(10)
    thread.join(0.3)
    assert thread.is_alive()
    lock.unlink()
    thread.join(10)
    assert not thread.is_alive()
    assert (repository.path / PERSONA).read_bytes() == b"2"
    assert git(repository.path, "status", "--porcelain") == ""


def test_lock_that_stays_is_named_with_what_to_do(tmp_path: Path):
    repository = make(tmp_path)
    head = repository.head()
    new = write(repository, {PERSONA: b"2"})
    for name in ("refs/heads/main.lock", "index.lock"):
        lock = repository.git_folder / name
        lock.write_bytes(b"")
        act = repository.move_head if name.startswith("refs") else partial(fast_forward_working_tree, repository)
        with pytest.raises(StoreLocked, match=rf"{name}.*remove it"):
            act(head, new, seconds=0.05)
        lock.unlink()
    assert repository.head() == head
    assert (repository.path / PERSONA).read_bytes() == b"I remember.\n"


def test_writer_lock_is_bounded_and_names_the_repository(tmp_path: Path):
    repository = make(tmp_path)
    with (
        writing(repository.git_folder),
        pytest.raises(StoreLocked, match=str(repository.path)),
        writing(repository.git_folder, 0.05),
    ):
        pass
    with writing(repository.git_folder, 0):
        pass


def test_writer_lock_ends_with_its_process(tmp_path: Path):
    repository = make(tmp_path)
    code = (
        "import sys\nfrom pathlib import Path\nfrom eunoe.memory.locks import index_locked, writing\n"
        "with writing(Path(sys.argv[1])), index_locked(Path(sys.argv[1])):\n"
        "    print('held', flush=True)\n    sys.stdin.read()\n"
    )
    process = in_a_process(code, str(repository.git_folder))
    assert process.stdout is not None
    assert process.stdout.readline() == b"held\n"
    with pytest.raises(StoreLocked), writing(repository.git_folder, 0.05):
        pass
    os.kill(process.pid, signal.SIGKILL)
    process.communicate(timeout=10)
    # The killed one has left git's own lock file behind too, which would block every git command.
    assert (repository.git_folder / "index.lock").exists()
    with writing(repository.git_folder, 5), index_locked(repository.git_folder, 5):
        pass
    assert git(repository.path, "add", "-A") == ""


@pytest.mark.parametrize("written", [True, False])
def test_lock_left_in_the_middle_of_a_move_is_removed_by_the_next_move(tmp_path: Path, written: bool):
    repository = make(tmp_path)
    head = repository.head()
    new = write(repository, {PERSONA: b"2"})
    lock = repository.git_folder / "refs/heads/main.lock"
    # What a kill in the middle leaves: the note where it was going, and the lock file, which grows old.
    (repository.git_folder / "eunoe-advance-main").write_text(new)
    lock.write_text(f"{new}\n" if written else "")
    os.utime(lock, (0, 0))
    repository.move_head(head, new, seconds=1)
    assert repository.head() == new
    # Without that note, a lock file is another program's, however old it is.
    head, new = new, write(repository, {PERSONA: b"3"})
    lock.write_text("")
    os.utime(lock, (0, 0))
    with pytest.raises(StoreLocked):
        repository.move_head(head, new, seconds=0.05)
    assert lock.exists()


def test_index_lock_of_git_is_never_taken_away(tmp_path: Path):
    repository = make(tmp_path)
    lock = repository.git_folder / "index.lock"
    lock.write_bytes(b"")
    with pytest.raises(StoreLocked), index_locked(repository.git_folder, 0.05):
        pass
    assert lock.read_bytes() == b""


def test_waiting_ends_with_the_first_success():
    attempts: list[int] = []

    def third_time() -> str:
        attempts.append(1)
        if len(attempts) < 3:
            raise BlockingIOError
        return "done"

    assert until_free(third_time, "never told") == "done"
    assert len(attempts) == 3


@pytest.mark.slow
def test_writer_that_is_killed_anywhere_leaves_a_repository_that_goes_on(tmp_path: Path):
    repository = make(tmp_path, {"count.md": b"0"})
    for round_ in range(6):
        process = in_a_process(WRITER, str(repository.path), f"w{round_}", "100000")
        started = repository.head()
        thread = threading.Event()
        for _ in range(2_000):
            if repository.head() != started:
                break
            thread.wait(0.01)
        thread.wait(0.013 * round_)
        process.kill()
        process.communicate(timeout=10)
        again = MemoryRepository.open(repository.path)
        head = again.head()
        assert head != started
        new = write(again, {"after.md": b"%d" % round_})
        again.move_head(head, new)
        fast_forward_working_tree(again, head, new)
        assert git(repository.path, "fsck", "--strict", "--no-dangling") == ""
        assert (repository.path / "after.md").read_bytes() == b"%d" % round_


def test_what_was_left_of_a_repository_that_was_being_made_is_removed(tmp_path: Path):
    killed = in_a_process(MAKER, str(tmp_path / "agent-1"))
    assert killed.stdout is not None
    assert killed.stdout.readline() == b"half\n"
    (left,) = tmp_path.iterdir()
    os.utime(left, (0, 0))
    assert clear_unfinished(tmp_path) == (), "its maker lives"
    killed.kill()
    killed.communicate(timeout=10)
    young = tmp_path / f".agent-2-x{left.suffix}"
    young.mkdir()
    kept = make(tmp_path, name="agent-3")
    assert clear_unfinished(tmp_path) == (left,)
    assert {path.name for path in tmp_path.iterdir()} == {young.name, kept.path.name}
