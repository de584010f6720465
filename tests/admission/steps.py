"""Steps with files: appends, removes, deletion vectors, in usual and unusual words."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from dataclasses import replace as changed
from random import Random
from typing import Any, Final
from urllib.parse import quote

from msgspec.structs import replace

from deltamirror import Add, DeletionVector, Remove
from tests.admission.life import Life, Written
from tests.admission.odd_words import ABSOLUTE, NUMBERS, PATHS, REMOVES, STATS, TAGS, VECTORS, WRONG_PATHS
from tests.admission.spelling import ODD
from tests.admission.vectors import inline_vector, written_vector


@dataclass(frozen=True, slots=True)
class Step:
    """What a step does, and how often it is drawn. A ``valid`` kind has to be admitted now and then."""

    act: Callable[[Life, Random], None]
    weight: int = 2
    valid: bool = False


def remove_of(add: Add, **fields: Any) -> Remove:
    """The remove of a file."""
    known = {name: getattr(add, name) for name in ("path", "partition_values", "size", "deletion_vector")}
    defaults = {"deletion_timestamp": add.modification_time, "data_change": True, "extended_file_metadata": True}
    return Remove(**{**defaults, **known, **fields})


def add_at(life: Life, random: Random, spelling: str, path: str, *, wrong: bool = False, kind: str = "path") -> None:
    """Add a file whose path is spelled in some way."""
    written = life.write(random, spelling=spelling, path=path, rows=2)
    life.attempt(kind, repr(spelling), lambda: life.append([written.add]), lambda: life.live(written), wrong=wrong)


def _append(life: Life, random: Random) -> None:
    files = [life.write(random) for _ in range(random.randint(1, 2))]
    _appended(life, "append", f"{len(files)} files", files)


def _appended(life: Life, kind: str, what: str, files: list[Written], *, wrong: bool = False) -> bool:
    def effect() -> None:
        for each in files:
            life.live(each)

    return life.attempt(kind, what, lambda: life.append([each.add for each in files]), effect, wrong=wrong)


def _append_directories(life: Life, random: Random) -> None:
    directory = random.choice(["day=2024-01-01", "a b", "ü=é", "x%3D1"])
    path = f"{directory}/part-{random.getrandbits(32)}.parquet"
    _appended(life, "directories", path, [life.write(random, path=path)])


def _odd_path(life: Life, random: Random) -> None:
    add_at(life, random, *random.choice(PATHS))


def _wrong_path(life: Life, random: Random) -> None:
    add_at(life, random, *random.choice(WRONG_PATHS), wrong=True, kind="wrong path")


def add_absolute(life: Life, random: Random, form: str) -> None:
    """Add a file outside of the table's folder."""
    outside = life.root / "elsewhere" / f"{random.getrandbits(32)} ä.parquet"
    add_at(life, random, form.format(quote(str(outside))), str(outside), kind="absolute path")


def _absolute_path(life: Life, random: Random) -> None:
    add_absolute(life, random, random.choice(ABSOLUTE))


def add_spelled(
    life: Life, random: Random, texts: Mapping[int, tuple[str | None, Any]], *, wrong: bool = False
) -> None:
    """Add a file whose partition values are spelled in some way."""
    what = repr([text for text, _ in texts.values()])
    _appended(life, "partition spelling", what, [life.write(random, texts=texts, rows=1)], wrong=wrong)


def _odd_partition(life: Life, random: Random) -> None:
    texts: dict[int, tuple[str | None, Any]] = {}
    for uid in life.model.partitioning:
        column = life.column(uid)
        if column is not None and isinstance(column.kind, str) and column.kind in ODD:
            texts[uid] = random.choice(ODD[column.kind])
    if texts:
        add_spelled(life, random, texts)


def _null_partition(life: Life, random: Random) -> None:
    if life.model.partitioning:
        text = random.choice([None, ""])
        texts = dict.fromkeys(life.model.partitioning, (text, None))
        columns = [life.column(uid) for uid in life.model.partitioning]
        wrong = any(column is not None and not column.nullable for column in columns)
        _appended(life, "null partition", repr(text), [life.write(random, texts=texts, rows=1)], wrong=wrong)


def _partition_keys(life: Life, random: Random) -> None:
    written = life.write(random, rows=1)
    values = written.add.partition_values
    key = random.choice([*values, "nothing"])
    odd = random.choice([{**values, "nothing": "1"}, {k: v for k, v in values.items() if k != key}])
    upper = {name.upper(): value for name, value in values.items()}
    add = replace(written.add, partition_values=random.choice([odd, upper]))
    what = repr(add.partition_values)
    life.attempt("partition keys", what, lambda: life.append([add]), lambda: life.live(written))


def add_with(life: Life, random: Random, *, kind: str, **fields: Any) -> None:
    """Add a file of two rows, some fields of whose add are given."""
    written = life.write(random, rows=2)
    if isinstance(fields.get("stats"), str):
        name = next(iter(json.loads(written.add.stats or "{}")["nullCount"]), "x")
        fields["stats"] = fields["stats"].replace("COLUMN", name)
    add = replace(written.add, **fields)
    life.attempt(kind, repr(fields)[:120], lambda: life.append([add]), lambda: life.live(written))


def _stats(life: Life, random: Random) -> None:
    add_with(life, random, kind="stats", stats=random.choice(STATS))


def _numbers(life: Life, random: Random) -> None:
    add_with(life, random, kind="numbers", **random.choice(NUMBERS))


def _tags(life: Life, random: Random) -> None:
    add_with(life, random, kind="tags", tags=random.choice(TAGS))


def _append_mapping(life: Life, random: Random) -> None:
    """By the names of the wire, with fields that no add has."""
    written = life.write(random)
    add = written.add
    fields: dict[str, Any] = {
        "path": add.path,
        "partitionValues": add.partition_values,
        "size": add.size,
        "modificationTime": add.modification_time,
        "stats": add.stats,
        **random.choice([{}, {"dataChange": True}, {"unknown": 1}, {"tags": None}]),
    }
    life.attempt("mapping", repr(sorted(fields)), lambda: life.append([fields]), lambda: life.live(written))


def _twice(life: Life, random: Random) -> None:
    """The same file twice in one commit, perhaps in another spelling."""
    written = life.write(random, rows=1)
    other = replace(written.add, path=random.choice([written.add.path, respelled(written.add.path)]))
    what = f"{written.add.path} {other.path}"
    life.attempt("twice", what, lambda: life.append([written.add, other]), lambda: life.live(written))


def respelled(path: str) -> str:
    """Another URI of the same file."""
    return f"{path[:-1]}%{ord(path[-1]):02X}"


def add_again(life: Life, written: Written, path: str) -> None:
    """Add a file that was added before, live or removed since, with all its rows."""
    add = replace(written.add, path=path, deletion_vector=None)
    what = f"{path} {'live' if written.path in life.model.files else 'gone'}"
    life.attempt("again", what, lambda: life.append([add]), lambda: life.live(written))


def _again(life: Life, random: Random) -> None:
    if life.written:
        written = random.choice(life.written)
        if written.file.columns == life.model.columns:
            add_again(life, written, random.choice([written.add.path, written.add.path, respelled(written.add.path)]))


def _live(life: Life, random: Random) -> Written | None:
    found = [each for each in life.written if each.path in life.model.files]
    return random.choice(found) if found else None


def _remove(life: Life, random: Random) -> None:
    if written := _live(life, random):

        def act() -> None:
            with life.catalog.transaction() as tx:
                tx.remove(life.name, [written.add.path])

        life.attempt("remove", written.add.path, act, lambda: life.gone(written.path))


def remove_with(life: Life, written: Written, odd: Mapping[str, Any]) -> None:
    """Remove a live file by a complete action."""
    fields = {**odd, "path": respelled(written.add.path)} if odd.get("path") == "RESPELLED" else odd
    action = remove_of(written.add, **fields)

    def effect() -> None:
        if "never-there" not in action.path:
            life.gone(written.path)

    what = f"{odd!r:.60} {'with vector' if life.model.files[written.path].deleted else ''}"
    life.attempt("remove action", what, lambda: life.commit([action], read=True), effect)


def _remove_action(life: Life, random: Random) -> None:
    if written := _live(life, random):
        remove_with(life, written, random.choice(REMOVES))


def delete_rows(
    life: Life, random: Random, written: Written, *, inline: bool, odd: Mapping[str, Any], kind: str
) -> None:
    """Delete rows of a live file by a vector, which may be described in some odd way."""
    rows = len(written.file.rows)
    positions = frozenset(random.sample(range(rows), random.randint(1, rows)))
    fields = (
        inline_vector(positions)
        if inline
        else written_vector(life.folder, positions, seed=random.getrandbits(128), prefix=random.choice(["", "ab"]))
    )
    current = life.catalog.table(life.name).snapshot().files().to_pylist()
    mine = [row for row in current if row["path"] == written.add.path]
    known = json.loads(mine[0]["deletion_vector"]) if mine and mine[0]["deletion_vector"] else None
    before = None if known is None else DeletionVector(**{_snake(name): value for name, value in known.items()})
    add = replace(written.add, deletion_vector=DeletionVector(**{**fields, **odd}))
    remove = remove_of(replace(written.add, deletion_vector=before))

    def act() -> None:
        life.commit([remove, add], read=True)

    life.attempt(kind, f"{odd!r} inline={inline}", act, lambda: life.deleted(written, positions))


def _snake(name: str) -> str:
    return "".join(f"_{c.lower()}" if c.isupper() else c for c in name)


def _delete(life: Life, random: Random) -> None:
    written = _live(life, random)
    if written and written.file.rows:
        delete_rows(life, random, written, inline=random.random() < 0.5, odd={}, kind="delete")


def _delete_oddly(life: Life, random: Random) -> None:
    written = _live(life, random)
    if written and written.file.rows:
        inline = random.random() < 0.3
        delete_rows(life, random, written, inline=inline, odd=random.choice(VECTORS), kind="odd vector")


def add_vector(life: Life, written: Written) -> None:
    """An add with a vector for a file that is live, without the remove: it is live twice, unless refused."""
    positions = frozenset([0])
    add = replace(written.add, deletion_vector=DeletionVector(**inline_vector(positions)))
    effect = lambda: life.deleted(written, positions)  # noqa: E731
    life.attempt("vector without remove", written.add.path, lambda: life.commit([add]), effect)


def _vector_without_remove(life: Life, random: Random) -> None:
    written = _live(life, random)
    if written and written.file.rows:
        add_vector(life, written)


def _new_with_vector(life: Life, random: Random) -> None:
    """A new file that has a vector from the start."""
    written = life.write(random, rows=3)
    add = replace(written.add, deletion_vector=DeletionVector(**inline_vector([1])))
    known = changed(written, add=add)
    life.written[-1] = known
    life.attempt("new with vector", "", lambda: life.append([add]), lambda: life.deleted(known, frozenset([1])))


FILE_STEPS: Final[Mapping[str, Step]] = {
    "append": Step(_append, 14, valid=True),
    "directories": Step(_append_directories, 2, valid=True),
    "path": Step(_odd_path, 6, valid=True),
    "wrong path": Step(_wrong_path, 2),
    "absolute path": Step(_absolute_path, 1),
    "partition spelling": Step(_odd_partition, 6, valid=True),
    "null partition": Step(_null_partition, 3, valid=True),
    "partition keys": Step(_partition_keys, 1),
    "stats": Step(_stats, 4, valid=True),
    "numbers": Step(_numbers, 3, valid=True),
    "tags": Step(_tags, 1, valid=True),
    "mapping": Step(_append_mapping, 1, valid=True),
    "twice": Step(_twice, 2),
    "again": Step(_again, 3, valid=True),
    "remove": Step(_remove, 4, valid=True),
    "remove action": Step(_remove_action, 3, valid=True),
    "delete": Step(_delete, 6, valid=True),
    "odd vector": Step(_delete_oddly, 2),
    "vector without remove": Step(_vector_without_remove, 2),
    "new with vector": Step(_new_with_vector, 1, valid=True),
}
