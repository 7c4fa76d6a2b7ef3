"""The blocks while a tool edits them: each change is judged at once, and nothing is stored until all have passed."""

from collections.abc import Callable, Sequence

from msgspec import UNSET, Struct, structs

from eunoe.memory.diff import short_diff
from eunoe.memory.verdict import check_change, check_new
from eunoe.state.blocks import Block, BlockChanges, BlockSpec
from eunoe.state.errors import Conflict, NotFound, ReadOnlyBlock


class Created(Struct, frozen=True, kw_only=True):
    """A block to create and attach to the agent."""

    spec: BlockSpec


class Changed(Struct, frozen=True, kw_only=True):
    """Changes to make to a block of the agent, already judged."""

    block_id: str
    changes: BlockChanges


class Detached(Struct, frozen=True, kw_only=True):
    """A block to detach from the agent; the block itself stays, for others may share it."""

    block_id: str


BlockEdit = Created | Changed | Detached


class Draft:
    """A working copy of an agent's blocks, and the edits that lead to it in the order in which they must be made.

    Labels are unique at each point of that order, also while blocks are renamed in turn. A change that changes
    nothing is left out.
    """

    def __init__(self, blocks: Sequence[Block]) -> None:
        self._blocks: dict[str, Block | BlockSpec] = {block.label: block for block in blocks}
        self._edits: list[BlockEdit] = []
        self._diffs: list[str] = []

    @property
    def edits(self) -> tuple[BlockEdit, ...]:
        """The edits so far."""
        return tuple(self._edits)

    @property
    def diff(self) -> str:
        """What changed in values so far, as short unified diffs."""
        return "\n".join(self._diffs)

    def rewrite(self, label: str, edit: Callable[[str], str]) -> str:
        """Put ``edit(value)`` in the place of a block's value and return it.

        Raises ``NotFound`` for an unknown label, ``ReadOnlyBlock``, what ``edit`` raises, and what the verdict on the
        new value is.
        """
        block = self._find(label)
        if block.read_only:
            raise ReadOnlyBlock(label)
        value = edit(block.value)
        self.change(label, BlockChanges(value=value))
        return value

    def change(self, label: str, changes: BlockChanges) -> None:
        """Change a block. Raises ``NotFound``, ``Conflict`` when a new label is taken, and what the verdict is."""
        block = self._find(label)
        if changes.label is not UNSET and changes.label != label:
            self._require_free(changes.label)
        if isinstance(block, Block):
            after = check_change(block, changes)
            if after != block:
                self._edits.append(Changed(block_id=block.id, changes=changes))
        else:
            after = _with_changes(block, changes)
            check_new(after)
            # Created as it ends up, and last: only now is it certain that its label is free at that point.
            self._edits.remove(Created(spec=block))
            self._edits.append(Created(spec=after))
        del self._blocks[label]
        self._blocks[after.label] = after
        self._record(after.label, block.value, after.value)

    def create(self, spec: BlockSpec) -> None:
        """Add a block. Raises ``Conflict`` when the label is taken, and what the verdict is."""
        check_new(spec)
        self._require_free(spec.label)
        self._blocks[spec.label] = spec
        self._edits.append(Created(spec=spec))
        self._record(spec.label, "", spec.value)

    def detach(self, label: str) -> None:
        """Take a block from the agent. Raises ``NotFound`` and ``ReadOnlyBlock``."""
        block = self._find(label)
        if block.read_only:
            raise ReadOnlyBlock(label)
        if isinstance(block, Block):
            self._edits.append(Detached(block_id=block.id))
        else:
            self._edits.remove(Created(spec=block))
        del self._blocks[label]
        self._record(label, block.value, "")

    def _find(self, label: str) -> Block | BlockSpec:
        block = self._blocks.get(label)
        if block is None:
            shown = [repr(name) for name in sorted(self._blocks) if not self._blocks[name].hidden]
            existing = f"The blocks of this agent are: {', '.join(shown)}." if shown else "This agent has no blocks."
            raise NotFound("block", label, f"Memory block {label!r} does not exist. {existing}")
        return block

    def _require_free(self, label: str) -> None:
        if label in self._blocks:
            raise Conflict(
                f"Memory block {label!r} already exists. Choose another label, or edit that block.", label=label
            )

    def _record(self, label: str, before: str, after: str) -> None:
        diff = short_diff(label, before, after)
        if diff:
            self._diffs.append(diff)


def _with_changes(spec: BlockSpec, changes: BlockChanges) -> BlockSpec:
    return structs.replace(spec, **{field: new for field, new in structs.asdict(changes).items() if new is not UNSET})
