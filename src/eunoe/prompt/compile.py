"""How the system message of a conversation is made from an agent's state (I5, I10).

One pure function: same inputs, same bytes, on every machine. ``fingerprint`` tells without rendering the values
whether a stored text is still what these inputs give.
"""

import hashlib
from typing import Final, Literal

import msgspec
from msgspec import Struct

from eunoe.prompt.blocks import memory_section, render_blocks, shown_fields, visible_blocks
from eunoe.prompt.files import FileView, diagnostics_line, render_files
from eunoe.prompt.files_layout2 import render_layout2
from eunoe.prompt.metadata import render_metadata
from eunoe.prompt.rules import render_rules
from eunoe.prompt.tokens import tokens_of_bytes, utf8_length
from eunoe.state.agents import AgentType
from eunoe.state.blocks import Block
from eunoe.state.conversations import PromptFacts
from eunoe.state.rules import ToolRule

PLACEHOLDER: Final = "{CORE_MEMORY}"
"""Where the compiled sections go in an agent's raw system text."""

FORMAT: Final = 1
"""Goes up when the same inputs give other bytes than before, so that stored prompts are compiled again."""

Mode = Literal["none", "standard", "line_numbered", "git_1", "git_2"]
"""How memory is rendered; ``git_1`` and ``git_2`` are memory files in layout 1 and 2."""

_WITHOUT_MEMORY: Final = frozenset({"react_agent", "workflow_agent"})
_FROM_FILES: Final = frozenset({"git_1", "git_2"})
_EDITS_BY_LINE: Final = frozenset({"letta_v1_agent", "memgpt_v2_agent", "sleeptime_agent"})


class PromptInputs(Struct, frozen=True, kw_only=True):
    """Everything that a compiled prompt depends on.

    ``system`` is the raw system text, ``conversation_label`` is ``default`` or a conversation's id, ``line_numbers``
    says that the model wants numbered values, and ``timezone`` is an IANA name. ``files`` are the memory files of an
    agent that has them; its memory is then rendered from these, and ``blocks`` are not.
    """

    agent_id: str
    conversation_label: str
    agent_type: AgentType
    system: str
    blocks: tuple[Block, ...]
    tool_rules: tuple[ToolRule, ...]
    line_numbers: bool
    facts: PromptFacts
    timezone: str
    files: FileView | None = None


class Section(Struct, frozen=True, kw_only=True):
    """What one part of a prompt costs.

    ``name`` is ``system`` (the raw text with the blank lines between sections), ``memory_blocks`` or
    ``memory_files``, ``tool_usage_rules``, ``memory_metadata`` or ``memory_diagnostics``; the characters of these add
    up to the whole prompt. The parts named ``block:<label>`` or ``file:<path>`` are contained in the section of
    memory. A section that stands in the text twice counts twice. ``tokens`` is an estimate.
    """

    name: str
    characters: int
    tokens: int


class CompiledPrompt(Struct, frozen=True, kw_only=True):
    """A system message, and what it was made from. Hashes are SHA-256 in hex; ``hash`` is the text's.

    ``rendered`` are the texts of its sections by name, and ``parts`` those of the blocks or files in them; each stands
    in the text ``copies`` times.
    """

    text: str
    hash: str
    system_hash: str
    memory_revision: str
    inputs_hash: str
    rendered: dict[str, str]
    parts: tuple[tuple[str, str], ...]
    copies: int

    @property
    def sections(self) -> tuple[Section, ...]:
        """The account of the text. It is drawn up when somebody asks: of a large memory it takes a while."""
        whole = (len(self.text), utf8_length(self.text))
        return _account(whole, self.rendered, self.parts, copies=self.copies)


def compile_prompt(inputs: PromptInputs) -> CompiledPrompt:
    """Compile the system message. Raises ``InvalidInput`` when the time zone is unknown."""
    mode = choose_mode(inputs.agent_type, line_numbers=inputs.line_numbers, files=inputs.files)
    memory, parts = _render_memory(inputs, mode)
    sections = {
        "memory_files" if mode in _FROM_FILES else "memory_blocks": memory,
        "tool_usage_rules": render_rules(inputs.tool_rules),
        **_render_last(inputs, mode),
    }
    text = _assemble(inputs.system, "\n\n".join(section for section in sections.values() if section))
    data = text.encode()
    system_hash, memory_revision, inputs_hash = fingerprint(inputs)
    return CompiledPrompt(
        text=text,
        hash=_sha256(data),
        system_hash=system_hash,
        memory_revision=memory_revision,
        inputs_hash=inputs_hash,
        rendered=sections,
        parts=parts,
        copies=max(1, inputs.system.count(PLACEHOLDER)),
    )


def render_update(inputs: PromptInputs, revision: str) -> str:
    """Return the text that tells a model of newer memory while its system message stays as it is.

    It holds the whole memory section, so that what it says stands in place of what was shown before.
    """
    mode = choose_mode(inputs.agent_type, line_numbers=inputs.line_numbers, files=inputs.files)
    memory, _ = _render_memory(inputs, mode)
    note = diagnostics_line(inputs.files) if inputs.files is not None and mode in _FROM_FILES else ""
    lines = [
        "<memory_update>",
        f"Memory was changed; it is at revision {revision} now. What follows replaces what was shown of memory before.",
        "",
        memory or "Memory is empty.",
        *([note] if note else []),
        "</memory_update>",
    ]
    return "\n".join(lines)


def fingerprint(inputs: PromptInputs) -> tuple[str, str, str]:
    """Return system hash, memory revision and inputs hash: equal ones give equal bytes for equal facts.

    The memory revision covers what memory shows: it is the commit of memory files (with what could not be read after
    it), or a hash of label, value, description, limit and read_only of each block that is rendered. The inputs hash
    covers all else that the text depends on but the facts.
    """
    mode = choose_mode(inputs.agent_type, line_numbers=inputs.line_numbers, files=inputs.files)
    others = (
        FORMAT,
        mode,
        render_rules(inputs.tool_rules),
        inputs.timezone,
        inputs.agent_id,
        inputs.conversation_label,
    )
    return (
        _sha256(inputs.system.encode()),
        _memory_revision(inputs, mode),
        _sha256(msgspec.json.encode(others)),
    )


def choose_mode(agent_type: AgentType, *, line_numbers: bool, files: FileView | None = None) -> Mode:
    """Return how memory is rendered for an agent of this type.

    ``line_numbers`` says that its model edits by line; ``files`` are its memory files, if it has them.
    """
    if agent_type in _WITHOUT_MEMORY:
        return "none"
    if files is not None:
        return "git_1" if files.layout == 1 else "git_2"
    return "line_numbered" if line_numbers and agent_type in _EDITS_BY_LINE else "standard"


def _memory_revision(inputs: PromptInputs, mode: Mode) -> str:
    view = inputs.files
    if view is not None and mode in _FROM_FILES:
        # The line on what could not be read is part of the text.
        return f"{view.revision}!{_sha256(msgspec.json.encode(view.unread))}" if view.unread else view.revision
    return _sha256(msgspec.json.encode([shown_fields(block) for block in _shown_blocks(inputs, mode)]))


def _render_memory(inputs: PromptInputs, mode: Mode) -> tuple[str, tuple[tuple[str, str], ...]]:
    if inputs.files is not None and mode in _FROM_FILES:
        memory = render_files(inputs.files) if mode == "git_1" else render_layout2(inputs.files)
        return memory.section, tuple((f"file:{path}", text) for path, text in memory.files)
    blocks = render_blocks(_shown_blocks(inputs, mode), numbered=mode == "line_numbered")
    return memory_section([text for _, text in blocks]), tuple((f"block:{label}", text) for label, text in blocks)


def _render_last(inputs: PromptInputs, mode: Mode) -> dict[str, str]:
    unread = diagnostics_line(inputs.files) if inputs.files is not None and mode in _FROM_FILES else ""
    if mode == "git_2":
        return {"memory_diagnostics": unread}
    metadata = render_metadata(
        agent_id=inputs.agent_id,
        conversation_label=inputs.conversation_label,
        timezone=inputs.timezone,
        facts=inputs.facts,
        memory_note=unread,
    )
    return {"memory_metadata": metadata}


def _shown_blocks(inputs: PromptInputs, mode: Mode) -> tuple[Block, ...]:
    return () if mode == "none" else visible_blocks(inputs.blocks)


def _assemble(system: str, sections: str) -> str:
    if PLACEHOLDER in system:
        return system.replace(PLACEHOLDER, sections)
    if not sections:
        return system
    before = system.rstrip("\n")
    return f"{before}\n\n{sections}" if before else sections


def _account(
    whole: tuple[int, int], sections: dict[str, str], parts: tuple[tuple[str, str], ...], *, copies: int
) -> tuple[Section, ...]:
    """Return the account of a text; ``whole`` is its length in characters and in bytes."""

    def section(name: str, characters: int, size: int) -> Section:
        return Section(name=name, characters=characters, tokens=tokens_of_bytes(size))

    sizes = {name: (len(text) * copies, utf8_length(text) * copies) for name, text in sections.items()}
    characters, size = (sum(lengths) for lengths in zip(*sizes.values(), strict=True))
    account = [section("system", whole[0] - characters, whole[1] - size)]
    for name, lengths in sizes.items():
        if lengths[0]:
            account.append(section(name, *lengths))
        if name in {"memory_blocks", "memory_files"}:
            account += [section(part, len(text) * copies, utf8_length(text) * copies) for part, text in parts]
    return tuple(account)


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
