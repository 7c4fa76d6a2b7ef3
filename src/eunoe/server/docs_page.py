"""The page ``/docs``: the table of routes for people. One file, no scripts, nothing from elsewhere."""

from collections.abc import Sequence
from html import escape
from itertools import groupby
from typing import Any, Final

from starlette.responses import HTMLResponse, Response

from eunoe.server.routing import Route
from eunoe.version import __version__

_POLICY: Final = (
    "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)

_STYLE: Final = """
:root { color-scheme: light dark; font: 16px/1.5 system-ui, sans-serif; }
body { max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
details { border-top: 1px solid #8884; padding: .4rem 0; }
summary { cursor: pointer; }
code, .method { font-family: ui-monospace, monospace; }
.method { display: inline-block; min-width: 4.5rem; font-weight: 600; }
table { border-collapse: collapse; margin: .5rem 0; }
td, th { text-align: left; padding: .15rem 1rem .15rem 0; vertical-align: top; }
"""


def docs_response(table: Sequence[Route], document: dict[str, Any]) -> Response:
    """Return the page, with a policy under which a browser loads and runs nothing else."""
    headers = {
        "content-security-policy": _POLICY,
        "x-content-type-options": "nosniff",
        "referrer-policy": "no-referrer",
    }
    return HTMLResponse(page(table, document), headers=headers)


def page(table: Sequence[Route], document: dict[str, Any]) -> str:
    """Return the page's HTML."""
    groups = [
        f"<h2>{escape(tag)}</h2>" + "".join(_route(line, document) for line in lines)
        for tag, lines in groupby(sorted(table, key=lambda line: line.tag), key=lambda line: line.tag)
    ]
    return (
        "<!doctype html><html lang=en><meta charset=utf-8>"
        '<meta name=viewport content="width=device-width">'
        f"<title>Eunoe API</title><style>{_STYLE}</style>"
        f"<h1>Eunoe {escape(__version__)}</h1>"
        "<p>The HTTP API. Its format is Letta v1's; what is marked (Eunoe) is our own. "
        'The same table as a document for programs: <a href="/openapi.json">openapi.json</a>.</p>' + "".join(groups)
    )


def _route(line: Route, document: dict[str, Any]) -> str:
    path = line.path.replace(":path}", "}")
    operation: dict[str, Any] = document["paths"][path][line.method.lower()]
    rows = [(p["name"], p["in"], _kind(p["schema"])) for p in operation["parameters"]]
    content: dict[str, Any] = operation.get("requestBody", {}).get("content", {})
    for body in content.values():
        schema: dict[str, Any] = document["components"]["schemas"][str(body["schema"]["$ref"]).rpartition("/")[2]]
        fields: dict[str, Any] = schema.get("properties", {})
        rows.extend((name, "body", _kind(field)) for name, field in fields.items())
    cells = "".join(
        f"<tr><td><code>{escape(name)}</code><td>{escape(place)}<td>{escape(kind)}" for name, place, kind in rows
    )
    fields_table = f"<table><tr><th>name<th>in<th>type{cells}</table>" if rows else ""
    return (
        f"<details><summary><span class=method>{line.method}</span> <code>{escape(path)}</code> "
        f"{escape(line.summary)}</summary><p>{escape(operation['description'])}</p>{fields_table}"
        f"<p>Answer: {escape(line.answer)}</p></details>"
    )


def _kind(schema: dict[str, Any]) -> str:
    if "anyOf" in schema:
        return " or ".join(_kind(option) for option in schema["anyOf"])
    if "enum" in schema:
        return " | ".join(str(value) for value in schema["enum"])
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition("/")[2]
    if schema.get("type") == "array":
        items: dict[str, Any] = schema.get("items") or {}
        return f"list of {_kind(items)}"
    return str(schema.get("type", "any"))
