"""The floor of a turn: what no server can do without.

The same HTTP stack with the same settings echoes the body, after two transactions on a SQLite file in WAL mode with
``synchronous=FULL`` have stored as many bytes as the two of a turn do. No thread is changed and nothing is decided.

As a process: ``python -m bench.floor_server FOLDER BYTES BYTES``.
"""

import socket
import sqlite3
import sys
from pathlib import Path

import anyio
import msgspec
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route


def floor_app(folder: Path, sizes: tuple[int, int]) -> Starlette:
    """Return the application; ``sizes`` are the bytes that each of the two transactions stores."""
    connection = sqlite3.connect(folder / "floor.db", isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("CREATE TABLE rows (id INTEGER PRIMARY KEY, bytes TEXT NOT NULL)")
    texts = ["x" * size for size in sizes]

    async def echo(request: Request) -> Response:
        value = msgspec.json.decode(await request.body())
        for text in texts:
            connection.execute("BEGIN IMMEDIATE")
            connection.execute("INSERT INTO rows (bytes) VALUES (?)", (text,))
            connection.execute("COMMIT")
        return Response(msgspec.json.encode(value), media_type="application/json")

    return Starlette(routes=[Route("/echo", echo, methods=["POST"])])


async def serve(app: Starlette) -> None:
    """Serve on a free port with the settings of ``eunoe serve`` until the process is told to end."""
    opened = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(
        app, log_config=None, access_log=False, server_header=False, proxy_headers=False, lifespan="on"
    )
    print(f"The floor listens on http://127.0.0.1:{opened.getsockname()[1]}", flush=True)
    await uvicorn.Server(config).serve(sockets=[opened])


if __name__ == "__main__":
    anyio.run(
        serve,
        floor_app(Path(sys.argv[1]), (int(sys.argv[2]), int(sys.argv[3]))),
        backend="asyncio",
        backend_options={"use_uvloop": True},
    )
