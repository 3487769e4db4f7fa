"""Opens the source that the options name: `path` (a data folder) or `bootstrapServers` (any Kafka
cluster).

`commandConfig` is a file with the properties of a Java client, for listeners with TLS or SASL. Each
task reads this file, so workers on other machines need it at the same path.
"""

from collections.abc import Mapping
from pathlib import Path

from .folder import FolderSource
from .source import Source, SourceError
from .wire_source import WireSource


def open_source(options: Mapping[str, str]) -> Source:
    """Return the source. Raises SourceError."""
    path, bootstrap = options.get("path"), options.get("bootstrapServers")
    if path is not None and bootstrap is None:
        return FolderSource(Path(path))
    if path is None and bootstrap is not None:
        return WireSource(bootstrap, options.get("commandConfig"))
    raise SourceError(
        "Set either the option path (a data folder with an offsets log) or bootstrapServers "
        "(HOST:PORT of a broker)."
    )
