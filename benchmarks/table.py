"""Print the results as tables: figures, and their ratios to the baselines."""

import os
from collections.abc import Callable, Iterable
from typing import Any

from rich.console import Console
from rich.table import Table

from . import assignors, servers, transfers
from .machine import Setting, describe
from .pipeline import TARGET_LAYERS

console = Console(highlight=False, width=118)

OURS = "kohort"
MEMORY_KEYS = (
    *("idle_mib", "full_mib", "above_idle_mib"),
    *("bytes_per_offset", "commits_s", "offsets_s"),
)
BASELINES = ("asyncio echo", "uvloop echo", "kfake", "kfake fsync", "Kafka")


def heading(setting: Setting) -> None:
    facts = ", ".join(f"{name} {value}" for name, value in describe(setting).items())
    console.print(facts)
    if setting.kfake is None:
        console.print("kfake is skipped: install Go or set KOHORT_BENCH_KFAKE.")
    for variable, effect in (
        (servers.KAFKA_START, "Kafka is skipped in security, memory and recovery"),
        (transfers.KAFKA_TOOL, "transfers uses the load client instead of Kafka's tools"),
        (assignors.KAFKA_JARS, "Java's assignors are skipped"),
    ):
        if not os.environ.get(variable):
            console.print(f"{effect}: {variable} is not set.")
    if setting.client.modes is not None:
        console.print(
            "[yellow]The load client in Python is slower than the servers and limits the figures; "
            "install Go for meaningful figures.[/]"
        )


def table(title: str, columns: Iterable[str], rows: Iterable[Iterable[str]]) -> None:
    grid = Table(box=None, pad_edge=False, header_style="dim")
    for number, column in enumerate(columns):
        grid.add_column(column, justify="left" if number == 0 else "right", no_wrap=number == 0)
    for row in rows:
        grid.add_row(*row)
    console.print(f"\n[bold]{title}[/]")
    console.print(grid)


def show_disk(results: dict[str, Any]) -> None:
    disk = results["disk"]
    console.print(
        f"\n[bold]Disk[/], one append and fdatasync: p50 {disk['p50_ms']:.3f} ms, "
        f"p99 {disk['p99_ms']:.3f} ms"
    )


def show_starts(results: dict[str, Any]) -> None:
    rows = [(name, f"{value:,.0f}") for name, value in results["starts"].items()]
    table("Start to the first ApiVersions response, median", ("", "ms"), rows)


def show_loads(results: dict[str, Any]) -> None:
    for load, found in results["loads"].items():
        if load.startswith("rebalance"):
            _show_rebalance(load, found)
        elif load.startswith("consumer"):
            _show_consumer_group(load, found)
        elif load.startswith("transactions"):
            _show_load(f"{load} producers, ten records each", found, results, "transactions")
        else:
            _show_load(f"{load} (connections × in flight)", found, results, "requests")


def show_security(results: dict[str, Any]) -> None:
    for load, found in results["security"].items():
        rows = [
            [name, f"{of['requests_s']:,.0f}", f"{of['p50_ms']:.3f}", f"{of['p99_ms']:.3f}"]
            for name, of in found.items()
        ]
        columns = ("", "requests/s", "p50 ms", "p99 ms")
        table(f"{load} (connections × in flight), plain text and SASL_SSL", columns, rows)


def _show_load(
    load: str, found: dict[str, dict[str, float]], results: dict[str, Any], unit: str
) -> None:
    baselines = [name for name in BASELINES if name in found]
    columns = ["", f"{unit}/s", "p50 ms", "p99 ms", *(f"÷ {name}" for name in baselines)]
    rate, latency = f"{unit}_s", " 1×1" in load
    disk = results.get("disk")
    if latency and disk:
        columns.append("p50 ÷ disk")
    rows = []
    for name, of in found.items():
        row = [name, f"{of[rate]:,.0f}", f"{of['p50_ms']:.3f}", f"{of['p99_ms']:.3f}"]
        row += [_ratio(of[rate], found[baseline][rate], name) for baseline in baselines]
        if latency and disk:
            row.append(_ratio(of["p50_ms"], disk["p50_ms"], name))
        rows.append(row)
    table(load, columns, rows)


def _show_rebalance(load: str, found: dict[str, dict[str, float]]) -> None:
    kfake = found.get("kfake")
    columns = ["", "p50 ms", "min ms", "max ms"] + (["p50 ÷ kfake"] if kfake else [])
    rows = []
    for name, of in found.items():
        row = [name, *(f"{of[key]:.1f}" for key in ("p50_ms", "min_ms", "max_ms"))]
        if kfake:
            row.append(_ratio(of["p50_ms"], kfake["p50_ms"], name))
        rows.append(row)
    table(f"{load} members: JoinGroup and SyncGroup of all", columns, rows)


def _show_consumer_group(load: str, found: dict[str, dict[str, float]]) -> None:
    baselines = [name for name in BASELINES if name in found]
    columns, keys = [""], {"stable_ms": "ms until stable", "heartbeats_s": "heartbeats/s"}
    for title in keys.values():
        columns += [title, *(f"÷ {name}" for name in baselines)]
    rows = []
    for name, of in found.items():
        row = [name]
        for key in keys:
            row.append(f"{of[key]:,.0f}")
            row += [_ratio(of[key], found[baseline][key], name) for baseline in baselines]
        rows.append(row)
    table(f"{load} members of the consumer protocol", columns, rows)


def show_transfers(results: dict[str, Any]) -> None:
    found = results["transfers"]
    if not found:
        return
    baselines = [name for name in BASELINES if name in found["produce"]]
    columns, rows = [""], []
    for name in found["produce"]:
        row = [name]
        for mode in ("produce", "consume"):
            rates = found[mode]
            row.append(f"{rates[name]:,.0f}")
            row += [_ratio(rates[name], rates[baseline], name) for baseline in baselines]
        rows.append(row)
    for mode in ("produce", "consume"):
        columns += [f"{mode} MB/s", *(f"÷ {name}" for name in baselines)]
    table(f"Records of 1 kB in batches of 100 kB, four partitions, by {found['by']}", columns, rows)


def show_memory(results: dict[str, Any]) -> None:
    found = results["memory"]
    kfake, offsets = found.get("kfake", {}), 0
    rows = []
    for name, of in found.items():
        offsets = of.get("offsets", 0)
        row = [name, *(_figure(of.get(key)) for key in MEMORY_KEYS)]
        if kfake:
            row.append(_ratio(of.get("above_idle_mib"), kfake.get("above_idle_mib"), name))
        rows.append(row)
    columns = ["", "idle MiB", "full MiB", "above idle", "bytes/offset", "commits/s", "offsets/s"]
    if kfake:
        columns.append("above ÷ kfake")
    table(f"Memory with {offsets:,} offsets, ten per group", columns, rows)


def _figure(value: float | None) -> str:
    return "" if value is None else f"{value:,.0f}"


def _ratio(value: float | None, baseline: float | None, name: str = OURS) -> str:
    """Return a ratio as text; "" without a value or baseline, or if `name` is not our server."""
    is_known = value is not None and baseline and name.startswith(OURS)
    return f"{value / baseline:.2f}" if is_known else ""


def show_recovery(results: dict[str, Any]) -> None:
    rows = results["recovery"]
    peers = {
        (each["name"], each["offsets"], each["records"]): each
        for each in rows
        if not each["name"].startswith(OURS)
    }
    names = list(dict.fromkeys(name for name, _, _ in peers))
    shown = []
    for each in rows:
        row = [each["name"], f"{each['offsets']:,}", f"{each['records']:,}"]
        row += [f"{each['first_s']:.3f}", f"{each['all_s']:.3f}", f"{each['resident_mib']:,.0f}"]
        for name in names:
            peer = peers.get((name, each["offsets"], each["records"]), {})
            row.append(_ratio(each["first_s"], peer.get("first_s"), each["name"]))
        shown.append(row)
    columns = ["", "offsets", "records", "first s", "all s", "MiB"]
    columns += [f"first ÷ {name}" for name in names]
    table(
        "Process start to the first OffsetFetch response, and to one of every partition",
        columns,
        shown,
    )


def show_compaction(results: dict[str, Any]) -> None:
    offline = results["compaction"]["offline"]
    console.print(
        f"\n[bold]Offline compaction[/] of {offline['records']:,} records: "
        f"{offline['records_s']:,.0f} records/s ({offline['records_cpu_s']:,.0f} per CPU second), "
        f"{offline['megabytes_s']:.1f} MB/s "
        f"({offline['megabytes_s'] / offline['copied_megabytes_s']:.2f} of copying and syncing the "
        f"files), {offline['written_per_appended']:.2f} bytes written per byte appended, "
        f"{offline['on_disk_per_current']:.2f} bytes on disk per byte of current records"
    )
    rows = []
    for durability, found in results["compaction"]["server"].items():
        for name, of in found.items():
            row = [f"kohort {durability}, {name}", f"{of['requests_s']:,.0f}"]
            row += [f"{of[key]:.2f}" for key in ("p50_ms", "p99_ms", "max_ms")]
            without = found["without"]
            row += [_ratio(of[key], without[key]) for key in ("p50_ms", "p99_ms")]
            row += [_figure(of["compactions"]), _figure(of["compacted_records_s"])]
            row.append(f"{of['on_disk_per_current']:.2f}")
            rows.append(row)
    columns = ["", "commits/s", "p50 ms", "p99 ms", "max ms", "p50 ÷ without", "p99 ÷ without"]
    columns += ["runs", "records/s", "on disk ÷ current"]
    table("Commits (50×1) with and without continuous compaction", columns, rows)


def show_assignors(results: dict[str, Any]) -> None:
    cells = results["assignors"]
    peers = [name for name in ("kafka-python", "aiokafka", "Java") if any(name in c for c in cells)]
    for subscriptions in dict.fromkeys(cell["subscriptions"] for cell in cells):
        rows = []
        for cell in cells:
            if cell["subscriptions"] == subscriptions:
                size = f"{cell['members']:,} × {cell['partitions']:,}"
                row = [cell["strategy"], cell["event"], size, f"{cell[OURS]:,.1f}"]
                times = [cell.get(peer, "none") for peer in peers]
                row += [ms if isinstance(ms, str) else f"{ms:,.1f}" for ms in times]
                row += [_ratio(cell[OURS], None if isinstance(ms, str) else ms) for ms in times]
                rows.append(row)
        columns = ["", "", "members × partitions", OURS, *peers, *(f"÷ {p}" for p in peers)]
        table(f"Milliseconds for an assignment, {subscriptions} subscriptions", columns, rows)


def show_harness(results: dict[str, Any]) -> None:
    rows = [
        (measured, f"{of['kohort']:.2f}", f"{of['baseline']:.2f}" if "baseline" in of else "")
        for measured, of in results["harness"].items()
    ]
    table("kohort.testing, median (baseline)", ("", "kohort, ms", "baseline, ms"), rows)


def show_pipeline(results: dict[str, Any]) -> None:
    rows = [
        (
            f"{per_batch} per batch, {of['bytes_per_record']:.0f} bytes each",
            f"{of['records_s']:,.0f}",
            f"{of['megabytes_s']:,.0f}",
            f"{of['walk_records_s']:,.0f}",
            _ratio(of["records_s"], of["walk_records_s"]),
        )
        for per_batch, of in results["pipeline"]["source"].items()
    ]
    columns = ("", "records/s", "MB/s", "checksums only, records/s", "÷ checksums only")
    table("Decoding an offsets log to Arrow, per second of one core", columns, rows)
    batches = results["pipeline"]["batches"]
    if batches is None:
        return
    first, later = batches["first_batch_per_million"], batches["later_half_per_million"]
    sums = {"all layers": tuple(later), "target layers": TARGET_LAYERS}
    table(
        f"Offsets log to lake, {batches['records']:,} records in {batches['batches']} batches: "
        f"seconds per million (peak memory: JVM {batches['jvm_peak_mib']:,} MiB, Python workers "
        f"{batches['workers_peak_mib']:,} MiB together; lake "
        f"{batches['lake_bytes'] / batches['records']:.0f} bytes per record)",
        ("", "later batches", "CPU", "first batch"),
        [
            (
                name,
                *[
                    f"{sum(batch[layer][time] for layer in layers):.2f}"
                    for batch, time in ((later, "wall_s"), (later, "cpu_s"), (first, "wall_s"))
                ],
            )
            for name, layers in [*((layer, (layer,)) for layer in later), *sums.items()]
        ],
    )


SHOWN: dict[str, Callable[[dict[str, Any]], None]] = {
    "disk": show_disk,
    "starts": show_starts,
    "loads": show_loads,
    "security": show_security,
    "transfers": show_transfers,
    "memory": show_memory,
    "recovery": show_recovery,
    "compaction": show_compaction,
    "assignors": show_assignors,
    "harness": show_harness,
    "pipeline": show_pipeline,
}
