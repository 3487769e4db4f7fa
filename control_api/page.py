"""The endpoints on one page for people: no script, and nothing that is loaded from elsewhere."""

import json
from html import escape

from .. import __version__
from .endpoint import Endpoint
from .endpoints import SECTIONS
from .fields import Field

_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem;
       color: #1b1f24; background: #fff; }
code { font: 14px ui-monospace, monospace; }
section > div { border-top: 1px solid #ddd; padding: .6rem 0; }
p { margin: .2rem 0; } ul { margin: .2rem 0; padding-left: 1.2rem; }
.method { display: inline-block; min-width: 4.5rem; font-weight: 600; }
.kind, .more { color: #57606a; }
@media (prefers-color-scheme: dark) { body { color: #e6edf3; background: #0d1117; }
  section > div { border-color: #30363d; } .kind, .more { color: #9198a1; } }
"""


def page(bootstrap_servers: str) -> str:
    sections = "".join(
        f"<section><h2>{escape(name)}</h2>{''.join(map(_endpoint, endpoints))}</section>"
        for name, endpoints in SECTIONS.items()
    )
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width">'
        f"<title>kohort's controls</title><style>{_STYLE}</style>"
        f"<h1>kohort {__version__}: controls</h1>"
        f"<p>Clients connect to <code>{escape(bootstrap_servers)}</code>. What is below asks and "
        "steers that broker: JSON in, JSON out, an error is <code>{&quot;error&quot;: "
        "&quot;sentence&quot;}</code>. There is no password. "
        'For programs: <a href="/openapi.json">/openapi.json</a>.</p>'
        f"{sections}</html>\n"
    )


def _endpoint(endpoint: Endpoint) -> str:
    more = endpoint.description
    others = "".join(map(_field, endpoint.others))
    return (
        f'<div><code><span class="method">{endpoint.method}</span>{escape(endpoint.path)}</code>'
        f"<p>{_prose(endpoint.summary)}</p>"
        + (f'<p class="more">{_prose(more)}</p>' if more else "")
        + (f"<ul>{others}</ul>" if others else "")
        + "</div>"
    )


def _field(field: Field) -> str:
    return f'<li><code>{field.name}</code> <span class="kind">{escape(kind_of(field))}</span></li>'


def kind_of(field: Field) -> str:
    """What it is, in a few words."""
    schema = field.schema
    kinds = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    said = [f"one of {', '.join(schema['enum'])}" if "enum" in schema else kinds[0]]
    if "description" in schema:
        said.append(schema["description"])
    if field.is_required:
        said.append("required")
    elif "default" in schema:
        said.append(f"default {json.dumps(schema['default'])}")
    return ", ".join(said)


def _prose(text: str) -> str:
    """With what stands between backquotes as code."""
    parts = escape(text, quote=False).split("`")
    return "".join(f"<code>{part}</code>" if n % 2 else part for n, part in enumerate(parts))
