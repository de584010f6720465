"""Mutants of a module: its source with one small defect in one place.

mutmut leaves code outside of functions alone, and cosmic-ray deletes no statement and changes no text; a serialiser is
made of such code. These operators delete statements and struct fields, negate conditions, swap operators, change
numbers and texts, and let handled exceptions through. Words for people (docstrings, the texts of errors) and
annotations of functions stay as they are.
"""

import ast
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

_COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip
_BINARY: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.FloorDiv, ast.FloorDiv: ast.Mult, ast.Mod: ast.Add,
    ast.Pow: ast.Mult, ast.BitOr: ast.BitAnd, ast.BitAnd: ast.BitOr, ast.LShift: ast.RShift, ast.RShift: ast.LShift,
}  # fmt: skip
_WITHOUT_MUTANTS = (ast.Import, ast.ImportFrom, ast.Pass, ast.Global, ast.Nonlocal)
_Functions = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, slots=True)
class Mutant:
    """One defect."""

    line: int
    where: str
    """The function or class, or the empty text."""
    before: str
    after: str
    code: str
    """The source of the whole module with it."""

    @property
    def name(self) -> str:
        """The defect without its line, which moves: ``encode: len(line) > MOST -> len(line) >= MOST``."""
        return f"{self.where or 'module'}: {self.before} -> {self.after}"


@dataclass(frozen=True, slots=True)
class _Site:
    """A place in the tree, and one replacement of the node there."""

    parent: ast.AST
    field: str
    index: int | None
    where: str
    node: ast.AST
    replacement: ast.AST

    @contextmanager
    def replaced(self) -> Iterator[None]:
        """The tree with the replacement in place of the node."""
        self._put(self.replacement)
        yield
        self._put(self.node)

    def _put(self, node: ast.AST) -> None:
        if self.index is None:
            setattr(self.parent, self.field, node)
        else:
            getattr(self.parent, self.field)[self.index] = node


def mutants_of(source: str) -> list[Mutant]:
    """All mutants of a module, in the order of its lines, none twice, each with a name of its own."""
    tree = ast.parse(source)
    texts, places = [ast.unparse(statement) for statement in tree.body], _statement_numbers(tree)
    found: dict[str, Mutant] = {}
    for site in _sites(tree):
        before, after = (" ".join(ast.unparse(node).split()) for node in (site.node, site.replacement))
        at = places[id(site.node)]
        with site.replaced():
            code = "\n".join([*texts[:at], ast.unparse(tree.body[at]), *texts[at + 1 :]])
        line = getattr(site.node, "lineno", 0) or getattr(site.parent, "lineno", 0)
        found.setdefault(code, Mutant(line=line, where=site.where, before=before, after=after, code=code))
    found.pop("\n".join(texts), None)
    return list(_numbered(sorted(found.values(), key=lambda mutant: mutant.line)))


def _statement_numbers(tree: ast.Module) -> dict[int, int]:
    """Which statement of the module a node is in, by its id: only that one has to be written anew for a mutant."""
    return {id(node): number for number, statement in enumerate(tree.body) for node in ast.walk(statement)}


def _numbered(mutants: Iterable[Mutant]) -> Iterator[Mutant]:
    """Mutants that do the same at several places of a function are told apart by their order."""
    seen: Counter[str] = Counter()
    for each in mutants:
        seen[each.name] += 1
        yield each if seen[each.name] == 1 else replace(each, where=f"{each.where or 'module'} ({seen[each.name]})")


def code_lines(source: str) -> set[int]:
    """The lines on which a statement begins that does something: imports and docstrings are none."""
    nodes = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.stmt)]
    return {node.lineno for node in nodes if not isinstance(node, _WITHOUT_MUTANTS) and not _is_text(node)}


def _sites(tree: ast.Module) -> Iterator[_Site]:
    silent, places = _words_for_people(tree), _places(tree)
    for parent, field, index, node in list(_children(tree)):
        if id(node) not in silent:
            where = places[id(node)]
            yield from (_Site(parent, field, index, where, node, each) for each in _replacements(node))


def _children(tree: ast.Module) -> Iterator[tuple[ast.AST, str, int | None, ast.AST]]:
    """Every node with its parent, and its place there."""
    for parent in ast.walk(tree):
        for field, value in ast.iter_fields(parent):
            if isinstance(value, ast.AST):
                yield parent, field, None, value
            elif isinstance(value, list):
                yield from ((parent, field, at, each) for at, each in enumerate(value) if isinstance(each, ast.AST))


def _replacements(node: ast.AST) -> Iterator[ast.AST]:
    match node:
        case ast.Return(value=value) if value is not None and not _is_none(value):
            yield ast.Return(ast.Constant(None))
        case ast.Continue():
            yield ast.Break()
        case ast.Break():
            yield ast.Continue()
        case ast.Expr() | ast.Assign() | ast.AugAssign() | ast.AnnAssign() | ast.Raise() | ast.Delete() | ast.Assert():
            yield ast.Pass()
        case ast.FunctionDef() | ast.ClassDef() | ast.For() | ast.With() | ast.Try() | ast.Match():
            yield ast.Pass()
        case ast.If(test=test, body=body, orelse=orelse):
            yield ast.If(_negated(test), body, orelse)
            yield ast.Pass()
        case ast.While(test=test, body=body, orelse=orelse):
            yield ast.While(_negated(test), body, orelse)
        case ast.IfExp(test=test, body=chosen, orelse=other):
            yield ast.IfExp(_negated(test), chosen, other)
        case ast.comprehension(target=target, iter=items, ifs=ifs, is_async=is_async) if ifs:
            yield ast.comprehension(target, items, [_negated(each) for each in ifs], is_async)
        case ast.ExceptHandler(type=kind, name=name):
            yield ast.ExceptHandler(kind, name, [ast.Raise()])
        case _:
            yield from _changed_expressions(node)


def _changed_expressions(node: ast.AST) -> Iterator[ast.AST]:
    match node:
        case ast.Compare(left=left, ops=[operator], comparators=comparators):
            yield ast.Compare(left, [_COMPARISONS[type(operator)]()], comparators)
        case ast.Compare(left=left, ops=operators, comparators=comparators):
            for at, operator in enumerate(operators):
                changed = [*operators[:at], _COMPARISONS[type(operator)](), *operators[at + 1 :]]
                yield ast.Compare(left, changed, comparators)
        case ast.BoolOp(op=operator, values=values):
            yield ast.BoolOp(ast.Or() if isinstance(operator, ast.And) else ast.And(), values)
        case ast.BinOp(left=left, op=operator, right=right) if type(operator) in _BINARY:
            yield ast.BinOp(left, _BINARY[type(operator)](), right)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield operand
        case ast.Call(func=func, args=args, keywords=keywords) if keywords:
            for at, each in enumerate(keywords):
                if each.arg != "slots":
                    yield ast.Call(func, args, [*keywords[:at], *keywords[at + 1 :]])
        case ast.Constant(value=value):
            yield from _changed_constants(value)


def _changed_constants(value: object) -> Iterator[ast.Constant]:
    match value:
        case bool():
            yield ast.Constant(not value)
        case int():
            yield ast.Constant(value + 1)
        case str():
            yield ast.Constant(f"{value}X")
            if value:
                yield ast.Constant("")
        case bytes():
            yield ast.Constant(value + b"X")


def _negated(test: ast.expr) -> ast.expr:
    return ast.UnaryOp(ast.Not(), test)


def _words_for_people(tree: ast.Module) -> set[int]:
    """Nodes whose change only people would notice, and annotations of functions, which nothing reads."""
    found: set[int] = set()
    for node in ast.walk(tree):
        found |= {id(each) for part in _silent_parts(node) for each in ast.walk(part)}
    return found


def _silent_parts(node: ast.AST) -> Iterator[ast.AST]:
    match node:
        case ast.Expr() if _is_text(node):
            yield node
        case ast.Raise(exc=ast.Call(args=args, keywords=keywords)):
            yield from (*args, *keywords)
        case ast.Assign(targets=[ast.Name(id="__all__")]):
            yield node
        case ast.FunctionDef(args=arguments, returns=returns):
            every = (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)
            yield from (each.annotation for each in every if each.annotation is not None)
            if returns is not None:
                yield returns
        case ast.Call(func=ast.Name(id="cast"), args=[kind, _]):
            yield kind
        case ast.keyword(arg="slots"):  # memory, and nothing else
            yield node


def _places(tree: ast.Module) -> dict[int, str]:
    """The names of the functions and classes that nodes are in, by the ids of the nodes."""
    found: dict[int, str] = {}

    def visit(node: ast.AST, where: str) -> None:
        found[id(node)] = where
        inner = f"{where}.{node.name}".lstrip(".") if isinstance(node, _Functions | ast.ClassDef) else where
        for child in ast.iter_child_nodes(node):
            visit(child, inner)

    visit(tree, "")
    return found


def _is_text(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None
