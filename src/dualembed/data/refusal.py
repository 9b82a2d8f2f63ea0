"""The error of bad input, made without waiting for JAX."""

from __future__ import annotations

from collections.abc import Iterable


def refused(sentence: str) -> ValueError:
    """The `InputError` that says the sentence."""
    # Imported here: checks brings JAX, which the command line must not wait for.
    from dualembed.checks import InputError

    return InputError(sentence)


def nearest(name: str, names: Iterable[str]) -> str:
    """The words '; did you mean ...?' with the known name most like this one, or nothing where none is."""
    from difflib import get_close_matches

    known = {each.lower(): each for each in names}
    close = get_close_matches(name.lower(), known, n=1)
    return f"; did you mean {known[close[0]]!r}?" if close else ""


def some(names: Iterable[str], most: int = 8) -> str:
    """The names with commas between them, the first few where they are many."""
    listed = list(names)
    rest = len(listed) - most
    return ", ".join(listed[:most]) + (f" and {rest} more" if rest > 0 else "")
