"""Blocks as Letta v1 shows them."""

from typing import Any

from eunoe.server.wire.dates import instant
from eunoe.state.blocks import Block, BlockRevision


def block(value: Block) -> dict[str, Any]:
    """Return the wire's block object; its key order is the wire's."""
    return {
        "value": value.value,
        "limit": value.limit,
        "project_id": value.extra.get("project_id"),
        "template_name": value.extra.get("template_name"),
        "is_template": value.extra.get("is_template", False),
        "template_id": value.extra.get("template_id"),
        "base_template_id": value.extra.get("base_template_id"),
        "deployment_id": value.extra.get("deployment_id"),
        "entity_id": value.extra.get("entity_id"),
        "preserve_on_migration": value.extra.get("preserve_on_migration", False),
        "label": value.label,
        "read_only": value.read_only,
        "description": value.description,
        "metadata": value.metadata,
        "hidden": value.hidden or None,
        "id": value.id,
        "created_by_id": None,
        "last_updated_by_id": None,
        "tags": list(value.tags),
    }


def revision(value: BlockRevision) -> dict[str, Any]:
    """Return one past state of a block (Eunoe's own object)."""
    return {
        "block_id": value.block_id,
        "revision": value.revision,
        "label": value.label,
        "value": value.value,
        "limit": value.limit,
        "description": value.description,
        "read_only": value.read_only,
        "actor": value.actor,
        "run_id": value.run_id,
        "why": value.why,
        "created_at": instant(value.created_at),
    }


def entity_tag(value: Block) -> dict[str, str]:
    """Return the header that names the block's revision; a client sends it back as ``If-Match``."""
    return {"etag": f'"{value.revision}"'}
