"""Log lines on standard error, in the shape of Kafka's log4j lines, so that people's greps work.

`[2026-11-20 22:00:00,123] INFO Kafka's sentence (kohort.groups)`
"""

import json
import logging
from typing import Final

__all__ = ["FORMATS", "LEVELS", "set_up"]

LEVELS: Final = ("debug", "info", "warning", "error")
FORMATS: Final = ("kafka", "json")

# log4j's word for the level that Python calls WARNING.
logging.addLevelName(logging.WARNING, "WARN")


class KafkaLine(logging.Formatter):
    """Kafka's pattern `[%d] %p %m (%c)%n`."""

    def __init__(self) -> None:
        super().__init__("[%(asctime)s] %(levelname)s %(message)s (%(name)s)")


class JsonLine(logging.Formatter):
    """One JSON object a line: time, level, logger, message and, where there is one, traceback."""

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": self.formatTime(record),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False)


def set_up(level: str, shape: str) -> None:
    """From here on the root logger writes to standard error."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonLine() if shape == "json" else KafkaLine())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
