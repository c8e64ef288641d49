"""Tagged documents as text: lines for programs, marks for people, colours for a terminal, a page for a browser."""

from hanlattice.output.html import html_page
from hanlattice.output.lines import as_conll, as_inline, as_jsonl, terminal_lines

__all__ = ["as_conll", "as_inline", "as_jsonl", "html_page", "terminal_lines"]
