"""The planted faults are where they are said to be; `make planted` lets the tests look for them."""

from planted import LAYERS, ROOT
from planted_faults import FAULTS


def test_each_fault_replaces_what_is_there_once() -> None:
    places = {fault.name: (ROOT / fault.path).read_text().count(fault.right) for fault in FAULTS}
    assert {name: count for name, count in places.items() if count != 1} == {}
    assert len(places) == len(FAULTS)


def test_each_fault_leaves_a_file_that_python_can_read() -> None:
    for fault in FAULTS:
        text = (ROOT / fault.path).read_text().replace(fault.right, fault.wrong)
        compile(text, fault.path, "exec")


def test_the_layers_are_there() -> None:
    assert all((ROOT / path).exists() for paths in LAYERS.values() for path in paths)
