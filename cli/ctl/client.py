"""Sends requests to the control API. Uses only the standard library."""

import argparse
import json
import sys
import urllib.error
import urllib.request
from http.client import HTTPException
from typing import Any
from urllib.parse import quote, urlencode

from ...printable import printable, printable_json
from ..errors import EXIT_NEGATIVE, EXIT_USER_ERROR, UserError
from .commands import COMMANDS, PAIRS, VARIABLE, path_names

# Added to the request's timeout, to allow for a busy machine.
GRACE_SECONDS = 60
# The default timeout of waits (testing/loop_thread.py), and the maximum (control_api/endpoint.py).
TIMEOUT_SECONDS = 10
TIMEOUT_SECONDS_MAX = 600


class RequestFailed(Exception):
    """The control API returned an error: for example, a wait timed out, or arguments are invalid.
    The message has one or more lines."""

    def __init__(self, message: str, exit_code: int = EXIT_NEGATIVE) -> None:
        super().__init__("\n".join(map(printable, message.split("\n"))))
        self.exit_code = exit_code


# Ignores the environment's proxies: the control API runs on this machine or in its network.
_opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def run(args: argparse.Namespace) -> int:
    """Send the request of a command and print the response. Return 0; 1 if a wait timed out, a
    check failed or an object does not exist; 2 for any other error response. Raises UserError."""
    if not args.control:
        raise UserError(
            f"no address of the control API: pass --control URL or set {VARIABLE}=URL, as printed "
            "by `kohort serve --control-port 0`."
        )
    command = next(command for command in COMMANDS if command.name == args.ctl)
    names = (*path_names(command), *command.positional, *command.flags)
    given = {name: getattr(args, name) for name in names if hasattr(args, name)}
    given |= {name: dict(given[name]) for name in PAIRS if name in given}
    try:
        sent = send(args.control, command.method, command.path, given, args.control_token)
        print(printable_json(sent), end="")
    except RequestFailed as failed:
        print(failed, file=sys.stderr)
        return failed.exit_code
    return 0


def send(
    control: str, method: str, path: str, given: dict[str, Any], token: str | None = None
) -> str:
    """Return the JSON of the response. Raises RequestFailed and UserError."""
    for name in [name for name in given if f"{{{name}}}" in path]:
        path = path.replace(f"{{{name}}}", quote(str(given.pop(name)), safe=""))
    body = json.dumps(given).encode() if given and method != "GET" else None
    if given and method == "GET":
        path += f"?{urlencode(given)}"
    if not control.startswith(("http://", "https://")):
        raise UserError(f"invalid URL {control!r}: expected a URL such as http://127.0.0.1:9093.")
    # The server rejects longer timeouts and negative ones.
    timeout = min(abs(given.get("timeout", TIMEOUT_SECONDS)), TIMEOUT_SECONDS_MAX) + GRACE_SECONDS
    try:
        request = urllib.request.Request(  # noqa: S310 (the scheme is checked)
            control.rstrip("/") + path, data=body, method=method
        )
        request.add_header("Content-Type", "application/json")
        if token:
            request.add_header("Authorization", f"Bearer {token}")
        with _opener.open(request, timeout=timeout) as response:
            return str(response.read().decode())
    except urllib.error.HTTPError as error:
        with error:
            raise _failure(error.code, error.read()) from None
    except (OSError, ValueError, HTTPException) as error:
        reason = getattr(error, "reason", error)
        raise UserError(
            f"cannot reach {control} ({reason}): start `kohort serve --control-port …` and use the "
            "address that it prints."
        ) from error


def _failure(status: int, body: bytes) -> Exception:
    try:
        message = json.loads(body)["error"]
    except (ValueError, KeyError, TypeError):
        return UserError(f"not kohort's control API: the response has HTTP status {status}.")
    if status in (404, 408, 409):
        return RequestFailed(message)
    first, *explanation = message.split("\n")
    first = first if first[-1:] in ".?" else f"{first}."
    return RequestFailed("\n".join([f"kohort ctl: {first}", *explanation]), EXIT_USER_ERROR)
