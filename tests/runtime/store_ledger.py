"""The store as an auditor reads it: raw rows over a connection of its own, held to what must always be true.

Nothing here uses the runtime's own functions. ``Ledger.audit`` compares the rows with those of the audit before, so it
also sees what must never happen from one moment to the next.
"""

import hashlib
import json
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from msgspec import Struct

Row = dict[str, Any]

OF_THE_CLIENT = "The client found it."
"""What a client gives in place of a tool's return; then the tool did not run."""


class Edit(Struct, frozen=True):
    """An acknowledged edit of a block: by the API (``run_id`` is ``None``) the whole value, else a memory tool's."""

    label: str
    run_id: str | None
    value: str = ""
    name: str = ""
    arguments: dict[str, Any] = {}

    def gives(self, before: str, after: str) -> bool:
        """Say whether this edit leads from one value to the other."""
        if self.run_id is None:
            return after == self.value
        if self.name == "memory_insert":
            new = self.arguments["new_string"]
            return after == (f"{before}\n{new}" if before else new)
        old, new = self.arguments["old_string"], self.arguments["new_string"]
        return before.count(old) == 1 and after == before.replace(old, new)


class Books(Struct, frozen=True, kw_only=True):
    """The rows of one moment, as far as audits compare them."""

    conversations: dict[str, Row]
    messages: dict[str, Row]
    places: dict[tuple[str, int], str]
    runs: list[Row]
    steps: list[Row]
    approvals: list[Row]
    revisions: list[Row]
    blocks: dict[str, Row]
    own_blocks: dict[tuple[str, str], str]

    def history(self, conversation_id: str) -> list[Row]:
        """Return all messages of a conversation in order, each with its ``position``."""
        found = sorted((position, key) for (owner, position), key in self.places.items() if owner == conversation_id)
        return [{**self.messages[key], "position": position} for position, key in found]

    def alone_in(self, conversation_id: str) -> set[str]:
        """Return the ids of the messages that no other conversation has."""
        shared = {key for (owner, _), key in self.places.items() if owner != conversation_id}
        return {key for (owner, _), key in self.places.items() if owner == conversation_id} - shared

    def waiting(self, conversation_id: str) -> Row | None:
        """Return the question that a conversation waits for."""
        found = [
            one for one in self.approvals if one["conversation_id"] == conversation_id and one["answered_at"] is None
        ]
        assert len(found) <= 1
        return found[0] if found else None


class Ledger:
    """Audits of one store. ``gone`` and ``edits`` are told by who acts; what they do not explain is a violation."""

    def __init__(self, path: Path) -> None:
        # Read by the test and by the event loop's thread, never by both at once.
        self._connection = sqlite3.connect(f"file:{path}?mode=ro", uri=True, check_same_thread=False)
        self._connection.row_factory = sqlite3.Row
        self._unexplained: list[Edit] = []
        self.books = self.read()
        self._seen_revisions = {(one["block_id"], one["revision"]) for one in self.books.revisions}

    def close(self) -> None:
        self._connection.close()

    def version(self) -> int:
        """Return a number that changes when anyone else commits a change."""
        return self._connection.execute("PRAGMA data_version").fetchone()[0]

    def acknowledge(self, edit: Edit) -> None:
        """Take down an edit that the API said was made."""
        self._unexplained.append(edit)

    def audit(self, *, gone: Iterable[str] = (), moved: bool = False) -> Books:
        """Hold the rows to what must be true. ``gone``: messages that may be missing; ``moved``: a window may go back.

        Returns the books as they are now.
        """
        before, now = self.books, self.read()
        _check_runs(now)
        _check_log(before, now, set(gone))
        for conversation_id, conversation in now.conversations.items():
            _check_conversation(before, now, conversation_id, conversation, moved=moved)
        self._check_texts(now)
        self._check_edits(now, before)
        self.books = now
        return now

    def read(self) -> Books:
        """Return the rows as they are now."""
        self._connection.execute("BEGIN")
        try:
            messages = {row["id"]: row for row in self._rows("messages")}
            for row in messages.values():
                row["parts"] = json.loads(row["parts"])
                row["meta"] = json.loads(row["meta"])
            return Books(
                conversations={row["id"]: row for row in self._rows("conversations")},
                messages=messages,
                places={
                    (row["conversation_id"], row["position"]): row["message_id"]
                    for row in self._rows("conversation_messages")
                },
                runs=self._rows("runs"),
                steps=self._rows("steps"),
                approvals=self._rows("approvals"),
                revisions=self._rows("block_revisions"),
                blocks={row["id"]: row for row in self._rows("blocks")},
                own_blocks={
                    (row["conversation_id"], row["label"]): row["block_id"] for row in self._rows("conversation_blocks")
                },
            )
        finally:
            self._connection.execute("COMMIT")

    def _rows(self, table: str) -> list[Row]:
        with closing(self._connection.execute(f"SELECT * FROM {table}")) as cursor:  # noqa: S608 - our own tables
            return [dict(row) for row in cursor]

    def _check_texts(self, now: Books) -> None:
        for conversation in now.conversations.values():
            compiled = json.loads(conversation["compiled"])
            row = self._connection.execute("SELECT text FROM texts WHERE hash = ?", (compiled["hash"],)).fetchone()
            assert row is not None, f"the prompt of {conversation['id']} is missing"
            assert hashlib.sha256(row[0].encode()).hexdigest() == compiled["hash"]

    def _check_edits(self, now: Books, before: Books) -> None:
        """Hold each new revision to an acknowledged edit of the one before it, and the other way round (I2, I8)."""
        fresh = [message for key, message in now.messages.items() if key not in before.messages]
        self._unexplained += told_edits(now, fresh)
        for row in sorted(now.revisions, key=lambda one: (one["block_id"], one["revision"])):
            key = (row["block_id"], row["revision"])
            if key in self._seen_revisions:
                continue
            self._seen_revisions.add(key)
            if row["revision"] == 1:
                continue
            (value,) = [
                one["value"]
                for one in now.revisions
                if one["block_id"] == row["block_id"] and one["revision"] == row["revision"] - 1
            ]
            made = [
                edit
                for edit in self._unexplained
                if (edit.run_id, edit.label) == (row["run_id"], row["label"]) and edit.gives(value, row["value"])
            ]
            assert made, f"revision {key} is no edit that anyone was told of: {value!r} to {row['value']!r}"
            self._unexplained.remove(made[0])
        assert self._unexplained == [], f"edits were told and are not there: {self._unexplained}"
        for block in now.blocks.values():
            newest = max((r for r in now.revisions if r["block_id"] == block["id"]), key=lambda r: r["revision"])
            assert (block["value"], block["revision"]) == (newest["value"], newest["revision"])


def told_edits(books: Books, messages: Sequence[Row]) -> list[Edit]:
    """Return the edits that the returns in these messages say were made."""
    calls = {
        (owner, part["id"]): part
        for (owner, _), key in books.places.items()
        for part in books.messages[key]["parts"]
        if part["type"] == "tool_call"
    }
    edits: list[Edit] = []
    for message in sorted(messages, key=lambda one: one["seq"]):
        for part in message["parts"]:
            if part["type"] != "tool_return" or not part["name"].startswith("memory_"):
                continue
            if part.get("status", "success") != "success" or part["content"] == OF_THE_CLIENT:
                continue
            call = calls[message["conversation_id"], part["tool_call_id"]]
            arguments = json.loads(call["arguments"])
            edits.append(Edit(arguments["label"], message["run_id"], name=call["name"], arguments=arguments))
    return edits


def _check_runs(now: Books) -> None:
    """Every run has its end, no conversation is held, and each lease was one run's (I1, I11)."""
    for run in now.runs:
        assert run["status"] not in ("created", "running"), f"nothing carries {run['id']}"
        assert run["stop_reason"] is not None
        assert run["completed_at"] is not None
    assert [step["id"] for step in now.steps if step["status"] == "pending"] == []
    for conversation in now.conversations.values():
        assert conversation["lease_run_id"] is None
        taken = sum(run["conversation_id"] == conversation["id"] for run in now.runs)
        assert conversation["fence"] == taken


def _check_log(before: Books, now: Books, gone: set[str]) -> None:
    """What was stored is there, as it was and where it was; what is new came after it (I3)."""
    newest = max((row["seq"] for row in before.messages.values()), default=0)
    for key, row in before.messages.items():
        if key not in gone:
            assert now.messages.get(key) == row
    for key, row in now.messages.items():
        assert key in before.messages or row["seq"] > newest
    for place, key in before.places.items():
        if key not in gone and place[0] in now.conversations:
            assert now.places.get(place) == key
    homes: dict[str, set[str]] = {key: set() for key in now.messages}
    for (owner, _), key in now.places.items():
        homes[key].add(owner)
    for key, owners in homes.items():
        assert owners, f"message {key} is in no conversation"
        home = now.messages[key]["conversation_id"]
        assert home in owners or home not in now.conversations
        assert {now.conversations[owner]["agent_id"] for owner in owners} == {now.messages[key]["agent_id"]}


def _check_conversation(before: Books, now: Books, key: str, row: Row, *, moved: bool) -> None:
    history = now.history(key)
    earlier = before.conversations.get(key)
    assert all(one["position"] < row["next_position"] for one in history)
    if earlier is not None:
        assert row["fence"] >= earlier["fence"]
        assert row["next_position"] >= earlier["next_position"]
        assert row["window_from"] >= earlier["window_from"] or moved
        old = {place for place in before.places if place[0] == key}
        for one in history:
            if (key, one["position"]) not in old and one["position"] < earlier["next_position"]:
                assert one["role"] == "tool"  # only what heals, or what closes calls, goes between
    said = [one["seq"] for one in history if one["role"] != "tool"]
    assert said == sorted(said)
    summary = row["summary_message_id"]
    if summary is not None:
        assert now.messages[summary]["role"] == "summary"
        assert summary in {one["id"] for one in history}
        assert row["window_from"] > 0
    waiting = now.waiting(key)
    assert_paired(history, waiting)
    tail = [one for one in history if one["position"] >= row["window_from"]]
    assert_paired(tail, waiting)
    if waiting is not None:
        asked = now.messages[waiting["message_id"]]
        assert asked["id"] in {one["id"] for one in tail}
        assert [call["id"] for call in json.loads(waiting["calls"])] == json.loads(asked["needs_approval"])
        assert [one for one in tail if one["role"] != "summary"][-1]["id"] == asked["id"]


def assert_paired(history: Sequence[Row], waiting: Row | None = None) -> None:
    """Each call has one return, directly after the message that asked, but for calls that wait for an answer (I3)."""
    due: list[str] = []
    for message in history:
        if message["role"] in ("approval", "summary"):
            continue
        if message["role"] == "tool":
            for part in message["parts"]:
                assert part["tool_call_id"] in due, f"{part['tool_call_id']} is no call of the message before"
                due.remove(part["tool_call_id"])
            continue
        assert due == [], f"calls without a return: {due}"
        calls = [part["id"] for part in message["parts"] if part["type"] == "tool_call"]
        assert len(set(calls)) == len(calls)
        due = [] if waiting is not None and waiting["message_id"] == message["id"] else calls
    assert due == [], f"calls without a return: {due}"


def assert_body_paired(body: Mapping[str, Any]) -> None:
    """As ``assert_paired``, for the body of a chat request."""
    due: list[str] = []
    for message in body["messages"]:
        if message["role"] == "tool":
            assert message["tool_call_id"] in due
            due.remove(message["tool_call_id"])
            continue
        assert due == []
        due = [call["id"] for call in message.get("tool_calls", ())]
    assert due == []
