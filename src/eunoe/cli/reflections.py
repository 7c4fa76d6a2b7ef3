"""``eunoe memory reflect`` and ``eunoe memory review``."""

from pathlib import Path

import click

from eunoe.cli.errors import BAD_INPUT, FAILED, Failure
from eunoe.cli.memory_reading import agent_of
from eunoe.cli.opening import Door, home_option, json_option, opened
from eunoe.cli.tables import write_json, write_table
from eunoe.cli.terminal import moment, printable
from eunoe.runtime.memory_branches import MergePolicy
from eunoe.runtime.reflecting import MOST_STEPS, find_trigger, remove_trigger, set_trigger
from eunoe.runtime.reflection import DEFAULT_SECONDS, reflect
from eunoe.runtime.reflection_review import (
    accept_reflection,
    list_reflections,
    reject_reflection,
    show_reflection,
)
from eunoe.state.reflections import REVIEWABLE, Reflection, ReflectionPolicy, ReflectionTrigger

policy_option = click.option(
    "--policy",
    type=click.Choice(["auto", "review"]),
    default="auto",
    show_default=True,
    help="Merge what collides with nothing, or keep all edits for a review.",
)
instructions_option = click.option("--instructions", metavar="TEXT", default="", help="What to look for.")
model_option = click.option("--model", metavar="HANDLE", help="The model that reflects. Default: the agent's.")


@click.command("reflect")
@click.argument("agent")
@home_option
@json_option
@policy_option
@instructions_option
@model_option
@click.option(
    "--timeout",
    "seconds",
    type=click.FloatRange(min=1),
    default=DEFAULT_SECONDS,
    show_default=True,
    help="Seconds after which it is cancelled.",
)
def reflect_command(
    agent: str,
    home: Path | None,
    as_json: bool,
    policy: ReflectionPolicy,
    instructions: str,
    model: str | None,
    seconds: float,
) -> None:
    """Let AGENT's memory files be brought up to date from what was said since the last time.

    Exit code 1 when it failed, or when its edits collide with memory.
    """
    with opened(home) as door:
        agent_id = agent_of(door, agent)
        done = door.call(
            lambda runtime: reflect(
                runtime, agent_id, policy=policy, instructions=instructions, model=model, seconds=seconds
            )
        )
    if as_json:
        write_json(done)
    else:
        click.echo(printable(f"{done.outcome}: {done.detail}"))
        if done.outcome in REVIEWABLE and done.tip not in {None, done.base}:
            click.echo(f"See its edits with: eunoe memory review {done.agent_id} {done.id}", err=True)
    if done.outcome in {"failed", "conflict"}:
        click.get_current_context().exit(FAILED)


@click.command()
@click.argument("agent")
@click.argument("reflection", required=False)
@home_option
@json_option
@click.option("--accept", is_flag=True, help="Merge its edits into memory.")
@click.option("--reject", is_flag=True, help="Drop its edits.")
@click.option(
    "--policy",
    type=click.Choice(["abort", "ours", "theirs", "both"]),
    default="abort",
    show_default=True,
    help="With --accept, where memory changed the same lines: nothing, memory's form, the reflection's, or both.",
)
@click.option("--all", "everything", is_flag=True, help="List those that wait for nobody too.")
def review(
    agent: str,
    reflection: str | None,
    home: Path | None,
    as_json: bool,
    accept: bool,
    reject: bool,
    policy: MergePolicy,
    everything: bool,
) -> None:
    """List the reflections of AGENT that wait for a person, or show the edits of one, accept or reject it.

    REFLECTION is its id or its end; it may be left out when only one waits.
    """
    if accept and reject:
        raise Failure("Either accept or reject.", BAD_INPUT)
    with opened(home) as door:
        agent_id = agent_of(door, agent)
        found = door.call(lambda runtime: list_reflections(runtime, agent_id))
        waiting = [one for one in found if _waits(one)]
        if reflection is None and not (accept or reject):
            _write_list(found if everything else waiting, as_json=as_json)
            return
        one = _meant(reflection, found if reflection else waiting)
        if accept or reject:
            _write_decided(_decide(door, one, policy if accept else None), as_json=as_json)
            return
        shown = door.call(lambda runtime: show_reflection(runtime, agent_id, one.id))
    if as_json:
        write_json(shown)
        return
    click.echo(printable(f"{one.outcome or 'goes on'}: {one.detail}"), err=True)
    if shown.worktree is not None:
        click.echo(
            printable(f"Its files are in {shown.worktree}; what you commit there is reviewed with it."), err=True
        )
    click.echo(printable(shown.diff), nl=False)


@click.command("reflect-when")
@click.argument("agent")
@home_option
@json_option
@click.option("--steps", type=click.IntRange(1, MOST_STEPS), help="After so many answers of its model.")
@click.option("--compaction", is_flag=True, help="After what was said was compacted.")
@policy_option
@instructions_option
@model_option
@click.option("--never", is_flag=True, help="Only when somebody asks, as it is by default.")
def reflect_when(
    agent: str,
    home: Path | None,
    as_json: bool,
    steps: int | None,
    compaction: bool,
    policy: ReflectionPolicy,
    instructions: str,
    model: str | None,
    never: bool,
) -> None:
    """Show, or set, when AGENT is reflected for by itself.

    It begins while a server or a chat runs on the store.
    """
    if never and (steps or compaction):
        raise Failure("Either --never, or when.", BAD_INPUT)
    if (instructions or model or policy != "auto") and not (steps or compaction):
        raise Failure("Say when, too: --steps or --compaction.", BAD_INPUT)
    with opened(home) as door:
        agent_id = agent_of(door, agent)
        found = door.call(lambda runtime: find_trigger(runtime, agent_id))
        if never and found is not None:
            door.call(lambda runtime: remove_trigger(runtime, agent_id))
            found = None
        if steps or compaction:
            trigger = ReflectionTrigger(
                agent_id=agent_id,
                every_steps=steps,
                after_compaction=compaction,
                policy=policy,
                instructions=instructions,
                model=model,
            )
            found = door.call(lambda runtime: set_trigger(runtime, trigger))
    if as_json:
        write_json(found)
    else:
        click.echo(printable(_when(found)))


def _when(trigger: ReflectionTrigger | None) -> str:
    if trigger is None:
        return "Reflects only when somebody asks."
    times = [f"after {trigger.every_steps} steps"] if trigger.every_steps else []
    times += ["after a compaction"] if trigger.after_compaction else []
    model = f", with {trigger.model}" if trigger.model else ""
    about = f"\nInstructions: {trigger.instructions}" if trigger.instructions else ""
    return f"Reflects {' and '.join(times)}, policy {trigger.policy}{model}.{about}"


def _waits(one: Reflection) -> bool:
    return one.outcome in REVIEWABLE and one.tip not in {None, one.base}


def _meant(text: str | None, found: list[Reflection]) -> Reflection:
    meant = [one for one in found if text is None or one.id == text or one.id.endswith(text)]
    if text is None and not meant:
        raise Failure("No reflection waits.", BAD_INPUT)
    if not meant:
        raise Failure(f"No reflection has the id, or the end of an id, {text!r}; --all lists them.", BAD_INPUT)
    if len(meant) > 1:
        raise Failure(f"{len(meant)} reflections fit; give the id of one.", BAD_INPUT)
    return meant[0]


def _decide(door: Door, one: Reflection, policy: MergePolicy | None) -> Reflection:
    if policy is None:
        return door.call(lambda runtime: reject_reflection(runtime, one.agent_id, one.id))
    return door.call(lambda runtime: accept_reflection(runtime, one.agent_id, one.id, policy=policy))


def _write_list(found: list[Reflection], *, as_json: bool) -> None:
    if as_json:
        write_json(found)
        return
    rows = [(one.id, moment(one.created_at), one.outcome or "goes on", one.detail) for one in found]
    write_table(("id", "begun", "outcome", "why"), rows)


def _write_decided(done: Reflection, *, as_json: bool) -> None:
    if as_json:
        write_json(done)
    else:
        click.echo(printable(f"{done.outcome}: {done.detail}"))
