"""`KOHORT_COMPILE=1 pip install .` compiles the hot path to C extensions.

Without that variable the package is plain Python, and pyproject.toml describes it completely.
"""

import os
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from setuptools import Extension, setup

# All are compiled into one library, in which they call each other directly.
COMPILED = {
    "broker": "connection context gather request request_cache runtime snapshots",
    "coordinator": "commands coordinator deadlines decision offsets outcome",
    "coordinator/classic": "group join members rebalance states",
    "broker/handlers": "k08_offset_commit k09_offset_fetch k11_join_group k12_heartbeat "
    "k14_sync_group",
    "log": "batch files group_commit log segment",
    "offsets": "record_codec records store table",
    "protocol": "framing",
    "topics": "delayed_fetch",
}
COMPILER = ["mypy>=2.4,<3"]


def extensions(folder: Path) -> list[Extension]:
    """Write their C code to `folder`. mypyc sees this tree under the name of the package, whatever
    the folder is called, so that tracebacks name files as in an installation."""
    from mypyc.build import mypycify

    here = Path.cwd()
    (folder / "named").mkdir()
    (folder / "named" / "kohort").symlink_to(here)
    os.chdir(folder / "named")
    try:
        # Types are checked by `make types`, with all libraries installed.
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
how: dict[str, Any] = {"script_name": "setup.py"}  # otherwise it becomes a module of the package
if COMPILES and "editable_wheel" in sys.argv:
    sys.exit(
        "KOHORT_COMPILE=1 does not work with an editable installation: the compiled modules would "
        "hide later edits. Omit one of the two."
    )
elif "bdist_wheel" in sys.argv:
    Path("build").mkdir(exist_ok=True)
    # A new folder, because an earlier build may have modules that no longer exist.
    with TemporaryDirectory(dir=Path.cwd() / "build") as folder:
        setup(
            ext_modules=extensions(Path(folder)) if COMPILES else [],
            options={"build": {"build_base": f"{folder}/build"}},
            **how,
        )
else:
    setup(setup_requires=COMPILER if COMPILES else [], **how)
