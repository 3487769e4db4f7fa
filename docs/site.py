"""A hook of mkdocs (mkdocs.yml): links to files outside of docs/ become links to the repository."""

import re
from typing import Any

_OUTSIDE = re.compile(r"\]\(\.\./([^)\s]*)\)")


def on_page_markdown(markdown: str, *, config: Any, **_: object) -> str:
    return _OUTSIDE.sub(rf"]({config['repo_url']}/blob/main/\1)", markdown)
