"""`KOHORT_COMPILE=1 pip install .` makes C extensions of what every request goes through.

Without that variable all is plain Python, as pyproject.toml says it.
"""

import os
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from setuptools import Extension, setup

# All go into one library, in which they call each other directly.
COMPILED = {
    "broker": "connection context gather request request_cache runtime snapshots",
    "coordinator": "commands coordinator deadlines decision offsets outcome",
    "coordinator/classic": "group join members rebalance states",
    "broker/handlers": "k08_offset_commit k09_offset_fetch k11_join_group k12_heartbeat "
    "k14_sync_group",
    "log": "batch files group_commit log segment",
    "offsets": "commit_value record_codec records store table",
    "protocol": "framing",
    "topics": "delayed_fetch",
}
COMPILER = ["mypy>=2.4,<3"]


def extensions(folder: Path) -> list[Extension]:
    """Their C is written into `folder`. The compiler of types sees this tree under the name of its
    package, whatever it is called here; so a traceback names files as an installation has them."""
    from mypyc.build import mypycify

    here = Path.cwd()
    (folder / "named").mkdir()
    (folder / "named" / "kohort").symlink_to(here)
    os.chdir(folder / "named")
    try:
        # Whether the types are right is for `make types` to say, with all libraries at hand.
        options = ["--config-file=", "--explicit-package-bases", "--ignore-missing-imports"]
        paths = [
            f"kohort/{part}/{name}.py" for part, names in COMPILED.items() for name in names.split()
        ]
        made = mypycify(
            [*options, *paths], debug_level="0", target_dir=str(folder), group_name="kohort"
        )
    finally:
        os.chdir(here)
    for extension in made:  # setuptools takes no absolute paths
        extension.sources = [os.path.relpath(path) for path in extension.sources]
        extension.depends = []
    return made


COMPILES = os.environ.get("KOHORT_COMPILE") == "1"
how: dict[str, Any] = {"script_name": "setup.py"}  # lest it be taken for a module of the package
if COMPILES and "editable_wheel" in sys.argv:
    sys.exit(
        "KOHORT_COMPILE=1 and an editable installation do not go together: what was compiled would "
        "hide what is edited. Leave out one of them."
    )
elif "bdist_wheel" in sys.argv:
    Path("build").mkdir(exist_ok=True)
    # A folder of its own: nothing of an earlier build may get into this one, such as a module that
    # is gone since.
    with TemporaryDirectory(dir=Path.cwd() / "build") as folder:
        setup(
            ext_modules=extensions(Path(folder)) if COMPILES else [],
            options={"build": {"build_base": f"{folder}/build"}},
            **how,
        )
else:
    setup(setup_requires=COMPILER if COMPILES else [], **how)
