"""Reflections of an agent: letting its memory be brought up to date, and deciding on edits that wait."""

from typing import Final

from eunoe.runtime.reflecting import find_trigger, remove_trigger, set_trigger
from eunoe.runtime.reflection import reflect, start_reflection
from eunoe.runtime.reflection_review import (
    accept_reflection,
    list_reflections,
    reject_reflection,
    show_reflection,
)
from eunoe.server.routing import Call, Route, route
from eunoe.server.wire.queries import NoQuery
from eunoe.server.wire.requests import Nothing
from eunoe.server.wire.skill_requests import AcceptBody, ReflectBody, TriggerBody
from eunoe.state.reflections import ReflectionTrigger


async def begin(call: Call[NoQuery, ReflectBody]) -> object:
    """Start a reflection, and answer at once or at its end."""
    body = call.body
    work = reflect if body.wait else start_reflection
    return await work(
        call.runtime, call.path["agent_id"], policy=body.policy, instructions=body.instructions, model=body.model
    )


async def list_all(call: Call[NoQuery, Nothing]) -> object:
    """Return an agent's reflections, newest first."""
    return await list_reflections(call.runtime, call.path["agent_id"])


async def show(call: Call[NoQuery, Nothing]) -> object:
    """Return a reflection with its edits as one diff."""
    return await show_reflection(call.runtime, call.path["agent_id"], call.path["reflection_id"])


async def accept(call: Call[NoQuery, AcceptBody]) -> object:
    """Merge the edits of a reflection that waits."""
    agent_id, reflection_id = call.path["agent_id"], call.path["reflection_id"]
    return await accept_reflection(call.runtime, agent_id, reflection_id, policy=call.body.policy)


async def reject(call: Call[NoQuery, Nothing]) -> object:
    """Drop the edits of a reflection that waits."""
    return await reject_reflection(call.runtime, call.path["agent_id"], call.path["reflection_id"])


async def show_trigger(call: Call[NoQuery, Nothing]) -> object:
    """Return when the agent is reflected for by itself."""
    return await find_trigger(call.runtime, call.path["agent_id"])


async def put_trigger(call: Call[NoQuery, TriggerBody]) -> object:
    """Let the agent be reflected for by itself from now on."""
    body = call.body
    trigger = ReflectionTrigger(
        agent_id=call.path["agent_id"],
        every_steps=body.every_steps,
        after_compaction=body.after_compaction,
        policy=body.policy,
        instructions=body.instructions,
        model=body.model,
    )
    return await set_trigger(call.runtime, trigger)


async def delete_trigger(call: Call[NoQuery, Nothing]) -> object:
    """Let the agent be reflected for only when somebody asks."""
    agent_id = call.path["agent_id"]
    await remove_trigger(call.runtime, agent_id)
    return {"message": f"Agent {agent_id} is reflected for only when somebody asks"}


_REFLECTIONS: Final = "/v1/agents/{agent_id}/memory/reflections"
_ONE: Final = f"{_REFLECTIONS}/{{reflection_id}}"
_TRIGGER: Final = "/v1/agents/{agent_id}/memory/reflection-trigger"
_FIRES: Final = "The trigger; null when the agent is reflected for only when somebody asks."
_ANSWER: Final = "The reflection; its outcome is null while it goes on."

ROUTES: Final[tuple[Route, ...]] = (
    route(
        "POST",
        _REFLECTIONS,
        "Bring memory up to date from what was said (Eunoe)",
        begin,
        query=NoQuery,
        body=ReflectBody,
        answer=_ANSWER,
    ),
    route(
        "GET",
        _REFLECTIONS,
        "List an agent's reflections (Eunoe)",
        list_all,
        query=NoQuery,
        body=Nothing,
        answer="Reflections, newest first.",
    ),
    route(
        "GET",
        _ONE,
        "Show the edits of a reflection (Eunoe)",
        show,
        query=NoQuery,
        body=Nothing,
        answer="The reflection, its files and commits, and one diff.",
    ),
    route(
        "POST",
        f"{_ONE}/accept",
        "Merge the edits of a reflection that waits (Eunoe)",
        accept,
        query=NoQuery,
        body=AcceptBody,
        answer="The reflection, merged.",
    ),
    route(
        "POST",
        f"{_ONE}/reject",
        "Drop the edits of a reflection that waits (Eunoe)",
        reject,
        query=NoQuery,
        body=Nothing,
        answer="The reflection, rejected.",
    ),
    route(
        "GET",
        _TRIGGER,
        "When an agent is reflected for by itself (Eunoe)",
        show_trigger,
        query=NoQuery,
        body=Nothing,
        answer=_FIRES,
    ),
    route(
        "PUT",
        _TRIGGER,
        "Reflect for an agent by itself (Eunoe)",
        put_trigger,
        query=NoQuery,
        body=TriggerBody,
        answer=_FIRES,
    ),
    route(
        "DELETE",
        _TRIGGER,
        "Reflect for an agent only when somebody asks (Eunoe)",
        delete_trigger,
        query=NoQuery,
        body=Nothing,
        answer="A message.",
    ),
)
