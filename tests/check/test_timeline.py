"""The timeline of a run."""

import re
from xml.etree import ElementTree

import pytest
from kohort.check.analysis import analyze
from kohort.check.history import SUCCESSOR, Event
from kohort.check.recorder import History
from kohort.check.timeline import ANOMALY, DISTURBANCE, draw
from support.tiny_histories import final, send

SVG = "{http://www.w3.org/2000/svg}"


def _lost_write() -> History:
    """A lost write in the middle of a minute, 4 ms long, during a disturbance."""
    history = History()
    operations = send("v1", 0), final((1, "v2")), send("v2", 1)
    for number, each in enumerate(operations):
        history.end(history.begin(each), "ok")
        each.began_s, each.ended_s = 30 + 0.004 * number, 30.001 + 0.004 * number
    event = history.begin(Event(client="nemesis", what="killed", nemesis="kill"))
    event.began_s, event.ended_s = 30.002, 31
    return history


def _drawn() -> ElementTree.Element:
    history = _lost_write()
    return ElementTree.fromstring(draw(history, analyze(history), "a run"))


def test_operations_of_a_counter_example_are_apart_and_numbered() -> None:
    drawing = _drawn()
    marked = [each for each in drawing.iter(f"{SVG}rect") if each.get("stroke") == ANOMALY]
    first, second = sorted(float(each.get("x", "")) for each in marked)
    assert second - first > 100
    texts = [each.text or "" for each in drawing.iter(f"{SVG}text")]
    # To the right of the bar, and left of the line.
    assert (texts.count("1"), texts.count("2")) == (2, 2)
    line = next(number for number, each in enumerate(texts) if re.match("30.000 s", each))
    assert texts[line - 1] == "1"


def test_disturbances_are_behind_all_bars() -> None:
    rects = [each for each in _drawn().iter(f"{SVG}rect") if each.find(f"{SVG}title") is not None]
    assert [each.get("fill") == DISTURBANCE for each in rects] == [True, False, False, False]


def test_a_disturbance_that_never_ended_lasts_until_the_end() -> None:
    history = _lost_write()
    *_, event = history
    event.ended_s = None
    drawing = ElementTree.fromstring(draw(history, analyze(history), "a run"))
    bands = [each for each in drawing.iter(f"{SVG}rect") if each.get("fill") == DISTURBANCE]
    assert max(float(each.get("width", "")) for each in bands) > 100


@pytest.mark.parametrize("client", ["producer-0.1", f"producer-0.1{SUCCESSOR}"])
def test_an_operation_that_never_ended_lasts_until_its_client_crashed(client: str) -> None:
    history = History()
    for began_s, each in (
        (0, send("v1", outcome="info", client=client)),
        (1, Event(client="producer-0.1", what="crashed")),
        (10, final()),
    ):
        history.begin(each).began_s = began_s
    drawing = ElementTree.fromstring(draw(history, [], "a run"))
    bars = (each for each in drawing.iter(f"{SVG}rect") if each.find(f"{SVG}title") is not None)
    (width,) = (float(each.get("width", "")) for each in bars if each.get("opacity"))
    assert width < 200


def test_any_value_of_a_record_is_drawn_as_xml() -> None:
    history = History()
    for each in (send("v1", 0), final((1, history.text(b"\x00\x01bad")))):
        history.end(history.begin(each), "ok")
    drawing = draw(history, analyze(history), "a run")
    assert ElementTree.fromstring(drawing) is not None
    assert r"\x00\x01bad" in drawing


def test_row_names_are_explained() -> None:
    texts = [each.text or "" for each in _drawn().iter(f"{SVG}text")]
    (names,) = (each for each in texts if each.startswith("rows: "))
    assert "(KIP-848)" in names
