"""Opens the source that the options name: `path` (a data folder) or `bootstrapServers` (any Kafka
cluster).

`commandConfig` is a file with the properties of a Java client, for listeners with TLS or SASL. Each
task reads this file, so workers on other machines need it at the same path.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

import pyarrow as pa

from .folder import FolderSource
from .log_ends import TimeSpan, samples_of_broker, samples_of_folder, to_arrow
from .source import Source, SourceError
from .topic_ids import topic_ids_of_folder
from .wire_cluster import Cluster
from .wire_source import WireSource

COMMAND_CONFIG: Final = "commandConfig"


def open_source(options: Mapping[str, str]) -> Source:
    """Return the source. Raises SourceError."""
    path, bootstrap = _location(options)
    if path is not None:
        return FolderSource(path)
    return WireSource(bootstrap, options.get(COMMAND_CONFIG))


def cluster_id(options: Mapping[str, str], timeout_seconds: float | None = None) -> str:
    """Return the cluster id from the brokers, or from Kafka's meta.properties in a data folder; a
    copy of some partitions has none and is named after its folder. Raises ClusterUnreachable,
    SourceError, OSError."""
    path, bootstrap = _location(options)
    if path is None:
        command_config = options.get(COMMAND_CONFIG)
        with Cluster(bootstrap, command_config, response_seconds=timeout_seconds) as cluster:
            return cluster.cluster_id
    folder = path.resolve()
    with suppress(FileNotFoundError):
        for line in (folder / "meta.properties").read_text(errors="replace").splitlines():
            key, _, value = line.partition("=")
            if key.strip() == "cluster.id" and value.strip():
                return value.strip()
    return folder.name


def log_ends(
    options: Mapping[str, str],
    topics: Iterable[str] | None,
    cluster: str,
    past: TimeSpan | None = None,
) -> Iterator[pa.RecordBatch]:
    """Return samples of all partitions of these topics (None: all), as rows of bronze_log_end.
    Topics that do not exist are omitted.

    Each partition's newest sample is current. From a broker, it has the time of the local clock;
    from a folder, which may be old, it has the time of the last batch or the end of `past`,
    whichever is later. The ticks in `past` are sampled as well. Raises SourceError, OSError.
    """
    path, bootstrap = _location(options)
    wanted = None if topics is None else sorted(set(topics))
    if path is not None:
        return to_arrow(samples_of_folder(path, wanted, past), cluster)
    return to_arrow(
        samples_of_broker(bootstrap, wanted, past, options.get(COMMAND_CONFIG)), cluster
    )


def topic_ids(options: Mapping[str, str]) -> dict[str, str]:
    """Return the names of the topics that exist, by id as Kafka prints it. Of a copy of some
    partitions, only their topics are known. Raises SourceError, OSError."""
    path, bootstrap = _location(options)
    if path is not None:
        return topic_ids_of_folder(path)
    with Cluster(bootstrap, options.get(COMMAND_CONFIG)) as cluster:
        return cluster.topic_names()


def _location(options: Mapping[str, str]) -> tuple[Path | None, str]:
    path, bootstrap = options.get("path"), options.get("bootstrapServers")
    if (path is None) == (bootstrap is None):
        raise SourceError(
            "Set either the option path (a data folder with an offsets log) or bootstrapServers "
            "(HOST:PORT of a broker)."
        )
    return None if path is None else Path(path), bootstrap or ""
