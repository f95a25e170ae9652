"""Digests of an aggregate's code. They are equal on every machine, and for a folder and an archive of the same code."""

import ast
import hashlib
import importlib.util
import sys
from collections.abc import Collection, Iterable, Iterator


def code_digest(module: str) -> str:
    """Return 16 hex digits that change with the code of the module and of modules that it imports from its package.

    Comments, docstrings and layout do not count. Empty without source, such as code typed into a prompt.
    """
    trees: dict[str, ast.Module] = {}
    pending = [module]
    while pending:
        name = pending.pop()
        if name in trees or (source := _source(name)) is None:
            continue
        trees[name] = ast.parse(source)
        pending.extend(_package_imports(trees[name], name))
    if module not in trees:
        return ""
    package = module.rpartition(".")[0]  # the name of the package does not count either
    text = "\0".join(
        f"{name.removeprefix(package)}\0{ast.unparse(_without_docstrings(trees[name]))}"
        for name in sorted(trees)
    )
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def reachable_code_digest(module: str, names: Iterable[str], messages: Collection[str] = ()) -> str:
    """Return 16 hex digits that change with the given functions and classes of a module, and the code that they use.

    The digest covers all top-level statements that these functions and classes reach by name, and the modules of the
    package that these statements import. It omits the fields of the classes in `messages`, because `cqrs check`
    compares the fields. If a name is not found, the result is the `code_digest` of the module.
    """
    source = _source(module)
    tree = ast.parse(source or "")
    statements = {name: node for node in tree.body for name in _defined_names(node)}
    pending, reached = list(names), dict[str, ast.stmt]()
    if not all(name in statements for name in pending):
        return code_digest(module)
    while pending:
        name = pending.pop()
        if name not in reached and name in statements:
            reached[name] = _without_fields(statements[name]) if name in messages else statements[name]
            pending.extend(node.id for node in ast.walk(reached[name]) if isinstance(node, ast.Name))
    reached_module = ast.Module(list(reached.values()), [])
    imported = sorted(code_digest(sibling) for sibling in set(_package_imports(reached_module, module)))
    texts = sorted(ast.unparse(_without_docstrings(ast.Module([node], []))) for node in reached.values())
    return hashlib.sha256("\0".join([*texts, *imported]).encode()).hexdigest()[:16]


def _without_fields(node: ast.stmt) -> ast.stmt:
    if isinstance(node, ast.ClassDef):
        node.body = [part for part in node.body if not isinstance(part, ast.AnnAssign)] or [ast.Pass()]
    return node


def _defined_names(node: ast.stmt) -> list[str]:
    """Return the names that a top-level statement of a module defines."""
    match node:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            return [name]
        case ast.Import(names=names) | ast.ImportFrom(names=names):
            return [(alias.asname or alias.name).partition(".")[0] for alias in names]
        case _:
            stored_names = (
                name_node
                for name_node in ast.walk(node)
                if isinstance(name_node, ast.Name) and isinstance(name_node.ctx, ast.Store)
            )
            return [name.id for name in stored_names]


def _source(name: str) -> str | None:
    """Return the source of an imported module; None if it has none."""
    spec = getattr(sys.modules.get(name), "__spec__", None)
    get_source = getattr(getattr(spec, "loader", None), "get_source", None)
    try:
        source = get_source(name) if get_source else None
    except (ImportError, OSError):
        return None
    return source if isinstance(source, str) else None


def _package_imports(tree: ast.Module, module: str) -> Iterator[str]:
    """Yield the loaded modules of the same package that `tree`, code of `module`, imports."""
    package = module.rpartition(".")[0]
    if not package:
        return
    for node in ast.walk(tree):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            imported_module = importlib.util.resolve_name("." * node.level + (node.module or ""), package)
            names = [imported_module, *(f"{imported_module}.{alias.name}" for alias in node.names)]
        yield from (name for name in names if name.startswith(f"{package}.") and name in sys.modules)


def _without_docstrings(tree: ast.Module) -> ast.Module:
    for node in ast.walk(tree):
        if (
            isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef))
            and ast.get_docstring(node, clean=False) is not None
        ):
            node.body = node.body[1:] or [ast.Pass()]
    return tree
