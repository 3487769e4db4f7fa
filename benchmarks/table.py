"""The results as a person reads them: figures, and beside each what it is to be compared with."""

import os
from collections.abc import Callable, Iterable
from typing import Any

from rich.console import Console
from rich.table import Table

from . import assignors, servers, transfers
from .batches import AIMED_AT
from .machine import Setting, told

console = Console(highlight=False, width=118)

OURS = "kohort"
MEMORY_KEYS = (
    "idle_mib",
    "full_mib",
    "above_idle_mib",
    "bytes_per_offset",
    "commits_s",
    "offsets_s",
)
YARDSTICKS = ("asyncio echo", "uvloop echo", "kfake", "kfake fsync", "Kafka")


def heading(setting: Setting) -> None:
    facts = ", ".join(f"{name} {value}" for name, value in told(setting).items())
    console.print(facts)
    if setting.kfake is None:
        console.print("kfake is left out: no Go here, nor KOHORT_BENCH_KFAKE.")
    for variable, what in (
        (servers.KAFKA_START, "Kafka is left out of wake and memory"),
        (transfers.KAFKA_TOOL, "Transfers are by our own client"),
        (assignors.KAFKA_JARS, "Java's assignors are left out"),
    ):
        if not os.environ.get(variable):
            console.print(f"{what}: there is no {variable}.")
    if setting.client.modes is not None:
        console.print(
            "[yellow]The load comes from Python processes, which are slower than the servers: "
            "the figures are rather theirs. Install Go to measure.[/]"
        )


def show(part: str, results: dict[str, Any]) -> None:
    SHOWN[part](results)


def table(title: str, columns: Iterable[str], rows: Iterable[Iterable[str]]) -> None:
    made = Table(box=None, pad_edge=False, header_style="dim")
    for number, column in enumerate(columns):
        made.add_column(column, justify="left" if number == 0 else "right", no_wrap=number == 0)
    for row in rows:
        made.add_row(*row)
    console.print(f"\n[bold]{title}[/]")
    console.print(made)


def show_disk(results: dict[str, Any]) -> None:
    disk = results["disk"]
    console.print(
        f"\n[bold]The disk[/] takes for one append and fdatasync {disk['p50_ms']:.3f} ms at p50, "
        f"{disk['p99_ms']:.3f} ms at p99"
    )


def show_starts(results: dict[str, Any]) -> None:
    rows = [(name, f"{value:,.0f}") for name, value in results["starts"].items()]
    table("Start to the first ApiVersions answer, median", ("", "ms"), rows)


def show_loads(results: dict[str, Any]) -> None:
    for what, found in results["loads"].items():
        if what.startswith("rebalance"):
            _show_rebalance(what, found)
        else:
            _show_load(what, found, results)


def _show_load(what: str, found: dict[str, dict[str, float]], results: dict[str, Any]) -> None:
    yardsticks = [name for name in YARDSTICKS if name in found]
    columns = ["", "requests/s", "p50 ms", "p99 ms", *(f"÷ {name}" for name in yardsticks)]
    latency = what.endswith(" 1×1")
    disk = results.get("disk")
    if latency and disk:
        columns.append("p50 ÷ disk")
    rows = []
    for name, of in found.items():
        row = [name, f"{of['requests_s']:,.0f}", f"{of['p50_ms']:.3f}", f"{of['p99_ms']:.3f}"]
        for yardstick in yardsticks:
            ratio = of["requests_s"] / found[yardstick]["requests_s"]
            row.append(f"{ratio:.2f}" if name.startswith(OURS) else "")
        if latency and disk:
            row.append(f"{of['p50_ms'] / disk['p50_ms']:.2f}" if name.startswith(OURS) else "")
        rows.append(row)
    table(f"{what} (connections × in flight)", columns, rows)


def _show_rebalance(what: str, found: dict[str, dict[str, float]]) -> None:
    kfake = found.get("kfake")
    columns = ["", "p50 ms", "min ms", "max ms"] + (["p50 ÷ kfake"] if kfake else [])
    rows = []
    for name, of in found.items():
        row = [name, *(f"{of[key]:.1f}" for key in ("p50_ms", "min_ms", "max_ms"))]
        if kfake:
            row.append(f"{of['p50_ms'] / kfake['p50_ms']:.2f}" if name.startswith(OURS) else "")
        rows.append(row)
    table(f"{what} members, join and sync of all", columns, rows)


def show_transfers(results: dict[str, Any]) -> None:
    found = results["transfers"]
    if not found:
        return
    yardsticks = [name for name in YARDSTICKS if name in found["produce"]]
    columns, rows = [""], []
    for name in found["produce"]:
        row = [name]
        for mode in ("produce", "consume"):
            row.append(f"{found[mode][name]:,.0f}")
            for yardstick in yardsticks:
                ours = name.startswith(OURS)
                row.append(_ratio(found[mode][name], found[mode][yardstick]) if ours else "")
        rows.append(row)
    for mode in ("produce", "consume"):
        columns += [f"{mode} MB/s", *(f"÷ {name}" for name in yardsticks)]
    table(f"Records of 1 kB in batches of 100 kB, four partitions, by {found['by']}", columns, rows)


def show_memory(results: dict[str, Any]) -> None:
    found = results["memory"]
    kfake, offsets = found.get("kfake", {}), 0
    rows = []
    for name, of in found.items():
        offsets = of.get("offsets", 0)
        row = [name, *(_figure(of.get(key)) for key in MEMORY_KEYS)]
        if kfake:
            ours = name.startswith(OURS)
            row.append(
                _ratio(of.get("above_idle_mib"), kfake.get("above_idle_mib")) if ours else ""
            )
        rows.append(row)
    columns = ["", "idle MiB", "full MiB", "above idle", "bytes/offset", "commits/s", "offsets/s"]
    if kfake:
        columns.append("above ÷ kfake")
    table(f"Memory with {offsets:,} offsets, ten to a group", columns, rows)


def _figure(value: float | None) -> str:
    return "" if value is None else f"{value:,.0f}"


def _ratio(value: float | None, yardstick: float | None) -> str:
    return f"{value / yardstick:.2f}" if value is not None and yardstick else ""


def show_wake(results: dict[str, Any]) -> None:
    rows = results["wake"]
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
            peer = peers.get((name, each["offsets"], each["records"]))
            ours = each["name"].startswith(OURS)
            row.append(_ratio(each["first_s"], peer["first_s"]) if ours and peer else "")
        shown.append(row)
    columns = [
        "",
        "offsets",
        "records",
        "first s",
        "all s",
        "MiB",
        *(f"first ÷ {n}" for n in names),
    ]
    table("Process start to the first OffsetFetch, and to one of every partition", columns, shown)


def show_compaction(results: dict[str, Any]) -> None:
    alone = results["compaction"]["alone"]
    console.print(
        f"\n[bold]Compaction by itself[/] of {alone['records']:,} records: "
        f"{alone['records_s']:,.0f} records/s ({alone['records_cpu_s']:,.0f} per second of CPU), "
        f"{alone['megabytes_s']:.1f} MB/s, which is "
        f"{alone['megabytes_s'] / alone['copied_megabytes_s']:.2f} of copying and syncing the same "
        f"files; {alone['written_per_appended']:.2f} bytes written for each that is appended, "
        f"{alone['on_disk_per_live']:.2f} on disk for each that lives"
    )
    rows = []
    for durability, found in results["compaction"]["serving"].items():
        for name, of in found.items():
            row = [f"kohort {durability}, {name}", f"{of['requests_s']:,.0f}"]
            row += [f"{of[key]:.2f}" for key in ("p50_ms", "p99_ms", "max_ms")]
            without = found["without"]
            row += [_ratio(of[key], without[key]) for key in ("p50_ms", "p99_ms")]
            row += [_figure(of["compactions"]), _figure(of["compacted_records_s"])]
            row.append(f"{of['on_disk_per_live']:.2f}")
            rows.append(row)
    columns = ["", "commits/s", "p50 ms", "p99 ms", "max ms", "p50 ÷ without", "p99 ÷ without"]
    columns += ["runs", "records/s", "on disk ÷ live"]
    table("Commits (50×1) with and without compaction under way", columns, rows)


def show_assignors(results: dict[str, Any]) -> None:
    cells = results["assignors"]
    peers = [name for name in ("kafka-python", "aiokafka", "Java") if any(name in c for c in cells)]
    for wishes in dict.fromkeys(cell["wishes"] for cell in cells):
        rows = []
        for cell in cells:
            if cell["wishes"] == wishes:
                size = f"{cell['members']:,} × {cell['partitions']:,}"
                row = [cell["strategy"], cell["moment"], size, f"{cell[OURS]:,.1f}"]
                took = [cell.get(peer, "none") for peer in peers]
                row += [ms if isinstance(ms, str) else f"{ms:,.1f}" for ms in took]
                row += [_ratio(cell[OURS], None if isinstance(ms, str) else ms) for ms in took]
                rows.append(row)
        columns = ["", "", "members × partitions", OURS, *peers, *(f"÷ {p}" for p in peers)]
        table(f"Milliseconds for an assignment, {wishes} subscriptions", columns, rows)


def show_harness(results: dict[str, Any]) -> None:
    rows = [
        (what, f"{of['kohort']:.2f}", f"{of['beside']:.2f}" if "beside" in of else "")
        for what, of in results["harness"].items()
    ]
    table("The harness, median", ("", "kohort, ms", "beside, ms"), rows)


def show_pipeline(results: dict[str, Any]) -> None:
    rows = [
        (
            f"{per_batch} a batch, {of['bytes_per_record']:.0f} bytes each",
            f"{of['records_s']:,.0f}",
            f"{of['megabytes_s']:,.0f}",
            f"{of['walk_records_s']:,.0f}",
            _ratio(of["records_s"], of["walk_records_s"]),
        )
        for per_batch, of in results["pipeline"]["source"].items()
    ]
    columns = ("", "records/s", "MB/s", "found and checked only, records/s", "÷ that")
    table("An offsets log to Arrow, per second of one core", columns, rows)
    whole = results["pipeline"]["batches"]
    if whole is None:
        return
    first, later = whole["first_batch_per_million"], whole["later_half_per_million"]
    sums = {"all": tuple(later), "bronze to minutes and latest state": AIMED_AT}
    table(
        f"An offsets log into a lake, {whole['records']:,} records in {whole['batches']} batches: "
        f"seconds per million (JVM at most {whole['jvm_peak_mib']:,} MiB, its Python workers "
        f"{whole['workers_peak_mib']:,} MiB together, lake "
        f"{whole['lake_bytes'] / whole['records']:.0f} bytes a record)",
        ("", "later batches", "of CPU", "first batch"),
        [
            (
                name,
                *[
                    f"{sum(batch[layer][what] for layer in layers):.2f}"
                    for batch, what in ((later, "wall_s"), (later, "cpu_s"), (first, "wall_s"))
                ],
            )
            for name, layers in [*((layer, (layer,)) for layer in later), *sums.items()]
        ],
    )


SHOWN: dict[str, Callable[[dict[str, Any]], None]] = {
    "disk": show_disk,
    "starts": show_starts,
    "loads": show_loads,
    "transfers": show_transfers,
    "memory": show_memory,
    "wake": show_wake,
    "compaction": show_compaction,
    "assignors": show_assignors,
    "harness": show_harness,
    "pipeline": show_pipeline,
}
