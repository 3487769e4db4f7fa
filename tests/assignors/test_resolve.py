"""Assignors by name: built in, installed, and by path."""

import sys
from pathlib import Path

import pytest
from kohort.assignors.examples import Weighted
from kohort.assignors.model import Subscription, Topics
from kohort.assignors.resolve import (
    BUILTIN,
    AssignorNameTaken,
    AssignorNotFound,
    NotAnAssignor,
    resolve,
)

MODULE = """
from kohort.assignors.model import Assignor

class FirstTakesAll(Assignor):
    name = "first-takes-all"
    cooperative = False

    def assign(self, topics, members):
        shares = {member: [] for member in members}
        for topic, count in topics.partitions.items():
            shares[min(members)] += [(topic, partition) for partition in range(count)]
        return shares

class NeedsArgument(FirstTakesAll):
    def __init__(self, argument):
        pass

class Impostor(FirstTakesAll):
    name = "range"

class Inner:
    first = FirstTakesAll()

class Nameless(FirstTakesAll):
    name = None

class Half:
    name = "half"

nothing = 5
"""


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder on sys.path with the module `theirs`."""
    (tmp_path / "theirs.py").write_text(MODULE)
    (tmp_path / "without.py").write_text("")
    monkeypatch.syspath_prepend(str(tmp_path))
    for module in ("theirs", "without"):
        monkeypatch.delitem(sys.modules, module, raising=False)
    return tmp_path


def install(site: Path, package: str, **assignors: str) -> None:
    """Create a folder with metadata and entry points, as pip does."""
    folder = site / f"{package}-1.0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
    lines = [f"{name.replace('_', '-')} = {value}" for name, value in assignors.items()]
    (folder / "entry_points.txt").write_text("\n".join(["[kohort.assignors]", *lines]) + "\n")


@pytest.mark.parametrize("name", BUILTIN)
def test_a_built_in_assignor_is_found_by_its_name(name: str) -> None:
    assert resolve(name) is BUILTIN[name]
    assert resolve(name).name == name


def test_the_docs_list_the_built_in_assignors() -> None:
    page = (Path(__file__).parents[2] / "docs" / "assignors.md").read_text()
    assert f"| {', '.join(f'`{name}`' for name in BUILTIN)} | built in |" in page
    assert f"unknown assignor rangee; built in: {', '.join(sorted(BUILTIN))}; any other" in page


def test_an_installed_assignor_is_found_by_its_entry_point(site: Path) -> None:
    install(site, "their-package", first_takes_all="theirs:FirstTakesAll")
    assigned = resolve("first-takes-all").assign(
        Topics({"t": 2}), {"a": Subscription(("t",)), "b": Subscription(("t",))}
    )
    assert assigned == {"a": [("t", 0), ("t", 1)], "b": []}


def test_an_assignor_is_found_by_path_as_a_class_or_as_an_object(site: Path) -> None:
    assert resolve("theirs:FirstTakesAll").name == "first-takes-all"
    assert resolve("theirs:Inner.first").name == "first-takes-all"
    assert isinstance(resolve("kohort.assignors.examples:Weighted"), Weighted)
    assert resolve("kohort.assignors.examples:InRack").name == "in-rack"


def test_the_error_for_an_unknown_name_lists_the_known_ones(site: Path) -> None:
    install(site, "their-package", first_takes_all="theirs:FirstTakesAll")
    with pytest.raises(AssignorNotFound) as raised:
        resolve("rangee")
    assert str(raised.value) == (
        f"unknown assignor rangee; built in: {', '.join(sorted(BUILTIN))}; "
        "installed: first-takes-all; any other by its path, package.module:Name"
    )


def test_the_error_for_connect_names_its_package() -> None:
    with pytest.raises(
        AssignorNotFound, match=r"^connect assigns connectors .* use kohort.assignors.connect; bu"
    ):
        resolve("connect")


def test_a_missing_module_is_reported(site: Path) -> None:
    with pytest.raises(
        AssignorNotFound,
        match=r"^no module nowhere for nowhere\.at:All: install it, or add its folder",
    ):
        resolve("nowhere.at:All")


def test_an_import_error_inside_a_module_is_passed_on(site: Path) -> None:
    (site / "broken.py").write_text("import not_installed_anywhere")
    with pytest.raises(ModuleNotFoundError, match="not_installed_anywhere"):
        resolve("broken:Any")


def test_the_error_for_an_unknown_attribute_lists_the_modules_assignors(site: Path) -> None:
    with pytest.raises(
        AssignorNotFound,
        match=r"^theirs has no Other; its assignors: FirstTakesAll, Impostor, Nameless, Needs",
    ):
        resolve("theirs:Other")
    with pytest.raises(AssignorNotFound, match="it has no assignors"):
        resolve("without:Any")


def test_an_installed_assignor_must_not_have_a_built_in_name(site: Path) -> None:
    install(site, "their-package", range="theirs:Impostor")
    with pytest.raises(
        AssignorNameTaken,
        match=r"^2 assignors have the name range: kohort and their-package \(theirs:Impostor\)"
        "; built in: .*; installed: .*range",
    ):
        resolve("range")
    assert resolve("roundrobin").name == "roundrobin"


def test_two_packages_must_not_install_the_same_name(site: Path) -> None:
    install(site, "first-package", first_takes_all="theirs:FirstTakesAll")
    install(site, "second-package", first_takes_all="theirs:Inner.first")
    with pytest.raises(
        AssignorNameTaken,
        match=r"^2 assignors have the name first-takes-all: first-.* and second-.*; built in",
    ):
        resolve("first-takes-all")


def test_an_assignor_by_path_must_not_have_a_built_in_name(site: Path) -> None:
    with pytest.raises(
        AssignorNameTaken, match=r"^theirs:Impostor has the same name as the built-in range"
    ):
        resolve("theirs:Impostor")


def test_an_assignor_must_be_installed_under_its_own_name(site: Path) -> None:
    install(site, "their-package", another_name="theirs:FirstTakesAll")
    with pytest.raises(
        NotAnAssignor, match=r"installs the assignor .* as another-name, but its name is first-"
    ):
        resolve("another-name")


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("theirs:NeedsArgument", "cannot be instantiated without arguments"),
        (
            "theirs:Half",
            "is not an assignor; it lacks cooperative, subscription_user_data and assign",
        ),
        ("theirs:Nameless", "theirs:Nameless has no name: set `name` to a string"),
        (
            "theirs:nothing",
            "is not an assignor; it lacks name, cooperative, subscription_user_data and assign",
        ),
    ],
)
def test_an_object_that_is_not_an_assignor_is_rejected(site: Path, path: str, reason: str) -> None:
    with pytest.raises(NotAnAssignor, match=reason):
        resolve(path)
