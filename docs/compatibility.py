"""The table of docs/compatibility.md, from the recorded results of tests/languages."""

import json
from pathlib import Path

RESULTS = Path(__file__).parents[1] / "tests" / "languages" / "results.json"
LEGEND = "✓: works · –: the library does not support it · ✗: see the notes below the table"
MARKS = {"works": "✓", "not supported": "–"}


def compatibility() -> str:
    recorded = json.loads(RESULTS.read_text(encoding="utf-8"))
    stories, notes = recorded["stories"], []
    names = [name.replace("_", " ") for name in stories]
    rows = ["## Stories", "", "| story | what happens |", "|---|---|"]
    rows += [f"| {name.replace('_', ' ')} | {text} |" for name, text in stories.items()]
    rows += ["", "## Results", "", LEGEND, ""]
    rows += [f"| | client | {' | '.join(names)} |", "|---|---|" + ":-:|" * len(names)]
    language = ""
    for client in recorded["clients"]:
        cells = []
        for name in stories:
            kind, _, text = client["outcomes"][name].partition(": ")
            if text and kind == "differs":
                notes.append(f"{client['name']}, {name.replace('_', ' ')}: {text}")
                cells.append(f"✗ {len(notes)})")
            else:
                cells.append(MARKS[kind])
        shown = client["language"] if client["language"] != language else ""
        language = client["language"]
        rows.append(f"| {shown} | {client['name']} | {' | '.join(cells)} |")
    rows += ["", *(f"{number}. {note}" for number, note in enumerate(notes, 1))]
    rows += [
        "",
        f"Played on {recorded['date']} with {', '.join(recorded['versions'])}.",
    ]
    rows += ["", "## Not supported", "", "| client | limitations |", "|---|---|"]
    for client in recorded["clients"]:
        texts = [
            text.partition(": ")[2] for text in client["outcomes"].values() if text[:3] == "not"
        ]
        if texts:
            rows.append(f"| {client['name']} | {', '.join(dict.fromkeys(texts))} |")
    return "\n".join(rows)
