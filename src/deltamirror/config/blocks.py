"""Settings that are lists of blocks, such as ``[[alerts.rules]]``: each block is checked key by key."""

from collections.abc import Callable, Iterator, Mapping
from difflib import get_close_matches
from typing import Any, TypeAlias

import msgspec

from deltamirror.config.keys import block_type, expected, is_secret
from deltamirror.config.secrets import MASK, Secret, redact_text

Path: TypeAlias = tuple[str | int, ...]
Hook: TypeAlias = Callable[[type, object], object]


class BlockProblem(Exception):
    """What is wrong with a block, and where it stands below its setting."""

    def __init__(self, path: Path, reason: str, hint: str = "") -> None:
        super().__init__(reason)
        self.path, self.reason, self.hint = path, reason, hint

    def where(self, blocks: object) -> str:
        """The block by its name, or by its number where it has none, and the key below it."""
        if not self.path:
            return ""
        first, *below = self.path
        block = blocks[first] if isinstance(blocks, list) and isinstance(first, int) else {}
        name = block.get("name") if isinstance(block, dict) else None
        named = repr(name) if isinstance(name, str) and name else f"number {int(first) + 1}"
        keys = "".join(f"[{each}]" if isinstance(each, int) else f".{each}" for each in below).removeprefix(".")
        return f" {named}" + (f": `{keys}`" if keys else "")


def read_blocks(kind: type[msgspec.Struct], value: object, hook: Hook) -> tuple[msgspec.Struct, ...]:
    """The blocks of a list; raises :class:`BlockProblem` for the first that is wrong."""
    if not isinstance(value, list):
        raise BlockProblem((), "expected a list of blocks")
    return tuple(_block(kind, each, (index,), hook) for index, each in enumerate(value))


def shown_blocks(blocks: tuple[msgspec.Struct, ...]) -> list[dict[str, object]]:
    """Blocks as they are shown: the keys that were given, without secrets."""
    return [dict(_shown_fields(block)) for block in blocks]


def _shown_fields(block: msgspec.Struct) -> Iterator[tuple[str, object]]:
    for field in msgspec.structs.fields(block):
        value = getattr(block, field.name)
        if value is None or value == field.default:
            continue
        if isinstance(value, tuple) and value and isinstance(value[0], msgspec.Struct):
            yield field.encode_name, shown_blocks(value)
        else:
            yield field.encode_name, str(value) if isinstance(value, Secret) else value


def _block(kind: type[msgspec.Struct], value: object, path: Path, hook: Hook) -> msgspec.Struct:
    if not isinstance(value, dict):
        raise BlockProblem(path, "expected a block of keys and values")
    fields = {field.encode_name: field for field in msgspec.structs.fields(kind)}
    for name in value:
        if name not in fields:
            near = get_close_matches(str(name), list(fields), n=1, cutoff=0.6)
            hint = f"did you mean `{near[0]}`?" if near else f"its keys are {', '.join(f'`{each}`' for each in fields)}"
            raise BlockProblem((*path, str(name)), "unknown key", hint)
    _require(fields, value, path)
    read = {fields[name].name: _field(fields[name], each, (*path, name), hook) for name, each in value.items()}
    return kind(**read)


def _require(fields: Mapping[str, msgspec.structs.FieldInfo], value: Mapping[str, object], path: Path) -> None:
    missing = [name for name, field in fields.items() if field.required and name not in value]
    if missing:
        raise BlockProblem(path, f"`{missing[0]}` is missing")


def _field(field: msgspec.structs.FieldInfo, value: object, path: Path, hook: Hook) -> Any:
    if (below := block_type(field.type)) is not None:
        if not isinstance(value, list):
            raise BlockProblem(path, "expected a list of blocks")
        return tuple(_block(below, each, (*path, index), hook) for index, each in enumerate(value))
    try:
        return msgspec.convert(value, field.type, dec_hook=hook)
    except msgspec.ValidationError as error:
        found = MASK if is_secret(field.type) else redact_text(repr(value))
        raise BlockProblem(path, f"{expected(field.type, error)}, found {found}") from error
