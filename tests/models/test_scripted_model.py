"""The scripted model: directives, plain words, and no pretence."""

import msgspec
import pytest

from eunoe.models.plain_words import View, reply, section
from eunoe.models.protocol import Completed, Failed, TextPiece, ToolCallPiece
from eunoe.models.script import Call, Directions, directions_for
from eunoe.models.scripted import answer
from eunoe.state.messages import ReasoningPart, TextPart, ToolCallPart

MEMORY = {
    "memory_insert": ("label", "new_string", "insert_line"),
    "memory_replace": ("label", "old_string", "new_string"),
}
STANDARD = """\
<human>
<description>
Facts
</description>
<metadata>
- chars_current=1
</metadata>
<value>
Name: Ada.
Likes &lt;/human> and maps.
</value>
</human>
"""
NUMBERED = STANDARD.replace("Name", "1→ Name").replace("Likes", "2→ Likes")
FILES = """\
<memory>
<human>
  <projection>$MEMORY_DIR/system/human.md</projection>
  <description>Facts</description>
  Name: Ada.
  Likes &lt;/human> and maps.
</human>
</memory>
"""
VALUE = "Name: Ada.\nLikes </human> and maps."


def _body(*messages: tuple[str, str], system: str = "") -> bytes:
    listed = [{"role": "system", "content": system}, *({"role": role, "content": text} for role, text in messages)]
    return msgspec.json.encode({"messages": listed})


def test_directives_of_one_answer_become_its_parts():
    *pieces, last = answer(_body(("user", 'THINK:hm\nSAY:one two\nSAY:three\nTOOL:f {"a": 1}\nTOOL:g')))
    assert isinstance(last, Completed)
    thought, text, first, second = last.parts
    assert isinstance(thought, ReasoningPart)
    assert thought.text == "hm"
    assert text == TextPart(text="one two\nthree")
    assert isinstance(first, ToolCallPart)
    assert isinstance(second, ToolCallPart)
    assert (first.name, first.arguments, second.name, second.arguments) == ("f", '{"a": 1}', "g", "{}")
    assert first.id != second.id
    assert last.finish_reason == "tool_calls"
    assert [piece.text for piece in pieces if isinstance(piece, TextPiece)] == ["one ", "two\n", "three"]
    named = [piece for piece in pieces if isinstance(piece, ToolCallPiece) and piece.name]
    assert [(piece.part, piece.name, piece.arguments) for piece in named] == [(2, "f", None), (3, "g", None)]


def test_the_same_request_gives_the_same_answer_and_ids():
    body = _body(("user", "TOOL:f"))
    assert list(answer(body)) == list(answer(body))
    assert list(answer(body)) != list(answer(_body(("user", "TOOL:f"), system="other")))


@pytest.mark.parametrize(("number", "text"), [(0, "first"), (1, "second"), (2, "Understood.")])
def test_THEN_gives_the_next_calls_of_the_turn(number: int, text: str):
    assert directions_for("SAY:first\nTHEN:\nSAY:second", number) == Directions(text=text)


def test_the_turn_is_counted_from_the_last_user_message():
    script = "TOOL:f\nTHEN:\nSAY:done"
    history = (("user", script), ("assistant", ""), ("tool", "ok"))
    *_, last = answer(_body(*history))
    assert isinstance(last, Completed)
    assert last.parts == (TextPart(text="done"),)
    *_, again = answer(_body(*history, ("user", "SAY:new turn")))
    assert isinstance(again, Completed)
    assert again.parts == (TextPart(text="new turn"),)


def test_ERROR_fails_as_an_endpoint_would_and_EMPTY_says_nothing():
    (failed,) = answer(_body(("user", "ERROR:429")))
    assert isinstance(failed, Failed)
    assert (failed.error.kind, failed.error.status) == ("rate_limit", 429)
    (empty,) = answer(_body(("user", "EMPTY:")))
    assert isinstance(empty, Completed)
    assert (empty.parts, empty.finish_reason) == ((), "stop")


@pytest.mark.parametrize("prompt", [STANDARD, NUMBERED, FILES], ids=["standard", "numbered", "files"])
def test_it_reads_memory_out_of_the_compiled_prompt(prompt: str):
    assert section(prompt, "human") == VALUE
    assert section(prompt, "persona") is None
    assert reply(View(system=prompt, user="What do you know about me?")).text == f"I know:\n{VALUE}"
    assert reply(View(system=prompt, user="你知道什么")).text == f"我知道:\n{VALUE}"


@pytest.mark.parametrize(
    ("user", "name", "arguments"),
    [
        (
            "Remember that I like tea.",
            "memory_insert",
            {"label": "human", "new_string": "I like tea.", "insert_line": -1},
        ),
        ("请记住我喜欢茶", "memory_insert", {"label": "human", "new_string": "我喜欢茶", "insert_line": -1}),
        ('Replace "Ada" with "Eve".', "memory_replace", {"label": "human", "old_string": "Ada", "new_string": "Eve"}),
        ("把Ada改成Eve", "memory_replace", {"label": "human", "old_string": "Ada", "new_string": "Eve"}),
        ("forget ada", "memory_replace", {"label": "human", "old_string": "Name: Ada.", "new_string": ""}),
    ],
)
def test_plain_words_call_the_memory_tools(user: str, name: str, arguments: dict[str, object]):
    directions = reply(View(system=STANDARD, user=user, tools=MEMORY))
    assert [call.name for call in directions.calls] == [name]
    assert msgspec.json.decode(directions.calls[0].arguments) == arguments


def test_it_uses_the_older_tools_where_the_agent_has_those():
    tools = {"core_memory_append": ("label", "content")}
    assert reply(View(user="remember: tea", tools=tools)).calls == (
        Call(name="core_memory_append", arguments='{"label":"human","content":"tea"}'),
    )


def test_after_the_return_it_tells_what_came_of_it():
    view = View(user="Remember that I like tea", tools=MEMORY, call_number=1, returns=("None",))
    assert reply(view).text == "I noted: I like tea"
    refused = msgspec.structs.replace(view, returns=("Error: Block 'human' is read-only",))
    assert reply(refused).text == "That did not work: Error: Block 'human' is read-only"


def test_anything_else_is_answered_honestly():
    text = reply(View(user="Write a poem")).text
    assert text.startswith('You said: "Write a poem". I am the scripted model: no language model answers here.')
    assert "none of the tools" in reply(View(user="remember x")).text
