"""Failures of a push are told apart by what git says: those that pass, and those that wait for a person."""

import pytest

from eunoe.memory.mirror_answer import read_answer
from eunoe.state.mirrors import FOR_A_PERSON, MirrorFault

MAIN = "refs/heads/main:refs/heads/main"
TAG = "refs/tags/v1:refs/tags/v1"
REPOSITORY = (
    "fatal: Could not read from remote repository.\n\n"
    "Please make sure you have the correct access rights\nand the repository exists.\n"
)

FATAL: list[tuple[MirrorFault, str]] = [
    ("unreachable", "fatal: unable to access 'https://x/': Could not resolve host: x"),
    (
        "unreachable",
        "fatal: unable to access 'http://x/': Failed to connect to x port 1 after 0 ms: Connection refused",
    ),
    ("unreachable", "fatal: unable to access 'https://x/': The requested URL returned error: 503"),
    ("unreachable", "error: RPC failed; HTTP 502 curl 22 The requested URL returned error: 502\nfatal: early EOF"),
    ("unreachable", "fatal: unable to access 'https://x/': Operation too slow. Less than 100 bytes/sec"),
    ("unreachable", f"ssh: connect to host x port 22: Connection timed out\n{REPOSITORY}"),
    ("unreachable", f"ssh: Could not resolve hostname x: Name or service not known\n{REPOSITORY}"),
    ("unreachable", f"kex_exchange_identification: Connection closed by remote host\n{REPOSITORY}"),
    ("unreachable", "error: RPC failed; HTTP 429 curl 22 The requested URL returned error: 429"),
    ("rejected", "error: RPC failed; HTTP 413 curl 22 The requested URL returned error: 413\nfatal: early EOF"),
    ("access", "error: RPC failed; HTTP 403 curl 22 The requested URL returned error: 403"),
    ("access", f"Received disconnect from x: 2: Too many authentication failures\n{REPOSITORY}"),
    ("missing", "fatal: unable to access 'https://x/': The requested URL returned error: 410"),
    ("access", "fatal: Authentication failed for 'https://x/'"),
    ("access", "fatal: could not read Username for 'https://x': terminal prompts disabled"),
    (
        "access",
        "remote: Permission to a/b denied to c.\nfatal: unable to access 'x': The requested URL returned error: 403",
    ),
    ("access", f"git@x: Permission denied (publickey).\n{REPOSITORY}"),
    ("access", f"Host key verification failed.\n{REPOSITORY}"),
    ("access", "fatal: unable to access 'https://x/': SSL certificate problem: self-signed certificate"),
    ("access", "fatal: detected dubious ownership in repository at '/srv/x'"),
    ("missing", f"fatal: '/srv/x.git' does not appear to be a git repository\n{REPOSITORY}"),
    ("missing", "remote: Not Found\nfatal: repository 'https://x/y/' not found"),
    ("missing", f"ERROR: Repository not found.\n{REPOSITORY}"),
    ("unknown", "fatal: the moon is full"),
]


@pytest.mark.parametrize(("fault", "said"), FATAL)
def test_push_that_came_to_nothing(fault: MirrorFault, said: str):
    outcome = read_answer(128, "", said)
    assert (outcome.fault, outcome.main_taken) == (fault, False)
    assert "make sure" not in outcome.detail
    assert "repository exists" not in outcome.detail


@pytest.mark.parametrize(
    ("fault", "line"),
    [
        ("diverged", f"!\t{MAIN}\t[rejected] (fetch first)"),
        ("diverged", f"!\t{MAIN}\t[rejected] (non-fast-forward)"),
        ("rejected", f"!\t{MAIN}\t[remote rejected] (pre-receive hook declined)"),
        ("rejected", f"!\t{MAIN}\t[remote rejected] (branch is currently checked out)"),
        ("unreachable", f"!\t{MAIN}\t[remote rejected] (cannot lock ref 'refs/heads/main': File exists)"),
    ],
)
def test_reference_that_is_refused(fault: MirrorFault, line: str):
    outcome = read_answer(1, f"To x\n{line}\nDone\n", "remote: no\nerror: failed to push some refs\nhint: try\n")
    assert (outcome.fault, outcome.main_taken) == (fault, False)
    assert "remote: no" in outcome.detail
    assert "hint" not in outcome.detail


def test_main_is_taken_although_a_tag_is_not():
    outcome = read_answer(1, f"To x\n \t{MAIN}\t1..2\n!\t{TAG}\t[rejected] (already exists)\n", "")
    assert (outcome.fault, outcome.main_taken) == ("diverged", True)


@pytest.mark.parametrize("mark", [" ", "*", "="])
def test_push_that_went_well(mark: str):
    outcome = read_answer(0, f"To x\n{mark}\t{MAIN}\t[new branch]\nDone\n", "remote: welcome\n")
    assert (outcome.fault, outcome.main_taken, outcome.detail) == (None, True, "")


def test_long_answer_of_a_remote_is_cut_and_made_printable():
    outcome = read_answer(1, f"!\t{MAIN}\t[remote rejected] (hook declined)", "remote: \x1b[31mno\x07 " + "x" * 5_000)
    assert outcome.detail.isprintable()
    assert len(outcome.detail) == 500


def test_what_passes_by_itself_waits_for_nobody():
    assert not FOR_A_PERSON & {"unreachable", "timeout", "unknown"}
