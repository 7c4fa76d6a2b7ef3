"""Through HTTP: ``eunoe serve`` as a process, and the official client."""

import subprocess
import sys
from pathlib import Path
from typing import Any, Self

import httpx2
from letta_client import Letta
from main_job import HUMAN, PATIENCE, PERSONA, Whole, environment, parts_of

_RELATIONS: Any = ["agent.blocks", "agent.tools", "agent.identities", "agent.tags", "agent.secrets"]


class HttpDoor:
    def __init__(self, home: Path, env: dict[str, str]) -> None:
        self._env = environment(home, env)
        self._log = home / "server.log"
        self._agent_id = ""

    def __enter__(self) -> Self:
        self._start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop()

    def _start(self) -> None:
        with self._log.open("ab") as log:
            self._server = subprocess.Popen(
                [sys.executable, "-m", "eunoe", "serve", "--port", "0"],
                env=self._env,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        assert self._server.stdout is not None
        lines = iter(self._server.stdout.readline, "")
        listening = next((line for line in lines if line.startswith("Eunoe listens on ")), None)
        assert listening is not None, self._log.read_text()
        self.url = listening.removeprefix("Eunoe listens on ").strip()
        self._client = Letta(base_url=self.url, api_key="none", max_retries=0, timeout=PATIENCE)

    def _stop(self) -> None:
        self._client.close()
        self._server.kill()
        self._server.wait(PATIENCE)
        assert self._server.stdout is not None
        self._server.stdout.close()

    def create(self, model: str) -> None:
        person = {"identifier_key": "ada", "name": "Ada", "identity_type": "user"}
        someone = httpx2.post(f"{self.url}/v1/identities/", json=person, timeout=PATIENCE).raise_for_status().json()
        agent = self._client.agents.create(
            name="keeper",
            model=model,
            memory_blocks=[{"label": "human", "value": HUMAN}, {"label": "persona", "value": PERSONA}],
            identity_ids=[someone["id"]],
            tags=["kept"],
            secrets={"KEY": "not to be seen"},
        )
        self._agent_id = agent.id

    def say(self, text: str, answer: str) -> None:
        told = self._client.agents.messages.create(self._agent_id, messages=[{"role": "user", "content": text}])
        last: Any = told.messages[-1]
        assert (told.stop_reason.stop_reason, last.content) == ("end_turn", answer)

    def whole(self) -> Whole:
        agent = self._client.agents.retrieve(self._agent_id, include=_RELATIONS)
        messages = list(self._client.agents.messages.list(self._agent_id, order="asc", limit=100))
        return Whole(
            agent_id=agent.id,
            blocks={str(block.label): block.value for block in agent.blocks},
            tools={str(tool.name) for tool in agent.tools},
            identities=[identity.name for identity in agent.identities or []],
            parts=parts_of(self._get(f"/v1/agents/{self._agent_id}/manifest")),
            window=[message.model_dump(mode="json") for message in messages[1:]],
            prompt=messages[0].model_dump()["content"],
            everything=agent.model_dump(mode="json"),
        )

    def last_request(self) -> Any:
        (step,) = self._client.steps.list(agent_id=self._agent_id, limit=1).items
        found = self._get(f"/v1/steps/{step.id}/request")
        assert found["verified"]
        return found["body"]

    def edit(self, label: str, **changes: Any) -> None:
        self._client.agents.blocks.update(label, agent_id=self._agent_id, **changes)

    def kill(self) -> None:
        self._stop()
        self._start()

    def _get(self, path: str) -> Any:
        return httpx2.get(self.url + path, timeout=PATIENCE).raise_for_status().json()
