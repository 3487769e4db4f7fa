"""The levels of the broker's loggers, which clients can describe and change (KIP-412). Changes last
until the process ends.

Upstream: LoggingController, ConfigAdminManager.validateLogLevelConfigs. `root` is the logger
`kohort`, the parent of the broker's other loggers, because in a test process, Python's root logger
belongs to the test.
"""

import logging
from collections.abc import Iterable, Mapping
from typing import Final

from ...protocol.errors import ApiError, ErrorCode
from .changes import ConfigChange, Operation

ROOT: Final = "root"
_ALL: Final = "kohort"
_LEVELS: Final = {
    "TRACE": logging.DEBUG - 5,
    "DEBUG": logging.DEBUG,
    "INFO": logging.INFO,
    "WARN": logging.WARNING,
    "ERROR": logging.ERROR,
    "FATAL": logging.CRITICAL,
}


def logger_levels() -> Mapping[str, str]:
    """Return the effective level of each logger, by name."""
    names = sorted(name for name in logging.root.manager.loggerDict if name.startswith(f"{_ALL}."))
    return {name: _name(_logger(name).getEffectiveLevel()) for name in (ROOT, *names)}


def alter_loggers(changes: Iterable[ConfigChange], *, validate_only: bool) -> None:
    """Apply all changes, or none if one is invalid. Raises ApiError with Kafka's messages."""
    changes = list(changes)
    known = logger_levels()
    for each in changes:
        _check(each, known)
    if not validate_only:
        for name, operation, level in changes:
            is_set = operation == Operation.SET
            _logger(name).setLevel(_LEVELS[level or ""] if is_set else logging.NOTSET)


def _check(change: ConfigChange, known: Mapping[str, str]) -> None:
    name, operation, level = change
    if operation not in (Operation.SET, Operation.DELETE):
        message = (
            f"{Operation(operation).name} operation is not allowed for the BROKER_LOGGER resource"
        )
        raise ApiError(ErrorCode.invalid_request, message)
    if name not in known:
        raise ApiError(ErrorCode.invalid_config, f"Logger {name} does not exist!")
    if operation == Operation.DELETE and name == ROOT:
        message = "Removing the log level of the root logger is not allowed"
        raise ApiError(ErrorCode.invalid_request, message)
    if operation == Operation.SET and level not in _LEVELS:
        raise ApiError(
            ErrorCode.invalid_config,
            f"Cannot set the log level of {name} to {level} as it is not a supported log level. "
            f"Valid log levels are {', '.join(sorted(_LEVELS))}",
        )


def _logger(name: str) -> logging.Logger:
    return logging.getLogger(_ALL if name == ROOT else name)


def _name(level: int) -> str:
    """Return the name of the highest level that is not above `level`."""
    return next((name for name, least in reversed(_LEVELS.items()) if level >= least), "TRACE")
