"""MkDocs hook: a name in a table stays in one line, where a browser would break it after a hyphen or a slash."""

import re

CELL = re.compile(r"<t[dh]\b.*?</t[dh]>", re.DOTALL)
NAME = re.compile(r"[\w./:-]*\w[-/][\w./:-]*\w|--?\w[\w-]*")


def on_page_content(html: str, **kwargs) -> str:
    """Puts every name of a cell in a span that docs/stylesheets/site.css keeps whole."""

    def whole(cell: re.Match) -> str:
        parts = re.split(r"(<[^>]*>)", cell[0])  # text and tags, in turn
        parts[::2] = [NAME.sub(r'<span class="whole">\g<0></span>', part) for part in parts[::2]]
        return "".join(parts)

    return CELL.sub(whole, html)
