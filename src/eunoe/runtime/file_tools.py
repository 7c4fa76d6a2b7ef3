"""Which tools an agent gets when its memory becomes files, and loses when it becomes blocks again.

An agent gets a tool once: when its memory becomes files, or when the store first has the tool. What a person takes away
after that stays away.
"""

from collections.abc import Sequence
from datetime import datetime

from eunoe.state.agents import AgentType
from eunoe.state.ids import named_id
from eunoe.store import agents, memory_heads, tools
from eunoe.store.database import Transaction
from eunoe.tools.builtin import builtin_tools, default_tools
from eunoe.tools.files import FILE_TOOLS


def store_builtins(tx: Transaction, now: datetime) -> None:
    """Bring the built-in tools of a store up to date.

    Where it comes from a version that knew less of them, agents whose memory is files get the tools for files that are
    new, unless they have no built-in tool at all.
    """
    known = tools.by_names(tx, FILE_TOOLS)
    builtins = builtin_tools(now)
    for tool in builtins:
        tools.upsert_builtin(tx, tool)
    new = [name for name in FILE_TOOLS if name not in known]
    if not new:
        return
    ours = {tool.id for tool in builtins}
    for head in memory_heads.everyone(tx):
        if ours & {tool.id for tool in tools.of_agent(tx, head.agent_id)}:
            attach_file_tools(tx, head.agent_id, agents.get(tx, head.agent_id).agent_type, new)


def attach_file_tools(tx: Transaction, agent_id: str, agent_type: AgentType, names: Sequence[str] = FILE_TOOLS) -> None:
    """Give an agent the tools that read memory files and skills, unless agents of its type have no tools at all.

    A tool of the user's that has taken one of the names is not given.
    """
    if not default_tools(agent_type):
        return
    known = tools.by_names(tx, names)
    held = {tool.name for tool in tools.of_agent(tx, agent_id)}
    for name in names:
        tool = known.get(name)
        if tool is not None and tool.id == named_id("tool", name) and name not in held:
            tools.attach(tx, agent_id, tool.id)


def detach_file_tools(tx: Transaction, agent_id: str) -> None:
    """Take those tools from an agent."""
    ours = {named_id("tool", name) for name in FILE_TOOLS}
    for tool in tools.of_agent(tx, agent_id):
        if tool.id in ours:
            tools.detach(tx, agent_id, tool.id)
