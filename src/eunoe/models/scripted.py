"""The scripted model: no language model, no network, the same answer to the same request.

It stands behind the same door as every other model: it gets the bytes of a chat request and tells events. Tests and
first steps use it; it never pretends to be more (see ``plain_words``).
"""

import hashlib
import re
from collections.abc import Iterator
from typing import Any, Final

from eunoe.models.answer import Answer, ended, new_call_id
from eunoe.models.failures import failure
from eunoe.models.json_fields import JsonObject, object_in, objects_in, parse_object, text_in
from eunoe.models.plain_words import View, reply
from eunoe.models.protocol import Failed, ModelEvent
from eunoe.models.providers import SCRIPTED
from eunoe.models.script import Directions, directions_for, has_directives
from eunoe.state.runs import Usage

_PIECE: Final = 12
"""Characters of tool arguments in one piece."""
_BYTES_PER_TOKEN: Final = 4


def answer(body: bytes) -> Iterator[ModelEvent]:
    """Answer a chat request; text comes in words, arguments in pieces."""
    directions = direct(view_of(parse_object(body) or {}))
    if directions.error is not None:
        yield Failed(error=failure(SCRIPTED, "the script asked for this failure", status=directions.error))
        return
    grown = Answer(SCRIPTED.name, (), new_call_id)
    for word in words(directions.thoughts):
        yield from grown.reasoning("reasoning", word)
    for word in words(directions.text):
        yield from grown.text("text", word)
    for index, call in enumerate(directions.calls):
        yield from grown.open_call(index, call_id(body, index), call.name)
        for piece in pieces(call.arguments):
            yield from grown.arguments(index, piece)
    yield from ended(grown, usage_of(body, directions), "stop")


def direct(view: View) -> Directions:
    """Decide what to answer: by the directives in the user's message, or by its plain words."""
    return directions_for(view.user, view.call_number) if has_directives(view.user) else reply(view)


def view_of(body: JsonObject) -> View:
    """Read a chat request as far as the scripted model looks at it."""
    messages = objects_in(body, "messages")
    system = next((_text(message) for message in messages if text_in(message, "role") in ("system", "developer")), "")
    last_user = max((i for i, message in enumerate(messages) if text_in(message, "role") == "user"), default=-1)
    since = messages[last_user + 1 :]
    returns = tuple(_text(message) for message in since if text_in(message, "role") == "tool")
    functions = [object_in(tool, "function") for tool in objects_in(body, "tools")]
    return View(
        system=system,
        user=_text(messages[last_user]) if last_user >= 0 else "",
        call_number=sum(text_in(message, "role") == "assistant" for message in since),
        returns=returns,
        tools={
            text_in(function, "name"): tuple(object_in(object_in(function, "parameters"), "properties"))
            for function in functions
        },
    )


def _text(message: JsonObject) -> str:
    return text_in(message, "content") or "".join(text_in(part, "text") for part in objects_in(message, "content"))


def words(text: str) -> list[str]:
    """Cut a text after each run of white space; joined, the words are the text."""
    return re.findall(r"\S+\s*|\s+", text)


def pieces(arguments: str) -> list[str]:
    """Cut arguments as a model would stream them."""
    return [arguments[at : at + _PIECE] for at in range(0, len(arguments), _PIECE)]


def call_id(body: bytes, index: int) -> str:
    """Return the id of a call: the same for the same request."""
    return f"call_{hashlib.sha256(body).hexdigest()[:12]}_{index}"


def usage_of(body: bytes, directions: Directions) -> Usage:
    """Estimate the tokens of a request and its answer, at four bytes each."""
    said: list[Any] = [directions.thoughts, directions.text, *(call.name + call.arguments for call in directions.calls)]
    made = sum(len(text.encode()) for text in said)
    return Usage(prompt_tokens=len(body) // _BYTES_PER_TOKEN, completion_tokens=-(-made // _BYTES_PER_TOKEN))
