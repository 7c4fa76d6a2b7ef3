"""An answer is prepared while the commit that it waits for is made; it is given only if that succeeds (I12)."""

import sqlite3
from concurrent.futures import ThreadPoolExecutor
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

_AGENT = {"model": "scripted/demo", "memory_blocks": [{"label": "human", "value": ""}]}


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


_TWO_STEPS = """TOOL:memory_insert {"label": "human", "new_string": "a"}
THEN:
TOOL:memory_insert {"label": "human", "new_string": "b"}
THEN:
SAY:one two three"""


@pytest.mark.parametrize("carried", [{}, {"streaming": True}, {"streaming": True, "background": True}])
def test_who_joins_a_run_by_its_otid_is_told_all_of_it_however_it_is_carried(
    http: httpx2.Client, carried: dict[str, bool]
):
    # What is told of a background run is stored first, and lags behind by more or less: hence so many runs.
    def ask(agent_id: str, how: dict[str, bool]) -> httpx2.Response:
        message = {"role": "user", "content": _TWO_STEPS, "otid": f"of-{agent_id}"}
        return http.post(f"/v1/agents/{agent_id}/messages", json={"messages": [message], **how})

    with ThreadPoolExecutor(9) as threads:
        for _ in range(4):
            agent_ids = [http.post("/v1/agents/", json=_AGENT).json()["id"] for _ in range(3)]
            asked = [(one, how, threads.submit(ask, one, how)) for one in agent_ids for how in (carried, {}, {})]
            for agent_id, how, future in asked:
                if how == {}:
                    kinds = [message["message_type"] for message in future.result().json()["messages"]]
                    step = ["tool_call_message", "tool_return_message"]
                    assert (agent_id, kinds) == (agent_id, [*step, *step, "assistant_message"])
