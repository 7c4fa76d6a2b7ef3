"""``eunoe agents show``: what an agent is, what came back of it, and whether it is what was stored."""

from pathlib import Path
from typing import Final

import click
from msgspec import Struct

from eunoe.cli.errors import FAILED
from eunoe.cli.finding import find_agent
from eunoe.cli.opening import home_option, json_option, opened
from eunoe.cli.tables import write_json, write_table
from eunoe.cli.terminal import one_line, printable
from eunoe.runtime.fresh_memory import follow_memory
from eunoe.runtime.manifest import Manifest, Verification, manifest, verify
from eunoe.state.agents import AgentState
from eunoe.store import agents, conversations, messages
from eunoe.store.database import Transaction

_HASH: Final = 12
"""Hex digits of a hash that are shown; --json has them all."""

_VALUE: Final = 60
"""Characters of a block's value in the summary."""


class Summary(Struct, frozen=True, kw_only=True):
    """What ``show`` tells without options: the state, and how much of the default conversation is in context."""

    state: AgentState
    window_messages: int
    stored_messages: int


@click.command()
@click.argument("agent")
@home_option
@json_option
@click.option("--manifest", "as_manifest", is_flag=True, help="Every part with its revision, hash, size and source.")
@click.option(
    "--verify",
    "verifying",
    is_flag=True,
    help="Compile afresh and compare; exit code 1 on a difference that no change explains.",
)
def show(agent: str, home: Path | None, as_json: bool, as_manifest: bool, verifying: bool) -> None:
    """Show AGENT (id or name): model, blocks, tools and window."""
    with opened(home) as door:
        agent_id = door.read(lambda tx: find_agent(tx, agent)).id
        door.call(lambda runtime: follow_memory(runtime, agent_id))
        parts = door.call(lambda runtime: manifest(runtime, agent_id)) if as_manifest else None
        verification = door.call(lambda runtime: verify(runtime, agent_id)) if verifying else None
        summary = None if as_manifest or verifying else door.read(lambda tx: _summary(tx, agent_id))
    if as_json:
        told = {"agent": summary, "manifest": parts, "verification": verification}
        write_json({name: value for name, value in told.items() if value is not None})
    else:
        if summary is not None:
            _write_summary(summary)
        if parts is not None:
            _write_manifest(parts)
        if verification is not None:
            _write_verification(verification)
    if verification is not None and not verification.ok:
        click.get_current_context().exit(FAILED)


def _summary(tx: Transaction, agent_id: str) -> Summary:
    state = agents.state(tx, agent_id)
    return Summary(
        state=state,
        window_messages=len(conversations.window(tx, state.conversation)),
        stored_messages=messages.count(tx, agent_id),
    )


def _write_summary(summary: Summary) -> None:
    agent = summary.state.agent
    facts = [
        ("name", agent.name),
        ("id", agent.id),
        ("type", agent.agent_type),
        ("model", agent.model),
        ("context window", f"{agent.context_window} tokens"),
        ("messages", f"{summary.window_messages} in the window, {summary.stored_messages} stored"),
        ("tools", ", ".join(tool.name for tool in summary.state.tools) or "none"),
        ("tags", ", ".join(agent.tags) or "none"),
        ("secrets", ", ".join(secret.key for secret in summary.state.secrets) or "none"),
    ]
    for name, value in facts:
        click.echo(f"{name:<15}{printable(value)}")
    click.echo()
    rows = [
        (block.label, f"{len(block.value)} of {block.limit}", str(block.revision), one_line(block.value, _VALUE))
        for block in summary.state.blocks
    ]
    write_table(("block", ">characters", ">revision", "value"), rows)


def _write_manifest(found: Manifest) -> None:
    click.echo(f"{printable(found.name)} ({found.agent_id}) as stored in {found.store}\n")
    rows = [
        (
            part.kind,
            one_line(part.name, 40),
            (part.revision or "")[:_HASH],
            (part.hash or "")[:_HASH],
            str(part.characters),
            str(part.tokens),
            part.source,
        )
        for part in found.parts
    ]
    write_table(("part", "name", "revision", "hash", ">characters", ">tokens", "source"), rows)
    click.echo()
    sections = [(section.name, str(section.characters), str(section.tokens)) for section in found.sections]
    write_table(("section of the prompt", ">characters", ">tokens"), sections)
    if found.stale:
        click.echo("\nWhat the prompt shows has changed since it was compiled; the next run compiles it anew.")


def _write_verification(found: Verification) -> None:
    if not found.differences:
        click.echo("Verified: a fresh compile gives, byte for byte, what is stored.")
    for difference in found.differences:
        click.echo(printable(f"{'stale' if difference.stale else 'wrong'}: {difference.part}: {difference.what}"))
        if difference.diff:
            click.echo(printable(difference.diff))
    if found.ok and found.differences:
        click.echo("Verified: what is stored is in order, and the next run compiles what is stale.")
