"""What the broker was told: Kafka's server.properties keys with the origin of every value.

Precedence: flags, `-o`, environment (KAFKA_...), file, default. Whatever is wrong becomes a
`ConfigError`, one sentence that says what and what to do. Nothing here opens a socket or a folder.
"""

import copy
import difflib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Literal, Self, cast

from ...topics.config_def import InvalidConfigValue
from .ignored_keys import WITHOUT_EFFECT_PREFIXES
from .keys import BROKER_KEYS
from .listeners import Listener, advertised_listener, client_listener
from .settings import Setting, Settings
from .sources import ConfigError, Given, from_environment, from_file, from_overrides

__all__ = ["BrokerConfig", "ConfigError", "Durability"]

Durability = Literal["fsync", "os", "none"]


class BrokerConfig(Settings):
    """Every key that kohort knows, with a typed value (lists are tuples of strings).

    `BrokerConfig({"num.partitions": "6"})` is what tests want; `load` what the command line wants.
    """

    def __init__(self, values: Mapping[str, str] | None = None) -> None:
        """The defaults, changed by `values` (key -> text); raises ConfigError."""
        super().__init__(BROKER_KEYS)
        self._strangers: dict[str, Given] = {}
        self._take([Given(key, text, "code") for key, text in (values or {}).items()])

    @classmethod
    def load(
        cls,
        file: Path | None = None,
        env: Mapping[str, str] | None = None,
        overrides: Iterable[str] = (),
    ) -> Self:
        """From a server.properties, `os.environ` and `key=value` texts.

        Raises ConfigError for an unreadable file, a bad value, an unknown key of kohort's own.
        """
        config = cls()
        given = [*from_environment(env or {}), *from_overrides(overrides)]
        config._take([*from_file(file), *given] if file else given)
        return config

    def changed(self, key: str, text: str, origin: str) -> Self:
        """A copy with one more value, stronger than all before; raises ConfigError."""
        changed = copy.copy(self)
        changed._settings, changed._strangers = dict(self._settings), dict(self._strangers)
        changed._take([Given(key, text, origin)])
        return changed

    def of_node(self, node_id: int) -> Self:
        """What another of several nodes was told."""
        return self.changed("node.id", str(node_id), "--nodes")

    @property
    def durability(self) -> Durability:
        return cast("Durability", self["kohort.durability"])

    @property
    def data_dir(self) -> Path | None:
        """The data folder; None when durability `none` keeps everything in memory."""
        if self.durability == "none":
            return None
        (folder,) = self.list("log.dirs") or self.list("log.dir")
        return Path(folder).expanduser()

    @property
    def node_id(self) -> int:
        return self.int("node.id")

    @property
    def listener(self) -> Listener:
        """Where to listen. Port 0 is any free one, an empty host every interface."""
        return client_listener(self)

    @property
    def advertised_listener(self) -> Listener:
        """What clients are told; port 0 stands for the port that was bound."""
        return advertised_listener(self)

    def warnings(self) -> Iterator[str]:
        """One sentence per thing worth telling: misspelt keys, settings that change nothing."""
        for sentence in self.unknown():
            yield sentence if sentence.endswith("?") else f"{sentence[:-1]}; it is ignored."
        idle = [key for key in self._strangers if key.startswith(WITHOUT_EFFECT_PREFIXES)]
        if idle:
            yield f"Taken without effect, kohort has no such part: {', '.join(sorted(idle))}."
        if self.data_dir is not None:
            return
        for key in ("log.dir", "log.dirs", "kohort.events", "kohort.cache.offsets"):
            text, origin = self.text(key), self.origin(key)
            if origin != "default" and text not in (None, "off", "0"):
                yield (
                    f"{key}={text} (from {origin}) is not used: "
                    "durability none keeps everything in memory."
                )

    def unknown(self) -> Iterator[str]:
        """One sentence per key that is neither ours nor of a part of Kafka that kohort has not."""
        for key, _, origin in self._strangers.values():
            if not key.startswith(WITHOUT_EFFECT_PREFIXES):
                near = difflib.get_close_matches(key, BROKER_KEYS, n=1, cutoff=0.8)
                hint = f": did you mean {near[0]}?" if near else "."
                yield f"{key} (from {origin}) is no key that kohort or Kafka's brokers know{hint}"

    def _take(self, given: Iterable[Given]) -> None:
        for item in given:
            if item.key in BROKER_KEYS:
                self._settings[item.key] = Setting(_value(item), item.origin)
            elif item.key.startswith("kohort."):
                own = ", ".join(key for key in BROKER_KEYS if key.startswith("kohort."))
                raise ConfigError(f"{item.key} (from {item.origin}) is unknown; there is: {own}.")
            else:
                self._strangers[item.key] = item
        self._name_the_node()
        self._check_together()

    def _name_the_node(self) -> None:
        """`node.id` and its older name say the same, whichever was given (upstream:
        AbstractKafkaConfig.populateSynonyms)."""
        node, older = self._settings["node.id"], self._settings["broker.id"]
        is_older_given = older.origin not in ("default", "node.id") and self.int("broker.id") >= 0
        if is_older_given and node.origin in ("default", "broker.id"):
            self._settings["node.id"] = Setting(older.value, "broker.id")
        else:
            self._settings["broker.id"] = Setting(node.value, "node.id")

    def _check_together(self) -> None:
        """Rules that need more than one value, and those of texts with a grammar."""
        folders = "log.dirs" if self.list("log.dirs") else "log.dir"
        if len(self.list(folders)) != 1:
            raise ConfigError(
                f"{folders} (from {self.origin(folders)}) names {len(self.list(folders))} folders, "
                "and kohort keeps everything in one: name one."
            )
        low, high = "group.min.session.timeout.ms", "group.max.session.timeout.ms"
        if self.int(low) > self.int(high):
            raise ConfigError(
                f"{low} is {self.int(low)} and {high} is {self.int(high)}: "
                "the first must not be above the second."
            )
        advertised_listener(self)
        last = client_listener(self).port + self.int("kohort.nodes") - 1
        if last > 65535:
            raise ConfigError(
                f"the last of {self.int('kohort.nodes')} nodes would listen on port {last}: "
                "choose a lower first port, or 0 for any free ones."
            )


def _value(item: Given) -> bool | int | float | str | tuple[str, ...] | None:
    key = BROKER_KEYS[item.key]
    if key.nullable and not item.text.strip():
        return None  # `advertised.listeners=` in a file is the same as not saying it
    try:
        return key.parse(item.text)
    except InvalidConfigValue as error:
        raise ConfigError(f"{error} (from {item.origin}).") from error
