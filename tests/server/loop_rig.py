"""What the tests of turns over HTTP share: agents, questions and answers, and streams read whole."""

import json
from typing import Any

import httpx2
from letta_client import Letta

EDIT = 'TOOL:memory_replace {"label":"human","old_string":"maps","new_string":"tea"}'
PERSONA_EDIT = 'TOOL:memory_replace {"label":"persona","old_string":"careful","new_string":"bold"}'
CLOCK: Any = {
    "name": "get_time",
    "description": "Tell the time.",
    "parameters": {"type": "object", "properties": {"zone": {"type": "string"}}},
}


def new_agent(client: Letta, *, gated: bool = False, **fields: Any) -> str:
    """Create an agent with two blocks; with ``gated`` its edits of blocks wait for an answer."""
    blocks = [{"label": "human", "value": "Likes maps."}, {"label": "persona", "value": "I am careful."}]
    agent = client.agents.create(**({"model": "scripted/demo", "memory_blocks": blocks} | fields))
    if gated:
        client.agents.tools.update_approval("memory_replace", agent_id=agent.id, body_requires_approval=True)
    return agent.id


def say(client: Letta, agent_id: str, text: str, **options: Any) -> list[Any]:
    """Send a text and return the messages of the answer."""
    return client.agents.messages.create(agent_id, messages=[{"role": "user", "content": text}], **options).messages


def decide(*decisions: tuple[str, bool], reason: str | None = None) -> Any:
    """Return the message that approves or denies calls."""
    answers = [
        {"type": "approval", "tool_call_id": call_id, "approve": yes, "reason": reason} for call_id, yes in decisions
    ]
    return [{"type": "approval", "approvals": answers}]


def human(client: Letta, agent_id: str) -> str:
    """Return the value of the agent's block about its human."""
    return client.agents.blocks.retrieve("human", agent_id=agent_id).value


def frames(text: str) -> list[Any]:
    """Return the messages of a stream without its pings; ``[DONE]`` must be its end."""
    assert text.endswith("data: [DONE]\n\n"), text[-200:]
    bodies = [json.loads(line[6:]) for line in text.splitlines() if line.startswith("data: {")]
    return [body for body in bodies if body["message_type"] != "ping"]


def undated(bodies: list[Any]) -> list[Any]:
    """Return messages without the time at which they were told."""
    return [{name: value for name, value in body.items() if name != "date"} for body in bodies]


def post(http: httpx2.Client, path: str, body: Any = None, status: int = 200) -> Any:
    """Post JSON, expect a status, and return the JSON of the answer."""
    answer = http.post(path, json=body or {})
    assert answer.status_code == status, answer.text
    return answer.json()
