"""The agent that a person gets who asks for nothing in particular: its blocks and its model."""

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from eunoe.models.protocol import Models
from eunoe.models.providers import SCRIPTED, providers_from_env
from eunoe.state.blocks import BlockSpec
from eunoe.state.errors import InvalidInput

NAME: Final = "companion"
"""The name of the agent that `eunoe chat` creates in an empty store."""

DEMO: Final = "scripted/demo"
"""The model that answers when no provider is configured; it is no language model."""

DEMO_NOTICE: Final = (
    f"No model provider is configured, so {DEMO} answers. It is no language model: it recognises a few plain "
    "requests, so that you can see memory work. Set OPENAI_API_KEY, ANTHROPIC_API_KEY, OLLAMA_BASE_URL or another "
    "provider's variable for a real one."
)

DEFAULT_PERSONA: Final = (
    "I am a companion who stays. I keep what matters about the person I talk with, and I say plainly what I do not "
    "know."
)


def starting_blocks(human: str | None, persona: str | None, others: Iterable[str] = ()) -> tuple[BlockSpec, ...]:
    """Return the blocks of a new agent: ``human`` and ``persona`` always, and others given as ``LABEL=TEXT``.

    Raises ``InvalidInput`` for a text without a label and for a label that is given twice.
    """
    given = [(label, value) for label, value in (("human", human), ("persona", persona)) if value is not None]
    for text in others:
        label, equals, value = text.partition("=")
        if not equals:
            raise InvalidInput(f"A block is given as LABEL=TEXT, not {text!r}.", field="block")
        given.append((label, value))
    labels = [label for label, _ in given]
    twice = sorted({label for label in labels if labels.count(label) > 1})
    if twice:
        raise InvalidInput(f"Block {twice[0]!r} is given twice. Give it once.", field="block")
    values = {"human": "", "persona": DEFAULT_PERSONA, **dict(given)}
    return tuple(BlockSpec(label=label, value=value) for label, value in values.items())


class Choice(NamedTuple):
    """The model for a new agent. ``notice`` is what the person must know about it, if anything."""

    handle: str
    notice: str | None = None


async def choose_model(models: Models, environment: Mapping[str, str], wanted: str | None) -> Choice:
    """Choose for a new agent: the wanted model, else ``EUNOE_MODEL``, else a configured provider's first.

    With no provider configured it is ``DEMO``, with a notice: the local model is too small to be a first impression.
    Raises ``InvalidInput`` when providers are configured and none of them names a model.
    """
    named = wanted or environment.get("EUNOE_MODEL")
    if named:
        return Choice(named)
    configured = [name for name in providers_from_env(environment) if name != SCRIPTED.name]
    if not configured:
        return Choice(DEMO, DEMO_NOTICE)
    usable = [model for model in await models.list() if model.provider in configured]
    if not usable:
        raise InvalidInput(
            f"None of the configured providers ({', '.join(configured)}) could say which models it has. "
            "`eunoe doctor` says why; or name a model with --model or EUNOE_MODEL.",
            field="model",
        )
    return Choice(usable[0].handle)
