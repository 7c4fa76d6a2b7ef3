"""Compaction: the older part of a window goes out of view, and a summary takes its place. History stays (I3).

The model is asked without holding the store. One transaction then stores the summary, the move of the window and the
prompt compiled afresh (I2), after making sure that what was summarised is still what goes out of view.
"""

from collections.abc import Callable
from datetime import datetime
from typing import Final, Literal

import msgspec
from msgspec import Struct, structs

from eunoe.models.protocol import ModelRequest, Models
from eunoe.runtime.commit import commit
from eunoe.runtime.compaction_settings import DEFAULT_PROMPTS, CompactionSettings
from eunoe.runtime.cuts import Cut, cut_all, cut_sliding, request_in_hand, worthwhile
from eunoe.runtime.opening import state_in
from eunoe.runtime.payload_view import fitted
from eunoe.runtime.prompts import refresh_prompt
from eunoe.runtime.summaries import Note, Summariser, Summary, SummaryJob, summarise
from eunoe.runtime.token_account import due, estimate_request, fixed_tokens, reserve_for
from eunoe.runtime.transcript import shorten
from eunoe.state.conversations import Conversation
from eunoe.state.errors import Conflict, InvalidInput, NotFound
from eunoe.state.ids import new_id
from eunoe.state.messages import Message, TextPart
from eunoe.state.runs import Usage
from eunoe.store import conversations, messages
from eunoe.store.database import Database, Transaction

Trigger = Literal["post_step_context_check", "context_window_exceeded", "manual"]

_ATTEMPTS: Final = 3
"""How often a summary is made anew because the window moved meanwhile."""
_LONGEST_REQUEST: Final = 8_000
"""Characters of the request in hand that the note repeats word for word."""


class CompactionStats(Struct, frozen=True, kw_only=True):
    """What a compaction did, in the wire's words. Tokens are estimates; messages count the system message too."""

    trigger: Trigger
    context_tokens_before: int
    context_tokens_after: int
    context_window: int
    messages_count_before: int
    messages_count_after: int


class Occasion(Struct, frozen=True, kw_only=True):
    """What is to be compacted, and why.

    ``request`` is the request that the window gives now, with messages as stored. ``context_tokens`` is the provider's
    last count, as for ``estimate_request``. ``fence`` is the lease of the run that compacts its own window; without it
    nobody's lease is asked for.
    """

    request: ModelRequest
    conversation: Conversation
    trigger: Trigger
    settings: CompactionSettings
    context_tokens: int | None = None
    fence: int | None = None
    run_id: str | None = None


class Compacted(Struct, frozen=True, kw_only=True):
    """A window after compaction, as it is stored: the summary first, then what stayed.

    ``system`` is the prompt compiled afresh, without what is added per request. ``text`` is the summary alone,
    ``usage`` what it cost.
    """

    summary: Message
    text: str
    conversation: Conversation
    window: tuple[Message, ...]
    system: str
    stats: CompactionStats
    usage: Usage
    notes: tuple[Note, ...]


class _Moved(Exception):
    """The window is no longer the one that was summarised."""


def is_due(request: ModelRequest, context_tokens: int | None) -> bool:
    """Say whether the window should be compacted before this fitted request is sent; see ``estimate_request``."""
    return due(estimate_request(request, context_tokens), request.model.context_window, reserve_for(request))


async def compact(
    database: Database, models: Models, occasion: Occasion, now: Callable[[], datetime]
) -> Compacted | None:
    """Compact a window, and return it as it is then; ``None`` when nothing can go out of view, or not enough to matter.

    Messages that are stored meanwhile stay in view. A failing summariser never fails the compaction: its notes say what
    stands in. Raises ``LeaseLost``, ``Conflict`` (the window keeps moving) and ``StoreError``; then nothing is stored.
    """
    for _ in range(_ATTEMPTS):
        cut = choose_cut(occasion)
        if cut is None:
            return None
        summary = await summarise(models, summary_job(models, occasion, cut))
        try:
            return await commit(database, lambda tx, o=occasion, c=cut, s=summary: _store(tx, o, c, s, now()))
        except _Moved:
            occasion = await database.read(lambda tx, o=occasion: _seen_again(tx, o))
    raise Conflict(
        f"Conversation {occasion.conversation.id} was changed {_ATTEMPTS} times while it was summarised. Compact it "
        "again when it is quiet.",
        conversation_id=occasion.conversation.id,
    )


def choose_cut(occasion: Occasion) -> Cut | None:
    """Decide what goes out of view (pure)."""
    request, settings = fitted(occasion.request), occasion.settings
    limit = request.model.context_window - reserve_for(request)
    estimated, counted = estimate_request(request), estimate_request(request, occasion.context_tokens)
    if counted > estimated:
        limit = limit * estimated // counted  # messages are weighed by estimate, and the provider counts more
    if settings.everything or limit <= 0:
        cut = cut_all(request.messages)
    else:
        goal = int((1 - settings.sliding_window_percentage) * limit)
        if occasion.trigger == "context_window_exceeded":
            goal //= 2  # the estimate was below the limit, and wrong
        goal -= fixed_tokens(request.system, request.tools)
        cut = cut_sliding(request.messages, share=settings.sliding_window_percentage, goal=goal)
    if cut is None or (occasion.trigger == "post_step_context_check" and not worthwhile(cut, limit)):
        return None
    return cut


def summary_job(models: Models, occasion: Occasion, cut: Cut) -> SummaryJob:
    """Say who summarises what: the summariser of the settings, and the agent's own model after it."""
    settings, request = occasion.settings, fitted(occasion.request)
    chosen = _chosen(models, settings)
    own = Summariser(model=request.model, settings=(settings.model_settings or {}) if settings.model is None else {})
    view = None
    if settings.by_itself:
        own_settings = {key: value for key, value in request.settings.items() if key != "response_format"}
        view = structs.replace(request, messages=cut.evicted, settings=own_settings)
    default = DEFAULT_PROMPTS["all" if settings.everything else "sliding_window"]
    return SummaryJob(
        messages=cut.evicted,
        instruction=default if settings.by_itself else settings.instruction,
        summarisers=(chosen, own) if isinstance(chosen, Summariser) else (own,),
        longest=_longest(occasion),
        acknowledgement=settings.prompt_acknowledgement,
        view=view,
        view_instruction=settings.instruction,
        notes=(chosen,) if isinstance(chosen, Note) else (),
    )


def _chosen(models: Models, settings: CompactionSettings) -> Summariser | Note | None:
    if settings.model is None:
        return None
    try:
        model = models.resolve(settings.model)
    except (InvalidInput, NotFound) as error:
        return Note(kind="model_unresolved", detail=f"The agent's own model summarises instead: {error.message}")
    return Summariser(model=model, settings=settings.model_settings or {})


def _longest(occasion: Occasion) -> int:
    """Return the most characters of a summary: the settings' figure, but never more than a quarter of the window.

    At four characters a token, a quarter of the window in characters is its figure in tokens.
    """
    window = occasion.request.model.context_window
    limits = [limit for limit in (occasion.settings.clip_chars, window or None) if limit]
    return min(limits, default=50_000)


def _store(tx: Transaction, occasion: Occasion, cut: Cut, summary: Summary, now: datetime) -> Compacted:
    if occasion.fence is not None:
        conversations.hold(tx, occasion.conversation.id, occasion.fence)
    stored = conversations.get(tx, occasion.conversation.id)
    window = conversations.window(tx, stored)
    if [message.id for message in window[: len(cut.evicted)]] != [message.id for message in cut.evicted]:
        raise _Moved
    kept = window[len(cut.evicted) :]
    window_from = kept[0].position if kept else stored.next_position
    # The summary tells how large the new prompt is, so the window moves and the prompt is compiled before it is stored.
    moved = conversations.update(tx, structs.replace(stored, window_from=window_from, summary_message_id=None), now=now)
    state, moved = state_in(tx, moved.agent_id, moved.id)
    prompt = refresh_prompt(tx, state, moved, occasion.request.model, now, renew_facts=True)
    unstored = _summary_message(occasion, cut, summary, now)
    stats = _stats(occasion, len(window), (unstored, *kept), prompt.text)
    meta = {**unstored.meta, "compaction_stats": msgspec.to_builtins(stats)}
    message = messages.append(tx, stored.id, [structs.replace(unstored, meta=meta)], now)[0]
    moved = structs.replace(conversations.get(tx, stored.id), summary_message_id=message.id)
    conversation = conversations.update(tx, moved, now=now)
    return Compacted(
        summary=message,
        text=summary.text,
        conversation=conversation,
        window=(message, *kept),
        system=prompt.text,
        stats=stats,
        usage=summary.usage,
        notes=summary.notes,
    )


def _summary_message(occasion: Occasion, cut: Cut, summary: Summary, now: datetime) -> Message:
    hidden = sum(message.role != "summary" for message in cut.evicted)
    hidden += sum(message.meta.get("messages_hidden", 0) for message in cut.evicted if message.role == "summary")
    note = (
        f"Note: {hidden} earlier messages of this conversation are out of view. They are kept, and a search of the "
        f"conversation finds them. What they held, in short:\n\n{summary.text}"
    )
    in_hand = request_in_hand(cut) if occasion.fence is not None else None
    if in_hand is not None and in_hand.text:
        quoted = shorten(in_hand.text, min(_LONGEST_REQUEST, _longest(occasion)))
        note += f"\n\nThe request that you are working on, word for word:\n\n{quoted}"
    return Message(
        id=new_id("message"),
        agent_id=occasion.conversation.agent_id,
        conversation_id=occasion.conversation.id,
        role="summary",
        parts=(TextPart(text=note),),
        created_at=now,
        run_id=occasion.run_id,
        meta={
            "messages_hidden": hidden,
            "usage": msgspec.to_builtins(summary.usage),
            "fallback": [msgspec.to_builtins(note) for note in summary.notes] or None,
        },
    )


def _stats(occasion: Occasion, before: int, window: tuple[Message, ...], system: str) -> CompactionStats:
    after = fitted(structs.replace(occasion.request, system=system, messages=window))
    return CompactionStats(
        trigger=occasion.trigger,
        context_tokens_before=estimate_request(fitted(occasion.request), occasion.context_tokens),
        context_tokens_after=estimate_request(after),
        context_window=occasion.request.model.context_window,
        messages_count_before=before + 1,
        messages_count_after=len(window) + 1,
    )


def _seen_again(tx: Transaction, occasion: Occasion) -> Occasion:
    conversation = conversations.get(tx, occasion.conversation.id)
    window = conversations.window(tx, conversation)
    return structs.replace(
        occasion, conversation=conversation, request=structs.replace(occasion.request, messages=window)
    )
