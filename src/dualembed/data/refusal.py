"""What refusals say of names: the one most like it, and some of many."""

from __future__ import annotations

from collections.abc import Iterable


def nearest(name: str, names: Iterable[str]) -> str:
    """The words '; did you mean ...?' with the known name most like this one, or nothing where none is."""
    from difflib import get_close_matches

    known = {each.lower(): each for each in names}
    close = get_close_matches(name.lower(), known, n=1)
    return f"; did you mean {known[close[0]]!r}?" if close else ""


def some(names: Iterable[str], most: int = 8) -> str:
    """The names with commas between them, the first few where they are many; one that has a comma is in quotes."""
    listed = [f'"{name}"' if "," in name else name for name in names]
    rest = len(listed) - most
    return ", ".join(listed[:most]) + (f" and {rest} more" if rest > 0 else "")
