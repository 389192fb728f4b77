"""Text tables, for reports and for the command line."""

from collections.abc import Sequence


def render(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Lay out a text table; columns that are empty throughout are left out."""
    kept = [index for index in range(len(heads)) if any(row[index] for row in rows)]
    lines = [[row[index] for index in kept] for row in (heads, *rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines]
