"""Every error that Eunoe raises on purpose.

::

    EunoeError
    ├── InvalidInput            a value that the caller must change              (400, or 422 with a field)
    │   ├── BlockLimitExceeded  a block value longer than its limit              (422)
    │   └── ReadOnlyBlock       a write to a block that is read-only             (422)
    ├── NotFound                no such object                                   (404)
    ├── Conflict                the object is not in the state that is needed    (409)
    │   ├── StaleRevision       the write was based on an older revision
    │   ├── LabelTaken          the agent already has a block of that label
    │   ├── ConversationBusy    another run holds the conversation's lease
    │   └── PendingApproval     the conversation waits for an answer
    ├── LeaseLost               this run no longer holds its conversation
    ├── StoreError              the store cannot do what was asked               (503)
    │   ├── StoreTooNew         the file was written by a newer Eunoe
    │   ├── StoreLocked         another process holds the file too long
    │   ├── StoreFull           the disk is full
    │   └── StoreUnwritable     the path cannot be opened or written
    ├── ModelError              a model endpoint failed; ``kind`` says how       (401, 402, 429, 502 to 504)
    └── McpError                an MCP server failed; ``kind`` says how          (400, 408, 502)

The edge (``server``, ``cli``) maps these to HTTP statuses and exit codes; nothing else does.
"""

from collections.abc import Sequence
from typing import Any, Final, Literal


class EunoeError(Exception):
    """An error with a sentence for the person who must act.

    ``code`` is a stable machine-readable word; ``details`` are JSON values that go with it.
    """

    code: str = "ERROR"

    def __init__(self, message: str, **details: Any) -> None:
        super().__init__(message)
        self.message: Final = message
        self.details: Final = details


class InvalidInput(EunoeError):
    """A value that the caller must change. ``field`` names it where there is one (dotted path)."""

    code = "INVALID_ARGUMENT"

    def __init__(self, message: str, *, field: str | None = None, **details: Any) -> None:
        super().__init__(message, **details)
        self.field: Final = field


class BlockLimitExceeded(InvalidInput):
    """A block value is longer than the block's limit (both in characters)."""

    code = "BLOCK_LIMIT_EXCEEDED"

    def __init__(self, label: str | None, limit: int, actual: int) -> None:
        name = repr(label) if label is not None else "without a label"
        super().__init__(
            f"Block {name} takes at most {limit} characters, and the new value has {actual}. "
            f"Shorten the value or raise the block's limit.",
            field="value",
            label=label,
            limit=limit,
            actual=actual,
        )


class ReadOnlyBlock(InvalidInput):
    """A write to a block that is marked read-only."""

    code = "BLOCK_READ_ONLY"

    def __init__(self, label: str | None) -> None:
        name = repr(label) if label is not None else "without a label"
        super().__init__(
            f"Block {name} is read-only and cannot be edited. Its owner can change it by setting read_only to false in "
            f"the same request.",
            field="value",
            label=label,
        )


class NotFound(EunoeError):
    """No object of this kind has this id (or name)."""

    code = "NOT_FOUND"

    def __init__(self, kind: str, key: str, message: str | None = None) -> None:
        super().__init__(message or f"{kind} {key} not found", kind=kind, key=key)


class Conflict(EunoeError):
    """The object is not in the state that the request needs."""

    code = "CONFLICT"


class StaleRevision(Conflict):
    """A write named a revision that is no longer the current one (I8). ``paths`` are files that were changed since."""

    code = "STALE_REVISION"

    def __init__(self, kind: str, key: str, expected: int | str, current: int | str, paths: Sequence[str] = ()) -> None:
        both = f" Both changed {', '.join(map(repr, paths))}." if paths else ""
        super().__init__(
            f"{kind} {key} is at revision {current}, and this write was based on revision {expected}.{both} "
            f"Read it again and repeat the change on the current value.",
            expected_revision=expected,
            current_revision=current,
            **({"paths": list(paths)} if paths else {}),
        )


class LabelTaken(Conflict):
    """An agent cannot have two blocks of one label."""

    code = "LABEL_TAKEN"

    def __init__(self, agent_id: str, label: str) -> None:
        super().__init__(
            f"Agent {agent_id} already has a block with label {label!r}. "
            f"Detach that block first, or give this one another label.",
            agent_id=agent_id,
            label=label,
        )


class ConversationBusy(Conflict):
    """Another run holds the conversation's lease (I11)."""

    code = "CONVERSATION_BUSY"

    def __init__(self, conversation_id: str, run_id: str) -> None:
        super().__init__(
            f"Conversation {conversation_id} is busy with run {run_id}. Wait for that run to end, or cancel it.",
            run_id=run_id,
            conversation_id=conversation_id,
        )


class PendingApproval(Conflict):
    """The conversation waits for an answer to an approval request."""

    code = "PENDING_APPROVAL"

    def __init__(self, request_id: str) -> None:
        super().__init__(
            "Cannot send a new message: the agent is waiting for approval on a tool call. "
            "Approve or deny the pending request first.",
            pending_request_id=request_id,
        )


class LeaseLost(EunoeError):
    """This run's fencing number is no longer the conversation's: another run took over (I11)."""

    code = "LEASE_LOST"


class StoreError(EunoeError):
    """The store cannot do what was asked; what was stored before is as it was."""

    code = "STORE_ERROR"


class StoreTooNew(StoreError):
    """The store was written by a newer version of Eunoe."""

    code = "STORE_TOO_NEW"


class StoreLocked(StoreError):
    """Another process held the store's write lock for longer than the wait allows."""

    code = "STORE_LOCKED"


class StoreFull(StoreError):
    """The disk is full; nothing of the transaction was stored."""

    code = "STORE_FULL"


class StoreUnwritable(StoreError):
    """The store's path cannot be opened, created or written."""

    code = "STORE_UNWRITABLE"


ModelErrorKind = Literal[
    "unreachable",
    "timeout",
    "authentication",
    "permission",
    "insufficient_credits",
    "rate_limit",
    "overloaded",
    "context_overflow",
    "invalid_request",
    "invalid_response",
    "interrupted",
    "server_error",
]


class ModelError(EunoeError):
    """A model endpoint failed.

    ``kind`` says how; ``status`` is the endpoint's HTTP status where it gave one; ``retry_after`` is what it asked
    for in seconds; ``started`` says whether output had already been received (then it is never retried).
    """

    code = "MODEL_ERROR"

    def __init__(
        self,
        kind: ModelErrorKind,
        message: str,
        *,
        provider: str,
        status: int | None = None,
        retry_after: float | None = None,
        started: bool = False,
    ) -> None:
        super().__init__(message, kind=kind, provider=provider, status=status)
        self.kind: Final = kind
        self.provider: Final = provider
        self.status: Final = status
        self.retry_after: Final = retry_after
        self.started: Final = started


McpErrorKind = Literal["forbidden", "unreachable", "refused", "timeout", "ended", "invalid_response"]


class McpError(EunoeError):
    """An MCP server failed, or may not be asked.

    ``kind`` says how: ``forbidden`` (this Eunoe may not call the address or start the program), ``unreachable``,
    ``refused`` (it answered with an error of HTTP, whose status is ``status``, or of the protocol), ``timeout``,
    ``ended`` (the connection ended before the answer) and ``invalid_response``.
    """

    code = "MCP_ERROR"

    def __init__(self, kind: McpErrorKind, message: str, *, server: str, status: int | None = None) -> None:
        super().__init__(message, kind=kind, server=server, status=status)
        self.kind: Final = kind
        self.server: Final = server
        self.status: Final = status
