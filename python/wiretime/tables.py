"""Tables as the command line prints them."""

from __future__ import annotations

from rich import box
from rich.table import Table


def plain(title: str) -> Table:
    """Return an empty table."""
    return Table(title=title, box=box.SIMPLE_HEAD, title_justify="left", title_style="bold")


def of_numbers(title: str, *columns: str) -> Table:
    """Return a table whose first column names, whose last explains, and whose others are numbers."""
    table = plain(title)
    for i, column in enumerate(columns):
        # Names and explanations give way, numbers do not.
        number = 0 < i < len(columns) - 1
        table.add_column(column, justify="right" if number else "left", no_wrap=number)
    return table
