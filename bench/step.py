"""What a turn costs outside the model: one user message over HTTP, not streamed, two blocks, SQLite.

The floor is one echo through the same HTTP stack with two durable transactions of the same bytes. Both are asked in
turn from one client. The model is the scripted one, whose time the step's record tells. Then it is an endpoint over
HTTP whose own time is subtracted, so that what the program spends on being a client shows too; that is told and not
judged, for most of it is the HTTP library's.

Judged are the first turns of a new store, and told also later ones: by then SQLite writes the floor's log over and over
and no longer lets it grow, and a sync of such a file costs less. (A turn writes so much more that this is so from its
first dozens on.)
"""

import sqlite3
import sys
import tempfile
from contextlib import closing
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from bench.client import Client, new_agent
from bench.clock import median
from bench.figures import Figure, against
from bench.model_endpoint import MODEL, ModelEndpoint, model_endpoint
from bench.processes import eunoe_serve, serving

TIMES: Final = 3.0
ROUNDS: Final = 3
"""New stores that are measured one after another: the machine's own ups and downs last longer than one takes."""
SAMPLES: Final = 300
"""Turns of each store that are judged."""
LATER: Final = 300
"""Turns that are left out between the judged ones and those that are told as later ones, which are as many."""
TURNS_PER_AGENT: Final = 10
"""An agent is left after so many turns, so that windows stay small: at most 20 messages."""
WARM_UP: Final = 3
BODY: Final = msgspec.json.encode({"messages": [{"role": "user", "content": "Which map should I look at today?"}]})
_SCRIPTED: Final = "scripted/demo"


class Sampled(Struct):
    """Seconds of turns without the model, and of the floor's echoes; ``later`` ones come after what is judged."""

    turns: list[float] = []
    floors: list[float] = []
    later_turns: list[float] = []
    later_floors: list[float] = []


def measure() -> list[Figure]:
    """Measure a turn with both models, each against the floor in the same minutes."""
    with model_endpoint() as endpoint:
        return [
            *_figures("step, model in the process", _rounds(_SCRIPTED, endpoint), judged=True),
            *_figures("step, model over HTTP", _rounds(MODEL, endpoint), judged=False),
        ]


def _rounds(model: str, endpoint: ModelEndpoint) -> Sampled:
    sampled = Sampled()
    for number in range(ROUNDS):
        _sample(model, endpoint, sampled, later=number == ROUNDS - 1)
    return sampled


def _sample(model: str, endpoint: ModelEndpoint, sampled: Sampled, *, later: bool) -> None:
    """Sample a new store and a new floor; at last also the turns that come later."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder) / "home"
        with serving(eunoe_serve(home), {"OPENAI_BASE_URL": endpoint.base_url}) as subject:
            client = Client(subject.url)
            agent = new_agent(client, model)
            for _ in range(WARM_UP):
                client.exchange("POST", f"/v1/agents/{agent}/messages", BODY)
            sizes = stored_sizes(home / "eunoe.db")
            command = [sys.executable, "-m", "bench.floor_server", folder, *map(str, sizes)]
            with serving(command) as floor:
                echo = Client(floor.url)
                count = SAMPLES + LATER + SAMPLES if later else SAMPLES
                floors, turns, models = _interleaved(client, echo, model, endpoint, count)
        recorded = _recorded_model_time(home / "eunoe.db")
    outside = [turn - (recorded if model == _SCRIPTED else own) for turn, own in zip(turns, models, strict=True)]
    sampled.turns += outside[:SAMPLES]
    sampled.floors += floors[:SAMPLES]
    sampled.later_turns += outside[SAMPLES + LATER :]
    sampled.later_floors += floors[SAMPLES + LATER :]


def _figures(name: str, sampled: Sampled, *, judged: bool) -> list[Figure]:
    value, floor = median(sampled.turns) * 1e3, median(sampled.floors) * 1e3
    note = f"medians of {ROUNDS} times {SAMPLES} turns and echoes in turn; a fresh agent every {TURNS_PER_AGENT} turns"
    told = Figure(name=name, value=value, floor=floor, unit="ms", note=note)
    least = Figure(name=f"{name}: fastest", value=min(sampled.turns) * 1e3, floor=min(sampled.floors) * 1e3, unit="ms")
    later = Figure(
        name=f"{name}: later turns",
        value=median(sampled.later_turns) * 1e3,
        floor=median(sampled.later_floors) * 1e3,
        unit="ms",
    )
    return [against(name, value, floor, TIMES, "ms", note) if judged else told, least, later]


def _interleaved(
    client: Client, echo: Client, model: str, endpoint: ModelEndpoint, count: int
) -> tuple[list[float], list[float], list[float]]:
    floors: list[float] = []
    turns: list[float] = []
    models: list[float] = []
    agent = ""
    for number in range(count):
        if number % TURNS_PER_AGENT == 0:
            agent = new_agent(client, model)
        floors.append(echo.exchange("POST", "/echo", BODY)[0])
        turns.append(client.exchange("POST", f"/v1/agents/{agent}/messages", BODY)[0])
        models.append(endpoint.took)
    return floors, turns, models


def stored_sizes(database: Path) -> tuple[int, int]:
    """Return the bytes that the last turn's two transactions stored: request and run, then answer and step."""
    with closing(sqlite3.connect(database)) as connection:
        request = _last_row(connection, "messages", "role = 'user'") + _last_row(connection, "runs")
        answer = _last_row(connection, "messages", "role = 'assistant'") + _last_row(connection, "steps")
    return request, answer


def _last_row(connection: sqlite3.Connection, name: str, condition: str = "1") -> int:
    row = connection.execute(
        f"SELECT * FROM {name} WHERE {condition} ORDER BY rowid DESC LIMIT 1"  # noqa: S608 - names of our own tables
    ).fetchone()
    return sum(len(str(value).encode()) for value in row if value is not None)


def _recorded_model_time(database: Path) -> float:
    """Return the median of what the steps say that the model took, in seconds."""
    with closing(sqlite3.connect(database)) as connection:
        return median([took / 1e9 for (took,) in connection.execute("SELECT model_ns FROM steps")])
