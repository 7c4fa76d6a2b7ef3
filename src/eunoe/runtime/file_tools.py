"""Which tools an agent gets when its memory becomes files, and loses when it becomes blocks again."""

from eunoe.state.agents import AgentType
from eunoe.state.ids import named_id
from eunoe.store import tools
from eunoe.store.database import Transaction
from eunoe.tools.builtin import default_tools
from eunoe.tools.files import FILE_TOOLS


def attach_file_tools(tx: Transaction, agent_id: str, agent_type: AgentType) -> None:
    """Give an agent the tools that read memory files and skills, unless agents of its type have no tools at all.

    A tool of the user's that has taken one of the names is not given.
    """
    if not default_tools(agent_type):
        return
    known = tools.by_names(tx, FILE_TOOLS)
    held = {tool.name for tool in tools.of_agent(tx, agent_id)}
    for name in FILE_TOOLS:
        tool = known.get(name)
        if tool is not None and tool.id == named_id("tool", name) and name not in held:
            tools.attach(tx, agent_id, tool.id)


def detach_file_tools(tx: Transaction, agent_id: str) -> None:
    """Take those tools from an agent."""
    ours = {named_id("tool", name) for name in FILE_TOOLS}
    for tool in tools.of_agent(tx, agent_id):
        if tool.id in ours:
            tools.detach(tx, agent_id, tool.id)
