"""How a memory patch is read and applied: hunks for one block, or operations on several.

Source of the operations' headers: Letta v1's ``memory_apply_patch``. A rename belongs to the operation that it
follows and is done after it, and a patch takes effect whole or not at all.
"""

from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from eunoe.memory.draft import Draft
from eunoe.memory.guard import refuse_shown_marks
from eunoe.memory.hunks import Hunk, apply_hunks, parse_hunks
from eunoe.state.blocks import BlockChanges, BlockSpec
from eunoe.state.errors import InvalidInput

_ADD: Final = "*** Add Block:"
_DELETE: Final = "*** Delete Block:"
_UPDATE: Final = "*** Update Block:"
_MOVE: Final = "*** Move to:"
_FRAME: Final = ("*** Begin Patch", "*** End Patch", "*** End of File")
_DESCRIPTION: Final = "Description:"


class Operation(Struct, frozen=True, kw_only=True):
    """One operation of a patch: its header, the label it is about, its lines, and the label that it moves to."""

    header: str
    label: str
    body: tuple[str, ...]
    move_to: str | None


def apply_patch(patch: str, label: str | None, draft: Draft) -> str:
    """Apply a patch to the draft and return what the model is told.

    Without ``*** `` headers the patch is a unified diff of block ``label``, and its new value is returned; with them,
    each operation names its own block and a list of what was done is returned. Raises ``InvalidInput`` for a patch
    that cannot be read or does not fit, ``NotFound`` and ``Conflict`` for labels, and what the verdict is.
    """
    lines = patch.removesuffix("\n").split("\n")
    lines = [line for line in lines if line.rstrip() not in _FRAME]
    if not any(line.startswith("*** ") for line in lines):
        if label is None:
            raise InvalidInput("label is required for a patch that names no block.", field="label")
        return draft.rewrite(label, lambda value: _patched(value, parse_hunks(lines)))
    done = [line for operation in _read(lines) for line in _perform(operation, draft)]
    return "\n".join(["Successfully applied memory patch operations.", "", "Operations completed:", *done])


def _patched(value: str, hunks: Sequence[Hunk]) -> str:
    for hunk in hunks:
        refuse_shown_marks("\n".join(hunk.added), "patch")
    return apply_hunks(value, hunks)


def _read(lines: Sequence[str]) -> list[Operation]:
    operations: list[Operation] = []
    header, label, body, move_to = "", "", list[str](), None

    def close() -> None:
        if header:
            operations.append(Operation(header=header, label=label, body=tuple(body), move_to=move_to))

    for line in lines:
        opening = next((known for known in (_ADD, _DELETE, _UPDATE, _MOVE) if line.startswith(known)), None)
        if opening == _MOVE:
            if header in ("", _DELETE) or move_to is not None:
                raise InvalidInput(
                    f"Failed to apply patch: {line!r} follows no block that it could rename. Put it once, after an "
                    f"Add Block or Update Block.",
                    field="patch",
                )
            move_to = _label(line, _MOVE)
        elif opening is not None:
            close()
            header, label, body, move_to = opening, _label(line, opening), [], None
        elif line.startswith("*** ") or (not header and line.strip()):
            raise InvalidInput(
                f"Failed to apply patch: {line!r} belongs to no operation. No operations found before it; use "
                f"'{_ADD} label', '{_UPDATE} label', '{_DELETE} label' or '{_MOVE} label'.",
                field="patch",
            )
        else:
            body.append(line)
    close()
    return operations


def _label(line: str, header: str) -> str:
    label = line.removeprefix(header).strip()
    if not label:
        raise InvalidInput(f"Failed to apply patch: '{header}' names an empty label.", field="patch")
    return label


def _perform(operation: Operation, draft: Draft) -> list[str]:
    label, done = operation.label, list[str]()
    if operation.header == _DELETE:
        if any(line.strip() for line in operation.body):
            raise InvalidInput(f"Failed to apply patch: '{_DELETE} {label}' takes no lines.", field="patch")
        draft.detach(label)
        return [f"- Deleted memory block '{label}'"]
    if operation.header == _ADD:
        draft.create(_new_block(operation))
        done.append(f"- Created memory block '{label}'")
    elif operation.move_to is None or any(line.strip() for line in operation.body):
        draft.rewrite(label, lambda value: _patched(value, parse_hunks(operation.body)))
        done.append(f"- Updated memory block '{label}'")
    if operation.move_to is not None:
        draft.change(label, BlockChanges(label=operation.move_to))
        done.append(f"- Renamed memory block '{label}' to '{operation.move_to}'")
    return done


def _new_block(operation: Operation) -> BlockSpec:
    body = list(operation.body)
    description = None
    if body and body[0].startswith(_DESCRIPTION):
        description = body.pop(0).removeprefix(_DESCRIPTION).strip() or None
    while body and not body[-1]:
        body.pop()
    for line in body:
        if line and not line.startswith("+"):
            raise InvalidInput(
                f"Failed to apply patch: {line!r} in '{_ADD} {operation.label}' does not begin with '+'.", field="patch"
            )
    value = "\n".join(line[1:] for line in body)
    refuse_shown_marks(value, "patch")
    return BlockSpec(label=operation.label, value=value, description=description)
