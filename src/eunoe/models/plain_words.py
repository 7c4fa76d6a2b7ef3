"""The few plain requests that the scripted model understands, in English and Chinese.

It is no language model and says so; it shows what memory tools do without a key, a network or a download.
"""

import re
import textwrap
from typing import Final

import msgspec
from msgspec import Struct

from eunoe.models.script import Call, Directions

_END: Final = r"\s*[.!。\uff01]?\s*$"
_REMEMBER: Final = re.compile(
    r"^\s*(?:please\s+)?remember(?:\s+that)?\s*[:,]?\s+(?P<en>.+)|^\s*(?:请)?记住[:,\uff1a\uff0c]?\s*(?P<zh>.+)",
    re.IGNORECASE,
)
_FORGET: Final = re.compile(
    rf"^\s*(?:please\s+)?forget(?:\s+(?:about|that))?\s+(?P<en>.+?){_END}|^\s*(?:请)?(?:忘记|忘掉)\s*(?P<zh>.+?){_END}",
    re.IGNORECASE,
)
_REPLACE: Final = re.compile(
    rf"^\s*(?:please\s+)?replace\s+(?P<en>.+?)\s+with\s+(?P<en2>.+?){_END}|^\s*把(?P<zh>.+?)(?:改成|换成|改为|替换为)(?P<zh2>.+?){_END}",
    re.IGNORECASE,
)
_SEARCH: Final = re.compile(
    rf"^\s*(?:please\s+)?search(?:\s+for)?\s+(?P<en>.+?){_END}|^\s*搜索\s*(?P<zh>.+?){_END}", re.IGNORECASE
)
_KNOW: Final = re.compile(
    r"what\s+do\s+you\s+(?:know|remember)|(?P<zh>你(?:都)?(?:知道|记得)(?:我)?(?:什么|些什么))", re.IGNORECASE
)
_QUOTES: Final = "\"'“”\u2018\u2019「」"

LABEL: Final = "human"
"""The block in which facts about the user are kept."""


class View(Struct, frozen=True, kw_only=True):
    """What the scripted model looks at: the last user message, and what has come of it.

    ``call_number`` counts the answers given since that message; ``tools`` maps tool names to their parameters' names.
    """

    system: str = ""
    user: str = ""
    call_number: int = 0
    returns: tuple[str, ...] = ()
    tools: dict[str, tuple[str, ...]] = {}


def reply(view: View) -> Directions:
    """Answer a message without directives."""
    if found := _REMEMBER.search(view.user):
        return _remember(view, _value(found), chinese=found["zh"] is not None)
    if found := _REPLACE.search(view.user):
        chinese = found["zh"] is not None
        old, new = (found["zh"], found["zh2"]) if chinese else (found["en"], found["en2"])
        return _edit(view, old.strip(_QUOTES), new.strip(_QUOTES), chinese=chinese)
    if found := _FORGET.search(view.user):
        return _forget(view, _value(found), chinese=found["zh"] is not None)
    if found := _KNOW.search(view.user):
        return _tell(view, chinese=found["zh"] is not None)
    if found := _SEARCH.search(view.user):
        return _search(view, _value(found), chinese=found["zh"] is not None)
    return _honest(view.user)


def _value(found: re.Match[str]) -> str:
    return (found["en"] or found["zh"] or "").strip().strip(_QUOTES)


def _remember(view: View, fact: str, *, chinese: bool) -> Directions:
    if view.call_number:
        return _after(view, f"我记下了:{fact}" if chinese else f"I noted: {fact}", chinese=chinese)
    return _call_first(
        view,
        {
            "memory_insert": {"label": LABEL, "new_string": fact, "insert_line": -1},
            "core_memory_append": {"label": LABEL, "content": fact},
        },
        chinese=chinese,
    )


def _edit(view: View, old: str, new: str, *, chinese: bool) -> Directions:
    if view.call_number:
        done = f"已把“{old}”改成“{new}”。" if chinese else f'I replaced "{old}" with "{new}".'
        return _after(view, done, chinese=chinese)
    return _call_first(
        view,
        {
            "memory_replace": {"label": LABEL, "old_string": old, "new_string": new},
            "core_memory_replace": {"label": LABEL, "old_content": old, "new_content": new},
        },
        chinese=chinese,
    )


def _forget(view: View, subject: str, *, chinese: bool) -> Directions:
    if view.call_number:
        return _after(view, f"我忘掉了:{subject}" if chinese else f"I forgot: {subject}", chinese=chinese)
    lines = (section(view.system, LABEL) or "").splitlines()
    line = next((line for line in lines if subject.casefold() in line.casefold()), None)
    if line is None:
        return Directions(text=f"我的记忆里没有“{subject}”。" if chinese else f'I have nothing about "{subject}".')
    return _edit(view, line, "", chinese=chinese)


def _tell(view: View, *, chinese: bool) -> Directions:
    known = section(view.system, LABEL)
    if known is None:
        return Directions(text="我没有 human 记忆块。" if chinese else "I have no memory block named human.")
    if not known.strip():
        return Directions(text="我还什么都不知道。" if chinese else "I know nothing about you yet.")
    return Directions(text=f"我知道:\n{known}" if chinese else f"I know:\n{known}")


def _search(view: View, query: str, *, chinese: bool) -> Directions:
    if view.call_number:
        found = "\n".join(view.returns)
        return Directions(text=f"找到:\n{found}" if chinese else f"I found:\n{found}")
    return _call_first(view, {"conversation_search": {"query": query}}, chinese=chinese)


def _call_first(view: View, choices: dict[str, dict[str, str | int]], *, chinese: bool) -> Directions:
    """Call the first of these tools that the agent has."""
    for name, arguments in choices.items():
        if name in view.tools:
            allowed = view.tools[name]
            given = {key: value for key, value in arguments.items() if not allowed or key in allowed}
            return Directions(calls=(Call(name=name, arguments=msgspec.json.encode(given).decode()),))
    wanted = ", ".join(choices)
    return Directions(text=f"我没有这个工具:{wanted}" if chinese else f"I have none of the tools for that: {wanted}.")


def _after(view: View, done: str, *, chinese: bool) -> Directions:
    """Tell what came of the call: a tool that failed is quoted, not glossed over."""
    failed = next(
        (text for text in view.returns if "error" in text.casefold() or "no replacement" in text.casefold()), None
    )
    if failed is None:
        return Directions(text=done)
    return Directions(text=f"没有成功:{failed}" if chinese else f"That did not work: {failed}")


def _honest(text: str) -> Directions:
    said = textwrap.shorten(text, 200, placeholder=" …")
    return Directions(
        text=(
            f'You said: "{said}". I am the scripted model: no language model answers here. I understand '
            '"remember …", "forget …", "replace … with …", "search …" and "what do you know?".'
        )
    )


def section(system: str, label: str) -> str | None:
    """Return the value of a block as the compiled prompt shows it, unescaped and without line numbers.

    ``None`` when the prompt has no section of this label. Reads the standard, the line-numbered and the memory-files
    form of the prompt.
    """
    found = re.search(rf"^[ ]*<{label}>\n(.*?)^[ ]*</{label}>$", system, re.DOTALL | re.MULTILINE)
    if found is None:
        return None
    value = re.search(r"<value>\n(.*?)\n?</value>", found[1], re.DOTALL)
    if value is None:
        body = re.sub(r"^[ ]*<(projection|description)>.*?</\1>\n", "", found[1], flags=re.DOTALL | re.MULTILINE)
        text = textwrap.dedent(body).rstrip("\n")
    else:
        text = re.sub(r"^\d+→ ?", "", value[1], flags=re.MULTILINE)
    return text.replace("&lt;", "<")
