"""A server in Anthropic's form: messages and the list of models.

As a process: ``python -m model_servers.anthropic_server [port]`` in ``tests/``.
"""

import sys
from collections.abc import Iterator
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from eunoe.models.plain_words import View
from eunoe.models.script import Directions
from eunoe.models.scripted import call_id, direct, pieces, usage_of, view_of, words
from model_servers.control import ModelServer, event, json_response, misbehave, run_as_process


def anthropic_server() -> ModelServer:
    return ModelServer(_routes, "")


def _routes(server: ModelServer) -> list[Route]:
    async def messages(request: Request) -> Response:
        body, behaviour = await server.take(request)
        instead = misbehave(behaviour)
        problem = _refused(server, request) or _check(body)
        if instead is not None or problem is not None:
            return instead or problem or Response()
        directions = direct(_view(body))
        if directions.error is not None:
            return _error(directions.error, "api_error", "told to fail by the script")
        blocks = _blocks(body, directions)
        if not body.get("stream") or behaviour.whole:
            return json_response(_message(body, blocks, directions))
        return server.stream(_events(body, blocks, directions), behaviour)

    async def models(request: Request) -> Response:
        server.seen.append(request.url.path)
        return _refused(server, request) or json_response({"data": server.models, "has_more": False})

    return [Route("/v1/messages", messages, methods=["POST"]), Route("/v1/models", models)]


def _error(status: int, kind: str, message: str) -> Response:
    return json_response({"type": "error", "error": {"type": kind, "message": message}}, status)


def _refused(server: ModelServer, request: Request) -> Response | None:
    if "anthropic-version" not in request.headers:
        return _error(400, "invalid_request_error", "anthropic-version: header is required")
    if server.authorised(request.headers.get("x-api-key", "")):
        return None
    return _error(401, "authentication_error", "invalid x-api-key")


def _check(body: dict[str, Any]) -> Response | None:
    """Hold the request to the vendor's rules."""

    def bad(message: str) -> Response:
        return _error(400, "invalid_request_error", message)

    if not isinstance(body.get("max_tokens"), int):
        return bad("max_tokens: Field required")
    budget = body.get("thinking", {}).get("budget_tokens", 0)
    if budget >= body["max_tokens"]:
        return bad("max_tokens must be greater than thinking.budget_tokens")
    if body["messages"][0]["role"] != "user":
        return bad("messages: first message must use the user role")
    expected: list[str] = []
    for index, message in enumerate(body["messages"]):
        content: list[dict[str, Any]] = message["content"]
        if not content or any(block["type"] == "text" and not block["text"].strip() for block in content):
            return bad(f"messages.{index}: text content blocks must be non-empty")
        results = [block["tool_use_id"] for block in content if block["type"] == "tool_result"]
        leading = [block["type"] for block in content[: len(results)]]
        if sorted(results) != sorted(expected) or leading != ["tool_result"] * len(results):
            return bad(f"messages.{index}: tool_use ids were found without tool_result blocks immediately after")
        expected = [block["id"] for block in content if block["type"] == "tool_use"]
    return bad("tool_use ids were found without tool_result blocks") if expected else None


def _view(body: dict[str, Any]) -> View:
    """Read the request as the scripted model would read the same chat; tool results are no user's words."""
    system = body.get("system", "")
    messages: list[dict[str, Any]] = [{"role": "system", "content": system}]
    for message in body["messages"]:
        results = [block["content"] for block in message["content"] if block["type"] == "tool_result"]
        messages.extend({"role": "tool", "content": content} for content in results)
        texts = [block for block in message["content"] if block["type"] == "text"]
        if texts or message["role"] == "assistant":
            messages.append({"role": message["role"], "content": texts})
    tools = [{"function": {**tool, "parameters": tool["input_schema"]}} for tool in body.get("tools", ())]
    return view_of({"messages": messages, "tools": tools})


def _blocks(body: dict[str, Any], directions: Directions) -> list[dict[str, Any]]:
    blocks: list[dict[str, Any]] = []
    if directions.thoughts:
        blocks.append({"type": "thinking", "thinking": directions.thoughts, "signature": "signed"})
    if directions.text:
        blocks.append({"type": "text", "text": directions.text})
    encoded = msgspec.json.encode(body)
    blocks.extend(
        {"type": "tool_use", "id": call_id(encoded, i), "name": c.name, "input": msgspec.json.decode(c.arguments)}
        for i, c in enumerate(directions.calls)
    )
    return blocks


def _message(body: dict[str, Any], blocks: list[dict[str, Any]], directions: Directions) -> dict[str, Any]:
    usage = usage_of(msgspec.json.encode(body), directions)
    return {
        "id": "msg_test",
        "type": "message",
        "role": "assistant",
        "model": body["model"],
        "content": blocks,
        "stop_reason": "tool_use" if directions.calls else "end_turn",
        "usage": {
            "input_tokens": 1,
            "cache_read_input_tokens": usage.prompt_tokens,
            "cache_creation_input_tokens": 2,
            "output_tokens": usage.completion_tokens,
        },
    }


def _events(body: dict[str, Any], blocks: list[dict[str, Any]], directions: Directions) -> Iterator[str]:
    def typed(kind: str, **fields: Any) -> str:
        return event({"type": kind, **fields}, kind)

    whole = _message(body, blocks, directions)
    yield typed("message_start", message={**whole, "content": [], "stop_reason": None})
    yield typed("ping")
    for index, block in enumerate(blocks):
        if block["type"] == "thinking":
            yield typed("content_block_start", index=index, content_block={"type": "thinking", "thinking": ""})
            deltas = [{"type": "thinking_delta", "thinking": word} for word in words(block["thinking"])]
            deltas.append({"type": "signature_delta", "signature": block["signature"]})
        elif block["type"] == "text":
            yield typed("content_block_start", index=index, content_block={"type": "text", "text": ""})
            deltas = [{"type": "text_delta", "text": word} for word in words(block["text"])]
        else:
            yield typed("content_block_start", index=index, content_block={**block, "input": {}})
            written = msgspec.json.encode(block["input"]).decode()
            deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in pieces(written)]
        for delta in deltas:
            yield typed("content_block_delta", index=index, delta=delta)
        yield typed("content_block_stop", index=index)
    output = {"output_tokens": whole["usage"]["output_tokens"]}
    yield typed("message_delta", delta={"stop_reason": whole["stop_reason"]}, usage=output)
    yield typed("message_stop")


if __name__ == "__main__":
    run_as_process(anthropic_server(), int(sys.argv[1]) if len(sys.argv) > 1 else 8402)
