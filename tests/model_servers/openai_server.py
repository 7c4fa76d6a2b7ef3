"""A server in OpenAI's form: chat completions, the Responses API and the list of models.

As a process: ``python -m model_servers.openai_server [port]`` in ``tests/``.
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


def openai_server() -> ModelServer:
    return ModelServer(_routes, "/v1")


def _routes(server: ModelServer) -> list[Route]:
    async def chat(request: Request) -> Response:
        body, behaviour = await server.take(request)
        instead = misbehave(behaviour)
        problem = _refused(server, request) or _check_chat(body["messages"])
        if instead is not None or problem is not None:
            return instead or problem or Response()
        directions = direct(view_of(body))
        if directions.error is not None:
            return _error(directions.error, "told to fail by the script")
        if not body.get("stream") or behaviour.whole:
            return json_response(_completion(body, directions))
        return server.stream(_chat_events(body, directions), behaviour)

    async def responses(request: Request) -> Response:
        body, behaviour = await server.take(request)
        instead = misbehave(behaviour)
        problem = _refused(server, request) or _check_items(body["input"])
        if instead is not None or problem is not None:
            return instead or problem or Response()
        directions = direct(_responses_view(body))
        if directions.error is not None:
            return _error(directions.error, "told to fail by the script")
        output = _output(body, directions)
        if not body.get("stream") or behaviour.whole:
            return json_response(_response(body, output, directions))
        return server.stream(_response_events(body, output, directions), behaviour)

    async def models(request: Request) -> Response:
        server.seen.append(request.url.path)
        return _refused(server, request) or json_response({"object": "list", "data": server.models})

    return [
        Route("/v1/chat/completions", chat, methods=["POST"]),
        Route("/v1/responses", responses, methods=["POST"]),
        Route("/v1/models", models),
    ]


def _error(status: int, message: str, code: str | None = None) -> Response:
    return json_response({"error": {"message": message, "type": "invalid_request_error", "code": code}}, status)


def _refused(server: ModelServer, request: Request) -> Response | None:
    given = request.headers.get("authorization", "")
    if server.authorised(given.removeprefix("Bearer ")):
        return None
    return _error(401, f"Incorrect API key provided: {given.removeprefix('Bearer ')}", "invalid_api_key")


def _check_chat(messages: list[dict[str, Any]]) -> Response | None:
    """Hold the history to the vendor's rule: the returns of a message's calls, all of them, directly after it."""
    open_calls: list[str] = []
    for message in messages:
        if message["role"] == "tool":
            if message["tool_call_id"] not in open_calls:
                return _error(
                    400, "messages with role 'tool' must be a response to a preceding message with 'tool_calls'."
                )
            open_calls.remove(message["tool_call_id"])
            continue
        if open_calls:
            return _error(400, f"tool_call_ids did not have response messages: {', '.join(open_calls)}")
        open_calls = [call["id"] for call in message.get("tool_calls", ())]
        if message["role"] == "assistant" and not message.get("content") and not open_calls:
            return _error(400, "an assistant message needs content or tool_calls")
    return _error(400, f"tool_call_ids did not have response messages: {open_calls}") if open_calls else None


def _check_items(items: list[dict[str, Any]]) -> Response | None:
    calls = [item["call_id"] for item in items if item["type"] == "function_call"]
    outputs = [item["call_id"] for item in items if item["type"] == "function_call_output"]
    for call in calls:
        if outputs.count(call) != 1:
            return _error(400, f"No tool output found for function call {call}.")
    if set(outputs) - set(calls):
        return _error(400, "No tool call found for function call output.")
    return None


def _usage(body: dict[str, Any], directions: Directions) -> dict[str, Any]:
    usage = usage_of(msgspec.json.encode(body), directions)
    return {
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "total_tokens": usage.total_tokens,
        "prompt_tokens_details": {"cached_tokens": 0},
    }


def _calls(body: dict[str, Any], directions: Directions) -> list[dict[str, Any]]:
    encoded = msgspec.json.encode(body)
    return [
        {"id": call_id(encoded, i), "type": "function", "function": {"name": c.name, "arguments": c.arguments}}
        for i, c in enumerate(directions.calls)
    ]


def _completion(body: dict[str, Any], directions: Directions) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": directions.text or None}
    if directions.thoughts:
        message["reasoning_content"] = directions.thoughts
    if directions.calls:
        message["tool_calls"] = _calls(body, directions)
    finish = "tool_calls" if directions.calls else "stop"
    return {
        "id": "chatcmpl-test",
        "object": "chat.completion",
        "model": body["model"],
        "choices": [{"index": 0, "message": message, "finish_reason": finish}],
        "usage": _usage(body, directions),
    }


def _chat_events(body: dict[str, Any], directions: Directions) -> Iterator[str]:
    def chunk(delta: dict[str, Any], finish: str | None = None) -> str:
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        return event({"id": "chatcmpl-test", "object": "chat.completion.chunk", "choices": [choice]})

    yield chunk({"role": "assistant", "content": ""})
    for word in words(directions.thoughts):
        yield chunk({"reasoning_content": word})
    for word in words(directions.text):
        yield chunk({"content": word})
    for index, call in enumerate(_calls(body, directions)):
        function = {"name": call["function"]["name"], "arguments": ""}
        yield chunk({"tool_calls": [{"index": index, "id": call["id"], "type": "function", "function": function}]})
        for piece in pieces(call["function"]["arguments"]):
            yield chunk({"tool_calls": [{"index": index, "function": {"arguments": piece}}]})
    yield chunk({}, "tool_calls" if directions.calls else "stop")
    if body.get("stream_options", {}).get("include_usage"):
        yield event({"id": "chatcmpl-test", "choices": [], "usage": _usage(body, directions)})
    yield event("[DONE]")


def _responses_view(body: dict[str, Any]) -> View:
    """Read a Responses request as the scripted model would read the same chat."""
    messages: list[dict[str, Any]] = [{"role": "system", "content": body.get("instructions", "")}]
    for item in body["input"]:
        if item["type"] == "message":
            content = [{"type": "text", "text": part.get("text", "")} for part in item["content"]]
            messages.append({"role": item["role"], "content": content})
        elif item["type"] == "function_call" and messages[-1]["role"] != "assistant":
            messages.append({"role": "assistant", "content": ""})
        elif item["type"] == "function_call_output":
            messages.append({"role": "tool", "content": item["output"]})
    return view_of({"messages": messages, "tools": [{"function": tool} for tool in body.get("tools", ())]})


def _output(body: dict[str, Any], directions: Directions) -> list[dict[str, Any]]:
    output: list[dict[str, Any]] = []
    if directions.thoughts:
        summary = [{"type": "summary_text", "text": directions.thoughts}]
        output.append({"type": "reasoning", "id": "rs_1", "summary": summary, "encrypted_content": "sealed"})
    if directions.text:
        content = [{"type": "output_text", "text": directions.text, "annotations": []}]
        output.append({"type": "message", "id": "msg_1", "role": "assistant", "content": content})
    output.extend(
        {"type": "function_call", "id": f"fc_{index}", "call_id": call["id"], **call["function"]}
        for index, call in enumerate(_calls(body, directions))
    )
    return output


def _response(body: dict[str, Any], output: list[dict[str, Any]], directions: Directions) -> dict[str, Any]:
    usage = _usage(body, directions)
    return {
        "id": "resp_test",
        "object": "response",
        "status": "completed",
        "output": output,
        "usage": {
            "input_tokens": usage["prompt_tokens"],
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": usage["completion_tokens"],
            "output_tokens_details": {"reasoning_tokens": 0},
        },
    }


def _response_events(body: dict[str, Any], output: list[dict[str, Any]], directions: Directions) -> Iterator[str]:
    def typed(kind: str, **fields: Any) -> str:
        return event({"type": kind, **fields}, kind)

    yield typed("response.created", response={"id": "resp_test", "status": "in_progress"})
    for index, item in enumerate(output):
        if item["type"] == "reasoning":
            yield typed("response.output_item.added", output_index=index, item={**item, "summary": []})
            for word in words(directions.thoughts):
                kind = "response.reasoning_summary_text.delta"
                yield typed(kind, output_index=index, summary_index=0, delta=word)
        elif item["type"] == "message":
            yield typed("response.output_item.added", output_index=index, item={**item, "content": []})
            for word in words(directions.text):
                yield typed("response.output_text.delta", output_index=index, content_index=0, delta=word)
        else:
            yield typed("response.output_item.added", output_index=index, item={**item, "arguments": ""})
            for piece in pieces(item["arguments"]):
                yield typed("response.function_call_arguments.delta", output_index=index, delta=piece)
        yield typed("response.output_item.done", output_index=index, item=item)
    yield typed("response.completed", response=_response(body, output, directions))


if __name__ == "__main__":
    run_as_process(openai_server(), int(sys.argv[1]) if len(sys.argv) > 1 else 8401)
