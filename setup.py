"""`KOHORT_COMPILE=1 pip install .` compiles the hot path to C extensions.

Without that variable the package is plain Python, and pyproject.toml describes it completely.
"""

import os
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from setuptools import Extension, setup

# These modules are compiled into one library, so that they call each other directly.
COMPILED = {
    "broker": "gather",
    "broker/network": "connection outbox request request_cache",
    "broker/runtime": "context runtime snapshots",
    "coordinator": "commands coordinator deadlines decision offset_cleanup offsets outcome",
    "coordinator/classic": "group join members rebalance states",
    "coordinator/consumer": "heartbeat",
    "broker/handlers": "k08_offset_commit k09_offset_fetch k11_join_group k12_heartbeat "
    "k14_sync_group k68_consumer_group_heartbeat",
    "log": "batch files group_commit log segment",
    "offsets": "coordinator_topic record_codec records store table",
    "protocol": "framing",
    "topics": "delayed_fetch",
}
COMPILER = ["mypy>=2.4,<3"]


def extensions(folder: Path) -> list[Extension]:
    """Write the C code of the compiled modules to `folder` and return their extensions.

    MYPYC_OPT_LEVEL is the optimization level of the C compiler, as in mypy's own build.

    mypyc reads the modules through a link named `kohort`, so that tracebacks contain the same paths
    as in an installation, whatever this folder is called.
    """
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
        compiled = mypycify(
            [*options, *paths],
            opt_level=os.environ.get("MYPYC_OPT_LEVEL", "3"),
            debug_level="0",
            target_dir=str(folder),
            group_name="kohort",
        )
    finally:
        os.chdir(here)
    for extension in compiled:  # setuptools rejects absolute paths
        extension.sources = [os.path.relpath(path) for path in extension.sources]
        extension.depends = []
    return compiled


COMPILES = os.environ.get("KOHORT_COMPILE") == "1"
# Without `script_name`, setuptools adds setup.py to the package.
OPTIONS: dict[str, Any] = {"script_name": "setup.py"}
if COMPILES and "editable_wheel" in sys.argv:
    sys.exit(
        "KOHORT_COMPILE=1 does not work with an editable installation, because compiled modules "
        "would hide later edits: unset KOHORT_COMPILE, or remove --editable."
    )
elif "bdist_wheel" in sys.argv:
    Path("build").mkdir(exist_ok=True)
    # A new folder, because the folder of an earlier build may contain modules removed since then.
    with TemporaryDirectory(dir=Path.cwd() / "build") as folder:
        setup(
            ext_modules=extensions(Path(folder)) if COMPILES else [],
            options={"build": {"build_base": f"{folder}/build"}},
            **OPTIONS,
        )
else:
    setup(setup_requires=COMPILER if COMPILES else [], **OPTIONS)
