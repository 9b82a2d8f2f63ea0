"""Columns of a table: chosen by name, by the start of their names or by role, and read as numbers."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from dualembed.checks import InputError, nearest, some
from dualembed.data.roles import ROLES, Kind, Role, words_of

if TYPE_CHECKING:
    import pyarrow as pa

Columns = dict[str, list[str]]
PIECE = re.compile(r'\s*"(?:[^"]|"")*"\s*(?=,|$)|[^,]*')  # one in double quotes, or up to the next comma
QUOTED = re.compile(r'"((?:[^"]|"")*)"')
ORDERS = ("episode", "time", "terminated", "truncated", "terminal")  # words that say which row follows which
SEPARATORS = ";\t|"
YES_OR_NO = {"yes": 1.0, "no": 0.0, "true": 1.0, "false": 0.0, "y": 1.0, "n": 0.0, "t": 1.0, "f": 0.0}
WAY_OUT = "fill them, or drop these rows with --drop-missing"


def select_columns(names: Sequence[str], spec: str, option: str, *, taken: Collection[str] = ()) -> list[str]:
    """The columns that a specification asks for.

    What an asterisk stands for comes in natural order, s2 before s10. A name may stand in double quotes, as in a CSV
    file, and one that holds a comma or an asterisk is found as it stands, too.

    Parameters
    ----------
    names : sequence of str
        Names of all columns.
    spec : str
        Names with commas between them, or the start of names and an asterisk.
    option : str
        Where the specification came from, for messages.
    taken : collection of str, default=()
        Columns that messages do not propose.

    Returns
    -------
    list of str
        The columns.

    Examples
    --------
    >>> select_columns(["s10", "s2", "left, right"], 's*,"left, right"', "--state")
    ['s2', 's10', 'left, right']
    """
    pieces = _pieces(spec)
    chosen: list[str] = []
    while pieces:
        # The longest run of pieces that is a column, so that names with commas are found.
        runs = [",".join(pieces[:length]).strip() for length in range(len(pieces), 0, -1)]
        length = len(pieces) - next((number for number, run in enumerate(runs) if run in names), len(pieces) - 1)
        piece = ",".join(pieces[:length]).strip()
        chosen += _matching(piece, names, option, taken=(*taken, *chosen))
        pieces = pieces[length:]
    twice = [name for name in chosen if chosen.count(name) > 1]
    if twice:
        raise InputError(f"{option} {spec!r} names the column {twice[0]!r} more than once; name it once")
    return chosen


def _pieces(spec: str) -> list[str]:
    """What stands between commas, other than those in double quotes."""
    found, start = [], 0
    while start <= len(spec):
        match = PIECE.match(spec, start)
        found.append(match[0] if match else "")
        start += len(found[-1]) + 1
    return found


def columns_by_role(
    roles: Sequence[Role],
    options: Mapping[str, str | None],
    names: Sequence[str],
    *,
    needs: Collection[str],
    derives: Collection[str] = (),
) -> Columns:
    """The columns of each of these roles that the table has columns of, by the words for them.

    An option that is left out stands for columns of well-known names: state, or state_* for several, and likewise for
    the others; what follows has the names of what it follows with next_ before them. An empty option is for none. It is
    refused where one of the roles it `needs` has no columns, unless it `derives` them from the next row.
    """
    columns: Columns = {}
    for role in roles:
        words, taken = words_of(role, roles), [name for own in columns.values() for name in own]
        given = [word for word in words if options.get(word) is not None]
        if len(given) > 1:
            raise InputError(f"--{given[1]} is another name of {role.option}; give one of them")
        if given:
            spec = options[given[0]] or ""
            found = select_columns(names, spec, f"--{given[0]}".replace("_", "-"), taken=taken) if spec.strip() else []
            word = given[0]
        elif role.name == "time" and ROLES["states"] not in roles:
            found, word = [], role.word  # rows that do not follow each other are one path only where that is said
        else:
            found, word = _well_known(role, words, columns, [name for name in names if name not in taken])
        if not found and role.name in needs and role.name not in derives:
            _refuse_missing(role, columns, names)
        if len(found) > 1 and not role.several:
            raise InputError(f"{role.option} must be one column, not {len(found)} ({some(found)}); name one")
        if found:
            columns[word] = found
    for role in roles:
        if role.follows is not None and role.word in columns:
            before = ROLES[role.follows]
            columns[role.word] = _paired(columns[before.word], columns[role.word], before, role)
    for role in roles:
        if role.name in needs and role.name in derives and role.word not in columns:
            asked = options.get(role.word) is not None
            _check_derived(role, columns, [] if asked else names, names)
    return columns


def _check_derived(role: Role, columns: Columns, looked_at: Sequence[str], names: Sequence[str]) -> None:
    """Raise where what follows is not known from the next row, or where one of some columns seems to hold it."""
    taken = {name for own in columns.values() for name in own}
    seems = [name for name in looked_at if name not in taken and "next" in name.lower()]
    first = ROLES["next_states"].word
    if not any(word in columns for word in ORDERS) or (role.word != first and first in columns):
        _refuse_missing(role, columns, names)
    if seems:
        way = f'; if {seems[0]!r} is none of it, {role.option} "" takes what the next row has'
        _refuse_missing(role, columns, names, way)


def to_numbers(table: pa.Table, name: str, option: str) -> np.ndarray:
    """A column in float64; text that reads as numbers is taken for them, and yes and no for 1 and 0.

    Parameters
    ----------
    table : pyarrow.Table
        The table.
    name : str
        Name of the column.
    option : str
        Where the name came from, for messages.

    Returns
    -------
    array of shape (n,)
        The numbers.

    Examples
    --------
    >>> import pyarrow
    >>> to_numbers(pyarrow.table({"speed": ["1.5", " 2 "]}), "speed", "--state")
    array([1.5, 2. ])
    """
    import pyarrow as pa

    column = _column(table, name, option)
    kind = column.type
    if pa.types.is_temporal(kind):
        raise InputError(f"{option} needs numbers, but the column {name!r} holds dates or times; give days or seconds")
    if _is_text(kind):
        values = _parsed(column, name, option)
    elif _is_number(kind):
        values = column.cast(pa.float64(), safe=False).to_numpy()
    else:
        raise InputError(f"{option} needs numbers, but the column {name!r} holds {kind}; give one number a row")
    _check_finite(values, name, option)
    return values


def names_categories(table: pa.Table, name: str) -> bool:
    """Whether a column is declared to hold categories, or holds text of which no more than half reads as numbers.

    >>> import pyarrow
    >>> table = pyarrow.table({"colour": ["red", "blue"], "speed": ["1.5", "2"]})
    >>> [names_categories(table, name) for name in table.column_names]
    [True, False]
    """
    import pyarrow as pa

    if pa.types.is_dictionary(table.column(name).type):
        return True
    column = table.column(name)
    if not _is_text(column.type):
        return False
    counts = [(each["values"], each["counts"]) for each in column.value_counts().to_pylist()]
    spelt = sum(count for text, count in counts if text is not None and not np.isnan(_spelt(text)))
    return 2 * spelt <= len(column) - column.null_count


def missing_rows(table: pa.Table, names: Iterable[str]) -> np.ndarray:
    """Whether each row has nothing, or NaN, in any of the columns.

    Parameters
    ----------
    table : pyarrow.Table
        The table.
    names : iterable of str
        Names of columns.

    Returns
    -------
    array of bool of shape (n,)
        Whether something is missing.

    Examples
    --------
    >>> import pyarrow
    >>> missing_rows(pyarrow.table({"a": [1.0, None, 3.0], "b": [0.0, 1.0, float("nan")]}), ["a", "b"])
    array([False,  True,  True])
    """
    import pyarrow as pa

    missing = np.zeros(table.num_rows, dtype=bool)
    for name in names:
        column = _column(table, name, "a list of columns")
        missing |= column.is_null(nan_is_null=pa.types.is_floating(column.type)).to_numpy()
    return missing


def no_such_column(name: str, names: Sequence[str], option: str, *, taken: Collection[str] = ()) -> ValueError:
    """The error of a name that is no column, with those that are and the nearest that is not taken."""
    advice = nearest(name, [each for each in names if each not in taken])
    if said := _separated(names):
        advice = said
    elif not advice and any("," in each for each in names):
        advice = "; put a name with a comma in it into double quotes"
    return InputError(f"{option} names the column {name!r}, which is not there (there are {some(names)}){advice}")


def _separated(names: Sequence[str]) -> str:
    """What to say of a file whose only column seems to be several, with something else than commas between them."""
    marks = [mark for mark in SEPARATORS if len(names) == 1 and mark in names[0]]
    return f"; the file seems to have {marks[0]!r} between its columns, where commas must be" if marks else ""


def _matching(piece: str, names: Sequence[str], option: str, *, taken: Collection[str]) -> list[str]:
    """The columns that one piece of a spec stands for."""
    if piece in names:
        return [piece]
    if quoted := QUOTED.fullmatch(piece):
        name = quoted[1].replace('""', '"')
        if name not in names:
            raise no_such_column(name, names, option, taken=taken)
        return [name]
    if not piece:
        raise InputError(f"{option} has an empty name in it; give names with single commas between them, such as s1,s2")
    if piece.endswith("*"):
        found = sorted((name for name in names if name.startswith(piece[:-1])), key=_natural)
        if not found:
            raise InputError(f"{option} {piece!r} matches no column; there are {some(names)}")
        return found
    raise no_such_column(piece, names, option, taken=taken)


def _natural(name: str) -> list[tuple[int, int, str]]:
    """What to sort by so that numbers within names count as numbers."""
    return [(0, int(part), "") if part.isdecimal() else (1, 0, part) for part in re.split(r"(\d+)", name) if part]


def _column(table: pa.Table, name: str, option: str) -> Any:
    """The column of that name, categories replaced by what they stand for."""
    import pyarrow as pa

    if name not in table.column_names:
        raise no_such_column(name, table.column_names, option)
    column = table.column(name)
    return column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column


def _is_text(kind: Any) -> bool:
    import pyarrow as pa

    tests = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
    return any(test(kind) for test in tests)


def _is_number(kind: Any) -> bool:
    import pyarrow as pa

    tests = (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal, pa.types.is_boolean, pa.types.is_null)
    return any(test(kind) for test in tests)


def _parsed(column: Any, name: str, option: str) -> np.ndarray:
    """The numbers that the text spells, NaN where there is none; the first row that spells none is refused."""
    import pyarrow as pa
    from pyarrow import compute

    column = column.cast(pa.large_string())  # views have no functions of their own yet
    try:
        values: np.ndarray = compute.utf8_trim_whitespace(column).cast(pa.float64()).to_numpy()
    except pa.ArrowInvalid:  # Python reads a few spellings more, such as +1
        texts = column.combine_chunks().dictionary_encode("encode")
        spelt = _all_spelt(texts.dictionary.to_pylist())
        values = np.array(spelt)[texts.indices.to_numpy()]
    wrong = np.isnan(values) & column.is_valid().to_numpy()
    if wrong.any():
        row = int(np.argmax(wrong))
        raise InputError(
            f"{option} needs numbers, but the column {name!r} holds {column[row].as_py()!r} in data row {row + 1}; "
            "encode text as numbers or name another column"
        )
    return values


def _all_spelt(texts: Sequence[str | None]) -> list[float]:
    """The numbers that different texts spell: 1 and 0 where all of them say yes or no, NaN where one spells none."""
    said = [None if text is None else YES_OR_NO.get(text.strip().lower()) for text in texts]
    if all(number is not None for number, text in zip(said, texts, strict=True) if text is not None):
        return [np.nan if number is None else number for number in said]
    return [np.nan if text is None else _spelt(text) for text in texts]


def _spelt(text: str) -> float:
    """The number that a text spells, NaN where it spells none."""
    try:
        return np.nan if "_" in text else float(text)  # float() takes 1_000 for a number, which is rather a name
    except ValueError:
        return np.nan


def _check_finite(values: np.ndarray, name: str, option: str) -> None:
    """Raise where numbers are missing or infinite."""
    missing = np.isnan(values)
    if missing.any():
        raise InputError(
            f"{option} needs a number in every row, but the column {name!r} has none in {missing.sum()} of "
            f"{len(values)} rows, the first in data row {np.argmax(missing) + 1}; {WAY_OUT}"
        )
    infinite = np.isinf(values)
    if infinite.any():
        raise InputError(
            f"{option} needs finite numbers, but the column {name!r} is infinite in {infinite.sum()} of "
            f"{len(values)} rows, the first in data row {np.argmax(infinite) + 1}; remove these rows"
        )


def _well_known(role: Role, words: Sequence[str], columns: Columns, names: Sequence[str]) -> tuple[list[str], str]:
    """(columns that have the names expected for this meaning, none where there are none; the word they were found by).

    Its own word comes first, then the argument's name and those that other libraries have for it.
    """
    if role.explicit:
        return [], role.word
    before = [] if role.follows is None else columns.get(ROLES[role.follows].word, [])
    if before and all(f"next_{name}" in names for name in before):
        return _next_names(role, columns), role.word
    others = () if role.within is not None and ROLES[role.within].word not in columns else role.aliases
    meant = {name for each in ROLES.values() if each is not role for name in (*each.aliases, *each.logarithms)}
    unmeant = [name for name in names if name not in meant]  # action_prob is no part of an action
    for word in dict.fromkeys([*words, role.name, *others, *role.logarithms]):
        found = [word] if word in names else []
        spread = role.several and role.kind is not Kind.LABELS  # which name one column each
        if not found and spread and any(name.startswith(f"{word}_") for name in unmeant):
            found = select_columns(unmeant, f"{word}_*", role.option)
        if found and (not before or len(found) == len(before)):
            return found, word if word in words else role.word
    return [], role.word


def _next_names(role: Role, columns: Columns) -> list[str]:
    """The names that columns have which follow others."""
    return [f"next_{name}" for name in columns[ROLES[role.follows or ""].word]]


def _refuse_missing(role: Role, columns: Columns, names: Sequence[str], way_out: str = "") -> NoReturn:
    absent = role.word
    if role.follows is not None:
        absent = next((name for name in _next_names(role, columns) if name not in names), absent)
    others = f" (nor any {role.word}_...)" if role.several and role.follows is None else ""
    taken = {name for own in columns.values() for name in own}
    advice = way_out or _separated(names) or nearest(absent, [name for name in names if name not in taken])
    if not advice and role.name == "next_states":
        advice = "; or --episode or --time says which row follows which"
    raise InputError(
        f"the table has no column {absent!r}{others}, so {role.option} must name what it has instead (there are "
        f"{some(names)}){advice}"
    )


def _paired(before: list[str], following: list[str], first: Role, second: Role) -> list[str]:
    """The columns that follow, each in the place of the one that it follows; by name, where the names tell."""
    if len(before) != len(following):
        raise InputError(
            f"{second.option} must have a column for each of {first.option}, but there are {len(following)} "
            f"({some(following)}) for {len(before)} ({some(before)})"
        )
    both = [name for name in following if name in before]
    if both:
        raise InputError(f"the column {both[0]!r} is named by {first.option} and by {second.option}; name others")
    named = [f"next_{name}" for name in before]
    return named if set(named) == set(following) else following
