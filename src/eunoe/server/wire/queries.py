"""The query parameters that Letta v1's clients send, as types. Lists repeat the name, with or without ``[]``."""

from typing import Annotated, Literal

from msgspec import Meta, Struct

from eunoe.server.wire.requests import Moment

Order = Literal["asc", "desc"]
Limit = Annotated[int, Meta(ge=1, le=1000, description="The most items to return, 1 to 1000.")]

Count = Annotated[int, Meta(ge=0, le=2**31 - 1)]


class NoQuery(Struct):
    """No parameters."""


class WhyQuery(Struct):
    """The reason of a change, which history keeps (Eunoe's own)."""

    why: str = ""


class PageQuery(Struct, kw_only=True):
    """Which part of a list. ``before`` and ``after`` are ids, exclusive, relative to the asked order."""

    before: str | None = None
    after: str | None = None
    limit: Limit = 50
    order: Order = "desc"


class IncludeQuery(Struct, kw_only=True):
    """Which relationships of an agent the answer carries."""

    include: list[str] | None = None
    include_relationships: list[str] | None = None


class AgentFilter(Struct, kw_only=True):
    """Which agents."""

    name: str | None = None
    tags: list[str] | None = None
    match_all_tags: bool = False
    query_text: str | None = None
    identity_id: str | None = None
    identifier_keys: list[str] | None = None
    last_stop_reason: str | None = None
    show_hidden_agents: bool = False


class AgentsQuery(AgentFilter, kw_only=True):
    """A page of agents."""

    before: str | None = None
    after: str | None = None
    limit: Limit = 50
    order: Order = "desc"
    order_by: Literal["created_at", "updated_at", "last_run_completion"] = "created_at"
    include: list[str] | None = None
    include_relationships: list[str] | None = None


class BlockFilter(Struct, kw_only=True):
    """Which blocks."""

    label: str | None = None
    tags: list[str] | None = None
    match_all_tags: bool = False
    templates_only: bool = False
    label_search: str | None = None
    description_search: str | None = None
    value_search: str | None = None
    connected_to_agents_count_gt: Count | None = None
    connected_to_agents_count_lt: Count | None = None
    connected_to_agents_count_eq: list[Count] | None = None
    show_hidden_blocks: bool = False


class BlocksQuery(BlockFilter, kw_only=True):
    """A page of blocks, oldest first by default."""

    before: str | None = None
    after: str | None = None
    limit: Limit = 50
    order: Order = "asc"


class AgentBlocksQuery(PageQuery, kw_only=True):
    """A page of an agent's blocks."""

    limit: Limit = 100
    order: Order = "asc"


class AgentToolsQuery(PageQuery, kw_only=True):
    """A page of an agent's tools, in order of attachment by default."""

    limit: Limit = 10
    order: Order = "asc"


class BlockAgentsQuery(PageQuery, kw_only=True):
    """A page of the agents that have a block."""

    include: list[str] | None = None
    include_relationships: list[str] | None = None


class RevisionsQuery(Struct, kw_only=True):
    """A page of a block's past, newest first."""

    limit: Limit = 50
    before_revision: Count | None = None


class ShownMessages(PageQuery, kw_only=True):
    """A page of messages, newest first by default, and how they are shown."""

    limit: Limit = 100
    include_return_message_types: list[str] | None = None
    use_assistant_message: bool = True
    assistant_message_tool_name: str = "send_message"
    assistant_message_tool_kwarg: str = "message"
    include_compaction_messages: bool | None = None
    """Eunoe's own: true shows each compaction as an event and its summary, false packed as a user's message."""


class MessagesQuery(ShownMessages, kw_only=True):
    """A page of messages of one agent or of all."""

    conversation_id: str | None = None
    group_id: str | None = None
    include_err: bool | None = None


class ConversationMessagesQuery(ShownMessages, kw_only=True):
    """A page of a conversation's messages; ``agent_id`` says whose ``default`` one."""

    agent_id: str | None = None


class RunMessagesQuery(ShownMessages, kw_only=True):
    """A page of a run's messages, oldest first by default."""

    order: Order = "asc"


class RunsQuery(PageQuery, kw_only=True):
    """A page of runs."""

    limit: Limit = 100
    agent_id: str | None = None
    agent_ids: list[str] | None = None
    statuses: list[str] | None = None
    background: bool | None = None
    stop_reason: str | None = None
    conversation_id: str | None = None
    active: bool = False
    ascending: bool | None = None
    """Deprecated: ``order``."""


class StepsQuery(PageQuery, kw_only=True):
    """A page of steps. ``start_date`` and ``end_date`` bound the time of creation, both included."""

    agent_id: str | None = None
    model: str | None = None
    start_date: Moment | None = None
    end_date: Moment | None = None


class ToolFilter(Struct, kw_only=True):
    """Which tools."""

    name: str | None = None
    names: list[str] | None = None
    tool_ids: list[str] | None = None
    search: str | None = None
    tool_types: list[str] | None = None
    exclude_tool_types: list[str] | None = None
    return_only_letta_tools: bool = False


class ToolsQuery(ToolFilter, kw_only=True):
    """A page of tools."""

    before: str | None = None
    after: str | None = None
    limit: Limit = 50
    order: Order = "desc"


class IdentitiesQuery(PageQuery, kw_only=True):
    """A page of identities."""

    name: str | None = None
    identifier_key: str | None = None
    identity_type: str | None = None


class TagsQuery(Struct, kw_only=True):
    """A page of tags; cursors are tags."""

    before: str | None = None
    after: str | None = None
    limit: Limit = 50
    order: Order = "asc"
    name: str | None = None
    query_text: str | None = None


class ApprovalQuery(IncludeQuery, kw_only=True):
    """Whether calls of a tool wait for a person's answer (deprecated: send it in the body)."""

    requires_approval: bool | None = None


class RecompileQuery(Struct, kw_only=True):
    """How to compile an agent's prompt afresh."""

    update_timestamp: bool = False
    dry_run: bool = False
    conversation_id: str | None = None


class ConversationQuery(Struct, kw_only=True):
    """Which conversation; the default one when none is named."""

    conversation_id: str | None = None


class OwnerQuery(Struct, kw_only=True):
    """Whose ``default`` conversation."""

    agent_id: str | None = None


class ConversationsQuery(PageQuery, kw_only=True):
    """A page of conversations; the default ones are not among them."""

    agent_id: str | None = None
    order_by: Literal["created_at", "last_message_at", "last_run_completion"] = "created_at"
    summary_search: str | None = None


class ForkQuery(OwnerQuery, kw_only=True):
    """Where to fork: after which message; after the last one when none is named."""

    message_id: str | None = None


class ConversationRecompileQuery(OwnerQuery, kw_only=True):
    """How to compile a conversation's prompt afresh."""

    update_timestamp: bool = False
    dry_run: bool = False


class ManifestQuery(Struct, kw_only=True):
    """Whether the manifest comes with its verification."""

    verify: bool = False


class ModelsQuery(Struct, kw_only=True):
    """Which models."""

    provider_name: str | None = None
    provider_type: str | None = None
    provider_category: list[str] | None = None
