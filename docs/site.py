"""An MkDocs hook (mkdocs.yml): turns links to files outside docs/ into links to the repository."""

import re
from typing import Any

_OUTSIDE = re.compile(r"\]\(\.\./([^)\s]*)\)")


def on_page_markdown(markdown: str, *, config: Any, **_: object) -> str:
    return _OUTSIDE.sub(rf"]({config['repo_url']}/blob/main/\1)", markdown)
