"""Fails for code in src/ that only looks like code: words of unfinished work, and public functions without a body.

Usage: check_stubs.py [FOLDER]
"""

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
WORDS = re.compile(r"\b(placeholders?|for now|simulate[sd]?|TODO|FIXME|in a real implementation)\b", re.IGNORECASE)
# A click group is its docstring and its subcommands.
DECLARATIONS = {"abstractmethod", "group", "overload"}


def unfinished_words(text: str) -> Iterator[tuple[int, str]]:
    for number, line in enumerate(text.splitlines(), start=1):
        for match in WORDS.finditer(line):
            yield number, f'"{match.group()}"'


def name_of(expression: ast.expr) -> str:
    """The last name of ``a.b.C``, ``C[T]`` or ``C(…)``."""
    match expression:
        case ast.Attribute(attr=name) | ast.Name(id=name):
            return name
        case ast.Subscript(value=inner) | ast.Call(func=inner):
            return name_of(inner)
        case _:
            return ""


def is_nothing(statement: ast.stmt) -> bool:
    match statement:
        case ast.Pass() | ast.Expr(value=ast.Constant()):
            return True
        case ast.Raise(exc=ast.expr() as raised):
            return name_of(raised) == "NotImplementedError"
        case _:
            return False


def empty_functions(body: list[ast.stmt]) -> Iterator[tuple[int, str]]:
    """Public functions that do nothing; declarations (protocols, overloads, abstract methods) are none."""
    for node in body:
        if isinstance(node, ast.ClassDef) and "Protocol" not in map(name_of, node.bases):
            yield from empty_functions(node.body)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not node.name.startswith("_"):
            declared = DECLARATIONS & set(map(name_of, node.decorator_list))
            if not declared and all(map(is_nothing, node.body)):
                yield node.lineno, f"{node.name}() has no body"


def problems(folder: Path) -> Iterator[str]:
    for path in sorted(folder.rglob("*.py")):
        text = path.read_text()
        for line, problem in (*unfinished_words(text), *empty_functions(ast.parse(text).body)):
            yield f"{path}:{line}: {problem}"


def main(arguments: list[str]) -> int:
    found = list(problems(Path(arguments[0]) if arguments else ROOT / "src"))
    for problem in found:
        print(problem, file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
