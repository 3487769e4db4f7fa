"""One request to the controls, with nothing but Python's own library."""

import json
import urllib.error
import urllib.request
from typing import Any
from urllib.parse import quote, urlencode

from ..errors import UserError

# Beyond what the request itself waits for: a busy machine, a broker with much to do.
PATIENCE_SECONDS = 60
# What a barrier waits when nobody says how long (testing/waiting.py).
TIMEOUT_SECONDS = 10


class Failed(Exception):
    """A barrier that waited in vain, a check that failed: the message is its story."""


# Not by a proxy of the environment: the controls are on this machine, or next to it.
_opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def ask(control: str, method: str, path: str, given: dict[str, Any]) -> str:
    """The JSON of the answer; raises Failed, and UserError for what the user can mend."""
    for name in [each for each in given if f"{{{each}}}" in path]:
        path = path.replace(f"{{{name}}}", quote(str(given.pop(name)), safe=""))
    body = None
    if method == "GET":
        path += f"?{urlencode(given)}" if given else ""
    elif given:
        body = json.dumps(given).encode()
    if not control.startswith(("http://", "https://")):
        raise UserError(f"{control} is no URL: write it as http://127.0.0.1:9093.")
    seconds = given.get("timeout", TIMEOUT_SECONDS) + PATIENCE_SECONDS
    try:
        request = urllib.request.Request(  # noqa: S310 (the scheme is checked)
            control.rstrip("/") + path, data=body, method=method
        )
        request.add_header("Content-Type", "application/json")
        with _opener.open(request, timeout=seconds) as answer:
            return str(answer.read().decode())
    except urllib.error.HTTPError as error:
        with error:
            _raise(error.code, error.read())
    except (OSError, ValueError) as error:
        reason = getattr(error, "reason", error)
        raise UserError(
            f"{control} cannot be asked ({reason}): start `kohort serve --control-port …`, and "
            "give the address that it prints."
        ) from error
    raise AssertionError("an answer or an error")


def _raise(status: int, body: bytes) -> None:
    try:
        sentence = json.loads(body)["error"]
    except (ValueError, KeyError, TypeError):
        raise UserError(f"that is no kohort: it answered with {status}.") from None
    if status in (408, 409):
        raise Failed(sentence)
    raise UserError(sentence if sentence[-1:] in ".?" else f"{sentence}.")
