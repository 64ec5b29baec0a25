"""What `make docs` does to pages before they become HTML.

Pages are read in the repository too, and link to its files: a module, a test, a guide. On the site there are no such files, so a link that
leads out of docs/ becomes its text. One that leads nowhere is a warning, and strict mode makes that an error.
"""

import logging
import re
from pathlib import Path
from typing import Any

LINK = re.compile(r"\[([^\]]+)\]\(([^)#\s]+)(?:#[^)\s]*)?\)")
_log = logging.getLogger("mkdocs.plugins.tidelog")


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Take links to files of the repository out of a page."""
    docs, folder = Path(config["docs_dir"]).resolve(), Path(page.file.abs_src_path).parent

    def text_only(match: re.Match[str]) -> str:
        target = match[2]
        if target.startswith("https://"):
            return match[0]
        path = (folder / target).resolve()
        if path.is_relative_to(docs):
            return match[0]
        if not path.exists():
            _log.warning("%s links to %s, which is not in the repository", page.file.src_path, target)
        return match[1]

    return LINK.sub(text_only, markdown)
