"""make truth: many worlds, and how often the diagnosis is right about them.

python -m truth.explore --worlds 1000      the matrix of what is true and what was said
python -m truth.explore --first 17 --wrong each answer that was wrong, with its evidence
"""

import argparse
import shutil
import tempfile
from pathlib import Path

from truth.judge import Matrix, Verdict, judge
from truth.world import World


def main() -> None:
    parser = argparse.ArgumentParser(prog="make truth")
    parser.add_argument("--worlds", type=int, default=1)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--wrong", action="store_true", help="tell each wrong answer")
    asked = parser.parse_args()
    matrices = {False: Matrix(), True: Matrix()}
    for seed in range(asked.first, asked.first + asked.worlds):
        for with_events, verdict in verdicts_of(seed):
            matrices[with_events].add(verdict)
            if asked.wrong and not verdict.is_right:
                print(told(seed, verdict, with_events=with_events))
    for with_events, matrix in matrices.items():
        print("\nWith the event log:" if with_events else "\nFrom the log alone:")
        print("\n".join(matrix.lines()))


def verdicts_of(seed: int) -> list[tuple[bool, Verdict]]:
    folder = Path(tempfile.mkdtemp(prefix="truth-"))
    try:
        with World(seed, folder) as world:
            world.run()
        return judge(world)
    finally:
        shutil.rmtree(folder)


def told(seed: int, verdict: Verdict, *, with_events: bool) -> str:
    known = "events" if with_events else "log"
    return (
        f"world {seed} {verdict.group} generation {verdict.generation} at {verdict.log_offset}, "
        f"{known}: {verdict.row}, said {verdict.said}: {verdict.evidence}"
    )


if __name__ == "__main__":
    main()
