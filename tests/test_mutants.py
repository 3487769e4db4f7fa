"""Every mutant changes the code it names; `make mutants` runs the tests against each."""

from support.mutation_testing import LAYERS, MUTANTS, ROOT


def test_each_mutant_replaces_text_that_occurs_once() -> None:
    counts = {
        mutant.name: (ROOT / mutant.path).read_text().count(mutant.original) for mutant in MUTANTS
    }
    assert {name: count for name, count in counts.items() if count != 1} == {}
    assert len(counts) == len(MUTANTS)


def test_each_mutant_is_valid_python() -> None:
    for mutant in MUTANTS:
        compile(mutant.applied(), mutant.path, "exec")


def test_the_paths_of_all_layers_exist() -> None:
    assert all((ROOT / path).exists() for paths in LAYERS.values() for path in paths)
