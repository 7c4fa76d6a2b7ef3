"""An answer is prepared while the commit that it waits for is made; it is given only if that succeeds (I12)."""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx2
import pytest

pytestmark = pytest.mark.slow

# A step that is stored breaks a rule that SQLite looks at when it commits: the work is done, and then undone.
_BREAK_THE_COMMIT = (
    "CREATE TABLE broken (agent_id TEXT REFERENCES agents (id) DEFERRABLE INITIALLY DEFERRED)",
    "CREATE TRIGGER break_it AFTER INSERT ON steps BEGIN INSERT INTO broken VALUES ('nobody'); END",
)


def test_an_answer_whose_commit_fails_is_not_given(serve_home: Any, tmp_path: Path):
    with serve_home(tmp_path) as url, httpx2.Client(base_url=url, timeout=30) as http:
        agent_id = http.post("/v1/agents/", json={"model": "scripted/demo"}).json()["id"]
        path = f"/v1/agents/{agent_id}/messages"
        assert http.post(path, json={"input": "SAY:first"}).json()["messages"][0]["content"] == "first"
        with closing(sqlite3.connect(tmp_path / "eunoe.db")) as store:
            for statement in _BREAK_THE_COMMIT:
                store.execute(statement)
        failed = http.post(path, json={"input": "SAY:second"})
        assert failed.status_code == 503
        assert "second" not in failed.text
        with closing(sqlite3.connect(tmp_path / "eunoe.db")) as store:
            store.execute("DROP TRIGGER break_it")
        said = http.post(path, json={"input": "SAY:third"})
        assert (said.status_code, said.json()["messages"][0]["content"]) == (200, "third")
        listed = http.get(path, params={"order": "asc"}).json()
        shown = [m["content"] for m in listed if m["message_type"] in ("user_message", "assistant_message")]
        # What was said before the failure is kept as far as it came, as that of any broken turn.
        assert shown == ["SAY:first", "first", "SAY:second", "second", "SAY:third", "third"]
