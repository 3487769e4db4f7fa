"""The results as a person reads them: figures, and beside each what it is to be compared with."""

from collections.abc import Callable, Iterable
from typing import Any

from rich.console import Console
from rich.table import Table

from .machine import Setting, told

console = Console(highlight=False, width=118)

OURS = "kohort"
YARDSTICKS = ("asyncio echo", "uvloop echo", "kfake", "kfake fsync", "Kafka")


def heading(setting: Setting) -> None:
    facts = ", ".join(f"{name} {value}" for name, value in told(setting).items())
    console.print(facts)
    if setting.kfake is None:
        console.print("kfake is left out: no Go here, nor KOHORT_BENCH_KFAKE.")
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
    rows = []
    for name in found["produce"]:
        row = [name]
        for mode in ("produce", "consume"):
            row.append(f"{found[mode][name]:,.0f}")
            kfake = found[mode].get("kfake")
            row.append(f"{found[mode][name] / kfake:.2f}" if kfake and name != "kfake" else "")
        rows.append(row)
    columns = ("", "produce MB/s", "÷ kfake", "consume MB/s", "÷ kfake")
    table("Records of 1 kB in batches of 100 kB, four partitions", columns, rows)


def show_memory(results: dict[str, Any]) -> None:
    def figure(value: float | None) -> str:
        return "" if value is None else f"{value:,.0f}"

    keys = ("idle_mib", "full_mib", "above_idle_mib", "commits_s", "offsets_s")
    rows = [
        [name, *(figure(of.get(key)) for key in keys)] for name, of in results["memory"].items()
    ]
    columns = ("", "idle MiB", "full MiB", "above idle", "commits/s", "offsets/s")
    table("Memory with a million offsets of 100,000 groups", columns, rows)


SHOWN: dict[str, Callable[[dict[str, Any]], None]] = {
    "disk": show_disk,
    "starts": show_starts,
    "loads": show_loads,
    "transfers": show_transfers,
    "memory": show_memory,
}
