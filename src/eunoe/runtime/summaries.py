"""Asking for a summary: whole, else in slices, else without a model; there is always one in the end.

A request is never repeated as it was: an empty answer or an overflow leads to smaller slices, any other failure to
the next summariser. Calls and time are bounded.
"""

from collections.abc import Sequence
from contextlib import aclosing
from typing import Any, Final, Literal

import anyio
from msgspec import Struct, structs

from eunoe.models.protocol import Completed, Failed, ModelInfo, ModelRequest, Models
from eunoe.models.settings import read_settings
from eunoe.runtime.token_account import answer_reserve
from eunoe.runtime.transcript import extract, pieces_within, shorten
from eunoe.state.errors import InvalidInput, NotFound
from eunoe.state.ids import new_id
from eunoe.state.messages import Message, Role, TextPart
from eunoe.state.runs import Usage

MOST_CALLS: Final = 12
"""Model calls for one summary."""
MOST_SECONDS: Final = 240.0
"""Time for one summary; then the extract takes its place."""
_MOST_PIECES: Final = 5
_MOST_ATTEMPTS: Final = 4
"""How often a summariser is asked with ever smaller slices."""
_SMALLEST: Final = 250
"""Bytes of transcript below which slices are not made smaller."""
_UNKNOWN_WINDOW: Final = 16_000
"""Tokens that are assumed of a summariser whose window is not known."""
_BYTES_PER_TOKEN: Final = 3
"""Below the usual four, so that a slice of code or figures still fits."""

_BYTES_PER_CHARACTER: Final = 3
"""The most that text in any script in use takes on the average."""

_ACKNOWLEDGED: Final = "Understood. I will answer with the notes alone."

NoteKind = Literal["model_unresolved", "model_failed", "empty_summary", "timed_out", "clipped", "mechanical"]


class Note(Struct, frozen=True, kw_only=True):
    """Something that did not go as the settings ask; it is stored with the summary and never hidden."""

    kind: NoteKind
    detail: str


class Summariser(Struct, frozen=True, kw_only=True):
    """A model that may be asked for a summary, with its settings in the wire's form."""

    model: ModelInfo
    settings: dict[str, Any] = {}


class SummaryJob(Struct, frozen=True, kw_only=True):
    """What is to be summarised and by whom.

    ``view`` is the request that the agent's own model last saw, cut down to the messages to be summarised: with it that
    model is asked first. ``longest`` is in characters. ``notes`` are what went otherwise than wanted before.
    """

    messages: tuple[Message, ...]
    instruction: str
    summarisers: tuple[Summariser, ...]
    longest: int
    acknowledgement: bool = False
    view: ModelRequest | None = None
    view_instruction: str = ""
    notes: tuple[Note, ...] = ()


class Summary(Struct, frozen=True, kw_only=True):
    """A summary, how many model calls it took and what they used, and what went otherwise than wanted."""

    text: str
    calls: int
    usage: Usage
    notes: tuple[Note, ...] = ()


class _Refused(Exception):
    """No summary came of a request; ``note`` says why. The next summariser is asked."""

    def __init__(self, note: Note) -> None:
        super().__init__(note.detail)
        self.note = note


class _TooMuch(_Refused):
    """As ``_Refused``, and smaller slices than this many bytes may help."""

    def __init__(self, note: Note, size: int) -> None:
        super().__init__(note)
        self.size = size


async def summarise(models: Models, job: SummaryJob, *, seconds: float = MOST_SECONDS) -> Summary:
    """Return a summary of the job's messages, by the first of its summarisers that gives one.

    When none does within ``seconds``, it is an extract made without a model, and marked so. Nothing but cancellation
    stops it.
    """
    asking = _Asking(models, job)
    text: str | None = None
    with anyio.move_on_after(seconds) as scope:
        text = await asking.run()
    if scope.cancelled_caught:
        asking.notes.append(Note(kind="timed_out", detail=f"No summary came within {seconds:g} seconds."))
    if text is None:
        asking.notes.append(Note(kind="mechanical", detail="The summary is an extract made without a model."))
        text = extract(job.messages, job.longest)
    if len(text) > job.longest:
        asking.notes.append(Note(kind="clipped", detail=f"{len(text)} characters were cut to {job.longest}."))
        text = f"{text[: job.longest]}\n[The summary was cut here.]"
    return Summary(text=text, calls=asking.calls, usage=asking.usage, notes=tuple(asking.notes))


class _Asking:
    """One job in hand: how often was asked, and what has to be told."""

    def __init__(self, models: Models, job: SummaryJob) -> None:
        self.calls = 0
        self.usage = Usage()
        self.notes: list[Note] = list(job.notes)
        self._models = models
        self._job = job

    async def run(self) -> str | None:
        try:
            if self._job.view is not None:
                return await self._ask_own_view(self._job.view)
        except _Refused as refusal:
            self.notes.append(refusal.note)
        for summariser in self._job.summarisers:
            try:
                return await self._ask_in_slices(summariser)
            except _Refused as refusal:
                self.notes.append(refusal.note)
        return None

    async def _ask_own_view(self, view: ModelRequest) -> str:
        asked = _said("user", self._job.view_instruction, self._job.messages[-1])
        return await self._ask(structs.replace(view, messages=(*view.messages, asked)), size=0)

    async def _ask_in_slices(self, summariser: Summariser) -> str:
        """Ask with slices as large as the summariser's window, then with halves, and halves of these."""
        try:
            room = slice_room(summariser, self._job.instruction)
        except InvalidInput as error:
            raise _Refused(Note(kind="model_failed", detail=f"{summariser.model.handle}: {error.message}")) from error
        for attempt in range(1, _MOST_ATTEMPTS + 1):
            try:
                return await self._condense(summariser, pieces_within(self._job.messages, room, _MOST_PIECES), room)
            except _TooMuch as refusal:
                room = min(room, refusal.size) * 3 // 5  # a little above half, so that halves of uneven entries fit
                if attempt == _MOST_ATTEMPTS or room < _SMALLEST:
                    raise
        raise AssertionError("every attempt returns or raises")

    async def _condense(self, summariser: Summariser, pieces: Sequence[str], room: int) -> str:
        """Summarise each piece, then the summaries together."""
        parts = [await self._ask(self._request(summariser, piece), size=len(piece.encode())) for piece in pieces]
        if len(parts) == 1:
            return parts[0]
        longest = room // (_BYTES_PER_CHARACTER * len(parts))
        short = [f"[notes, part {i} of {len(parts)}]\n{shorten(text, longest)}" for i, text in enumerate(parts, 1)]
        together = "\n\n".join(short)
        return await self._ask(self._request(summariser, together), size=len(together.encode()))

    def _request(self, summariser: Summariser, piece: str) -> ModelRequest:
        job, last = self._job, self._job.messages[-1]
        transcript = f"<transcript>\n{piece.replace('</transcript>', '&lt;/transcript>')}\n</transcript>"
        told = [_said("user", transcript, last)]
        if job.acknowledgement:
            told = [_said("user", job.instruction, last), _said("assistant", _ACKNOWLEDGED, last), *told]
        return ModelRequest(
            model=summariser.model, system=job.instruction, messages=tuple(told), settings=summariser.settings
        )

    async def _ask(self, request: ModelRequest, *, size: int) -> str:
        """Return the answer's text. Raises ``_TooMuch`` when less than ``size`` bytes may help, else ``_Refused``."""
        handle = request.model.handle
        if self.calls >= MOST_CALLS:
            raise _Refused(Note(kind="model_failed", detail=f"{handle} gave no summary within {MOST_CALLS} calls."))
        try:
            payload = self._models.payload(request)
        except (InvalidInput, NotFound) as error:
            raise _Refused(Note(kind="model_failed", detail=f"{handle}: {error.message}")) from error
        self.calls += 1
        async with aclosing(self._models.stream(request, payload)) as stream:
            async for event in stream:
                if isinstance(event, Completed):
                    self.usage = self.usage.plus(event.usage)
                    return _text_of(event, handle, size)
                if isinstance(event, Failed):
                    note = Note(kind="model_failed", detail=f"{handle}: {event.error.message}")
                    if event.error.kind in ("context_overflow", "invalid_response"):
                        raise _TooMuch(note, size) from event.error
                    raise _Refused(note) from event.error
        raise AssertionError(f"the stream of {handle} ended without a terminal event")


def _text_of(answer: Completed, handle: str, size: int) -> str:
    text = "".join(part.text for part in answer.parts if isinstance(part, TextPart)).strip()
    if not text:
        raise _TooMuch(Note(kind="empty_summary", detail=f"{handle} answered a request for notes with no text."), size)
    return text


def slice_room(summariser: Summariser, instruction: str) -> int:
    """Return how many bytes of transcript one request to this summariser can take, by its own window.

    Raises ``InvalidInput`` when its settings are not valid.
    """
    window = summariser.model.context_window or _UNKNOWN_WINDOW
    model = structs.replace(summariser.model, context_window=window)
    reserve = answer_reserve(model, read_settings(summariser.settings).max_output_tokens)
    return max(_SMALLEST, (window - reserve) * _BYTES_PER_TOKEN - len(instruction.encode()))


def _said(role: Role, text: str, like: Message) -> Message:
    return Message(
        id=new_id("message"),
        agent_id=like.agent_id,
        conversation_id=like.conversation_id,
        role=role,
        parts=(TextPart(text=text),),
        created_at=like.created_at,
    )
