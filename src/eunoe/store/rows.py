"""How a state type is written as a row, and read back.

Each field has a column of its name. Times become microseconds since the epoch (UTC), truth values 0 and 1, text and
numbers themselves, and everything else JSON text. SQLite keeps a value of any type in any column, so what is read is
checked: a type or a word that is never written means that the row is damaged.
"""

import types
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from operator import attrgetter
from typing import Any, Final, Generic, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import msgspec

from eunoe.state.errors import InvalidInput, StoreError
from eunoe.store.database import Row

S = TypeVar("S", bound=msgspec.Struct)

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
_DAY: Final = timedelta(days=1)
_FIRST: Final = (datetime.min.replace(tzinfo=UTC) + _DAY - _EPOCH) // _MICROSECOND
_LAST: Final = (datetime.max.replace(tzinfo=UTC) - _DAY - _EPOCH) // _MICROSECOND


def micros(moment: datetime) -> int:
    """Return microseconds since the epoch.

    Raises ``ValueError`` for a time without an offset, and ``InvalidInput`` for one that cannot be told in
    every time zone.
    """
    if moment.tzinfo is None:
        raise ValueError(f"The time {moment.isoformat()} has no offset from UTC, so it names no moment.")
    value = (moment - _EPOCH) // _MICROSECOND
    if not _FIRST <= value <= _LAST:
        raise InvalidInput(f"The time {moment.isoformat()} is not within the years 1 to 9999 in every zone.")
    return value


def moment(value: int) -> datetime:
    """Return the time (UTC) of this many microseconds since the epoch."""
    return _EPOCH + timedelta(microseconds=value)


def to_json(value: Any) -> str:
    """Return the JSON text of a value that msgspec can encode."""
    return msgspec.json.encode(value).decode()


def marks(values: Collection[Any]) -> str:
    """Return the placeholders of an SQL list, one for each value."""
    return ", ".join("?" * len(values))


class Shape(Generic[S]):
    """The mapping between a state type and its table.

    ``renamed`` gives the column of a field whose name SQL reserves. Fields named in ``apart`` have no column here: who
    reads gives them to ``read``. Fields named in ``fixed`` never change once they are stored, as the id does not:
    ``update`` leaves them alone, since SQLite writes each index of a column that is set, and looks at every row that
    refers to it, whether or not the value differs.
    """

    def __init__(
        self,
        kind: type[S],
        table: str,
        *,
        renamed: Mapping[str, str] | None = None,
        apart: Collection[str] = (),
        fixed: Collection[str] = (),
    ) -> None:
        hints = get_type_hints(kind)
        fields = [name for name in kind.__struct_fields__ if name not in apart]
        codecs = [_codec(hints[name]) for name in fields]
        self._kind = kind
        self._fields = fields
        self._get = attrgetter(*fields)
        self._written = [(index, write) for index, (write, _) in enumerate(codecs) if write is not None]
        self._readers = [(index, read) for index, (_, read) in enumerate(codecs) if read is not None]
        self._stored_as = [_stored_as(hints[name]) for name in fields]
        self._sound: set[tuple[type, ...]] = set()
        self._words = [(index, words) for index, name in enumerate(fields) if (words := _words(hints[name]))]
        self.table: Final = table
        self.names: Final = tuple((renamed or {}).get(name, name) for name in fields)
        self.width: Final = len(fields)
        self.columns: Final = ", ".join(f"{table}.{name}" for name in self.names)
        self.select: Final = f"SELECT {self.columns} FROM {table}"
        self.insert: Final = f"INSERT INTO {table} ({', '.join(self.names)}) VALUES ({marks(fields)})"
        changing = [index for index, name in enumerate(fields) if name != "id" and name not in fixed]
        self._updated = [*changing, *(index for index, name in enumerate(fields) if name == "id")]
        assignments = ", ".join(f"{self.names[index]} = ?" for index in changing)
        self.update: Final = f"UPDATE {table} SET {assignments} WHERE id = ?"

    def values(self, thing: S) -> list[Any]:
        """Return the parameters for ``insert``."""
        values = list(self._get(thing))
        for index, write in self._written:
            values[index] = write(values[index])
        return values

    def new_values(self, thing: S) -> list[Any]:
        """Return the parameters for ``update``; its condition is about the id."""
        values = self.values(thing)
        return [values[index] for index in self._updated]

    def read(self, row: Row, **apart: Any) -> S:
        """Return the object of a row that begins with ``columns``. Raises ``StoreError`` for a garbled one."""
        self._check(row)
        values = list(row)
        try:
            for index, read in self._readers:
                value = values[index]
                if value is not None:
                    values[index] = read(value)
            return self._kind(**dict(zip(self._fields, values, strict=False)), **apart)
        except (msgspec.DecodeError, TypeError, OverflowError) as error:
            raise self._damaged(row, str(error)) from error

    def _check(self, row: Row) -> None:
        kinds = tuple(map(type, row))
        if kinds not in self._sound:  # few combinations occur, and each is looked at once
            for name, kind, allowed in zip(self.names, kinds[: self.width], self._stored_as, strict=True):
                if kind not in allowed:
                    raise self._damaged(row, f"{name} holds a value of type {kind.__name__}")
            self._sound.add(kinds)
        for index, words in self._words:
            if row[index] not in words:
                raise self._damaged(row, f"{self.names[index]} is {row[index]!r}")

    def _damaged(self, row: Row, detail: str) -> StoreError:
        return StoreError(
            f"A row of the table {self.table} is damaged and cannot be read (it begins with {row[0]!r}; {detail}). "
            f"Nothing was changed. Restore the store from a backup."
        )

    def all(self, rows: Sequence[Row]) -> list[S]:
        """Return the objects of such rows."""
        return [self.read(row) for row in rows]


_Convert = Callable[[Any], Any] | None


def _stored_as(hint: Any) -> frozenset[type]:
    """Return the types that the column of a field of this type has values of."""
    present = _present(hint)
    nothing = {type(None)} if present != _members(hint) else set[type]()
    if present in ([datetime], [bool], [int]):
        return frozenset({int, *nothing})
    if present == [float]:
        return frozenset({float, int, *nothing})
    return frozenset({*map(type, _words(hint) or ("",)), *nothing})


def _words(hint: Any) -> frozenset[Any]:
    """Return the values that a field of a ``Literal`` type can have; of any other type, none."""
    present = _present(hint)
    if len(present) != 1 or get_origin(present[0]) is not Literal:
        return frozenset()
    nothing = [None] if present != _members(hint) else []
    return frozenset([*get_args(present[0]), *nothing])


def _members(hint: Any) -> list[Any]:
    return list(get_args(hint)) if get_origin(hint) in (Union, types.UnionType) else [hint]


def _present(hint: Any) -> list[Any]:
    return [member for member in _members(hint) if member is not type(None)]


def _codec(hint: Any) -> tuple[_Convert, _Convert]:
    """Return what writes and what reads values of this type; ``None`` where they stay as they are."""
    present = _present(hint)
    if present == [datetime]:
        return _unless_none(micros), moment
    if present == [bool]:
        return _unless_none(int), bool
    if len(present) == 1 and (present[0] in (str, int, float) or get_origin(present[0]) is Literal):
        return None, None
    return _unless_none(to_json), msgspec.json.Decoder(hint).decode


def _unless_none(write: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda value: None if value is None else write(value)
