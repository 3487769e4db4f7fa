"""One request to the control API, with the standard library only."""

import json
import urllib.error
import urllib.request
from typing import Any
from urllib.parse import quote, urlencode

from ..errors import UserError

# Added to the timeout of the request, for a busy machine.
GRACE_SECONDS = 60
# The default timeout of waits (testing/loop_thread.py).
TIMEOUT_SECONDS = 10


class RequestFailed(Exception):
    """A wait that timed out or a check that failed, with an explanation as its message."""


# Without the proxy that the environment may name: the control API runs on this machine or nearby.
_opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def send(control: str, method: str, path: str, given: dict[str, Any]) -> str:
    """Return the JSON of the response. Raises RequestFailed and UserError."""
    for name in [each for each in given if f"{{{each}}}" in path]:
        path = path.replace(f"{{{name}}}", quote(str(given.pop(name)), safe=""))
    body = None
    if method == "GET":
        path += f"?{urlencode(given)}" if given else ""
    elif given:
        body = json.dumps(given).encode()
    if not control.startswith(("http://", "https://")):
        raise UserError(f"invalid URL {control!r}: expected http://127.0.0.1:9093.")
    timeout = given.get("timeout", TIMEOUT_SECONDS) + GRACE_SECONDS
    try:
        request = urllib.request.Request(  # noqa: S310 (the scheme is checked)
            control.rstrip("/") + path, data=body, method=method
        )
        request.add_header("Content-Type", "application/json")
        with _opener.open(request, timeout=timeout) as response:
            return str(response.read().decode())
    except urllib.error.HTTPError as error:
        with error:
            raise _failure(error.code, error.read()) from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "reason", error)
        raise UserError(
            f"cannot reach {control} ({reason}): start `kohort serve --control-port …` and use the "
            "address that it prints."
        ) from error


def _failure(status: int, body: bytes) -> Exception:
    try:
        message = json.loads(body)["error"]
    except (ValueError, KeyError, TypeError):
        return UserError(f"not a control API of kohort: the response is {status}.")
    if status in (408, 409):
        return RequestFailed(message)
    return UserError(message if message[-1:] in ".?" else f"{message}.")
