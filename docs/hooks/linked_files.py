"""MkDocs hook: pages link to files of the repository as they do on a code host, and the site holds what they link to.

A link is relative to the page's place in the repository. One that leaves docs/ (../benchmarks/EVIDENCE.md) brings that file,
and what it links to, into the site, at its path from the repository's root; README.md is the site's first page.
"""

import os.path
import re
from pathlib import Path, PurePosixPath

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[2]
LINK = re.compile(r"\]\((?!https?:|mailto:|#|/)([^)\s#]+)")
ALWAYS = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "benchmarks/EVIDENCE.md", "benchmarks/RESULTS.md")


def linked(page: str, link: str) -> str:
    """The path, from the repository's root, of what a page at such a path links to."""
    return os.path.normpath(PurePosixPath(page).parent / link)


def on_files(files: Files, config) -> Files:
    """Adds every file of the repository that a page links to, or a page that is so added."""
    pages = [f"docs/{file.src_uri}" for file in files.documentation_pages()] + list(ALWAYS)
    for page in pages:  # which grows
        site_path = page.removeprefix("docs/")
        if files.get_file_from_path(site_path) is None:
            files.append(File(site_path, str(ROOT), config.site_dir, config.use_directory_urls))
        # A reply or a prompt is a document of its own, and no text of ours: what looks like a link in it is left alone.
        if page.endswith(".md") and "/shipped/" not in page:
            found = (linked(page, link) for link in LINK.findall((ROOT / page).read_text("utf-8")))
            pages += [path for path in found if path not in pages and (ROOT / path).is_file()]
    return files


def on_page_markdown(markdown: str, page, config, files: Files) -> str:
    """Points links at where the files are in the site."""
    here = page.file.src_uri
    there = here if page.file.src_dir == str(ROOT) else f"docs/{here}"

    def moved(match: re.Match) -> str:
        target = linked(there, match[1]).removeprefix("docs/")
        is_known = files.get_file_from_path(target) is not None
        return f"]({os.path.relpath(target, PurePosixPath(here).parent)}" if is_known else match[0]

    return markdown if "/shipped/" in here else LINK.sub(moved, markdown)
