"""Assignors by name: ours, those of installed packages, and any by its path."""

import sys
from pathlib import Path

import pytest
from kohort.assignors.builtin import BUILTIN
from kohort.assignors.examples.weighted import Weighted
from kohort.assignors.finding import (
    AssignorNameTaken,
    AssignorNotFound,
    NotAnAssignor,
    find,
    names,
)
from kohort.assignors.model import Subscription, Topics

MINE = """
from kohort.assignors.model import Assignor

class ToTheFirst(Assignor):
    name = "to-the-first"
    cooperative = False

    def assign(self, topics, members):
        shares = {member: [] for member in members}
        for topic, count in topics.partitions.items():
            shares[min(members)] += [(topic, partition) for partition in range(count)]
        return shares

class Needy(ToTheFirst):
    def __init__(self, what):
        pass

class Impostor(ToTheFirst):
    name = "range"

class Inner:
    first = ToTheFirst()

class Nameless(ToTheFirst):
    name = None

class Half:
    name = "half"

nothing = 5
"""


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that packages are installed in; it has the module `theirs`."""
    (tmp_path / "theirs.py").write_text(MINE)
    (tmp_path / "without.py").write_text("")
    monkeypatch.syspath_prepend(str(tmp_path))
    for module in ("theirs", "without"):
        monkeypatch.delitem(sys.modules, module, raising=False)
    return tmp_path


def install(site: Path, package: str, **assignors: str) -> None:
    """As pip does it: a folder with the package's name and its entry points."""
    folder = site / f"{package}-1.0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
    lines = [f"{name.replace('_', '-')} = {value}" for name, value in assignors.items()]
    (folder / "entry_points.txt").write_text("\n".join(["[kohort.assignors]", *lines]) + "\n")


@pytest.mark.parametrize("name", BUILTIN)
def test_ours_are_found_by_the_name_that_members_vote_for(name: str) -> None:
    assert find(name) is BUILTIN[name]
    assert find(name).name == name


def test_an_installed_one_is_found_by_its_entry_point(site: Path) -> None:
    install(site, "their-package", to_the_first="theirs:ToTheFirst")
    assert names() == sorted([*BUILTIN, "to-the-first"])
    given = find("to-the-first").assign(
        Topics({"t": 2}), {"a": Subscription(("t",)), "b": Subscription(("t",))}
    )
    assert given == {"a": [("t", 0), ("t", 1)], "b": []}


def test_any_is_found_by_its_path_as_a_class_or_as_an_object(site: Path) -> None:
    assert find("theirs:ToTheFirst").name == "to-the-first"
    assert find("theirs:Inner.first").name == "to-the-first"
    assert isinstance(find("kohort.assignors.examples.weighted:Weighted"), Weighted)
    assert find("kohort.assignors.examples.in_rack:InRack").name == "in-rack"


def test_a_name_that_nobody_has_is_answered_with_all_that_there_are(site: Path) -> None:
    install(site, "their-package", to_the_first="theirs:ToTheFirst")
    with pytest.raises(AssignorNotFound) as refused:
        find("rangee")
    *first, last = sorted(BUILTIN)
    assert str(refused.value) == (
        f"no assignor is called rangee: built in are {', '.join(first)} and {last}; "
        "installed are to-the-first; any other by its path, package.module:Name"
    )


def test_connect_which_knows_no_partitions_is_said_to_be_elsewhere() -> None:
    with pytest.raises(AssignorNotFound, match=r"^connect gives .*kohort.assignors.connect\): bu"):
        find("connect")


def test_a_module_that_does_not_exist_is_named(site: Path) -> None:
    with pytest.raises(
        AssignorNotFound,
        match=r"no module nowhere for nowhere\.at:All, neither installed nor in a fol",
    ):
        find("nowhere.at:All")


def test_a_module_that_misses_another_says_so_itself(site: Path) -> None:
    (site / "broken.py").write_text("import not_installed_anywhere")
    with pytest.raises(ModuleNotFoundError, match="not_installed_anywhere"):
        find("broken:Any")


def test_a_name_that_a_module_does_not_have_is_answered_with_those_it_has(site: Path) -> None:
    with pytest.raises(
        AssignorNotFound,
        match=r"^theirs has no ToTheLast: it has Impostor, Nameless, Needy and ToTheFirst$",
    ):
        find("theirs:ToTheLast")
    with pytest.raises(AssignorNotFound, match="it has no assignor at all"):
        find("without:Any")


def test_an_installed_one_must_not_have_a_name_of_ours(site: Path) -> None:
    install(site, "their-package", range="theirs:Impostor")
    with pytest.raises(
        AssignorNameTaken,
        match=r"range is the name of 2 assignors, kohort itself and their-package \(theirs:Imp.*\)"
        ": built in are .*; installed are .*range",
    ):
        find("range")
    assert find("roundrobin").name == "roundrobin"


def test_two_packages_must_not_install_one_name(site: Path) -> None:
    install(site, "first-package", to_the_first="theirs:ToTheFirst")
    install(site, "second-package", to_the_first="theirs:Inner.first")
    with pytest.raises(
        AssignorNameTaken, match=r"name of 2 assignors, first-.* and second-.*: built in"
    ):
        find("to-the-first")


def test_one_by_its_path_must_not_call_itself_as_ours_does(site: Path) -> None:
    with pytest.raises(AssignorNameTaken, match=r"theirs:Impostor calls itself range, .* built in"):
        find("theirs:Impostor")


def test_one_must_be_installed_under_its_own_name(site: Path) -> None:
    install(site, "their-package", another_name="theirs:ToTheFirst")
    with pytest.raises(NotAnAssignor, match=r"installs an assignor another-name, but .*to-the-fi"):
        find("another-name")


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("theirs:Needy", "cannot be made without arguments"),
        ("theirs:Half", "is no assignor, it lacks cooperative, user_data and assign"),
        ("theirs:Nameless", "theirs:Nameless has no name, and members vote for names: give it one"),
        ("theirs:nothing", "is no assignor, it lacks name, cooperative, user_data and assign"),
    ],
)
def test_what_is_no_assignor_is_refused_with_what_it_lacks(site: Path, path: str, why: str) -> None:
    with pytest.raises(NotAnAssignor, match=why):
        find(path)
