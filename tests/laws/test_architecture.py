"""The code's order: imports point down and never in circles, every module says what it is, and none is a drawer."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src" / "dualembed"
FILES = sorted(SOURCE.rglob("*.py"))

# From the top down. A module imports from rows below its own; a new module must be given its row here.
ROWS = [
    {"__main__"},
    {"cli"},
    {"experiments"},
    {"saving", "examples", "comparison"},
    {"estimators", "baselines", "control"},
    {"report"},
    {"plot"},
    {"answers"},
    {"selection"},
    {"embeddings"},
    {"solvers"},
    {"saddle", "linear"},
    {"problems", "spaces"},
    {"data"},
    {"losses", "links", "kernels", "sources", "samplers", "schedules"},
    {"arrays", "checks", "estimates", "progress", "files", "compilation", "threads", "deprecation", "tuning"},
]
# Rows of small modules that may use each other: a loss names its link, a file's refusal is an InputError.
SOCIABLE = ROWS[-2:]
# Names of the package itself; the public ones are for users, and only these need the version.
OWN_NAMES = {"", "__version__"}
NEED_VERSION = {"cli", "experiments", "saving"}


def part(path: Path) -> str:
    """The module or subpackage of dualembed to which a file belongs; "" for dualembed itself."""
    first = path.relative_to(SOURCE).parts[0]
    return "" if first == "__init__.py" else first.removesuffix(".py")


def row(name: str) -> int:
    """The row of a part, counted from the top."""
    found = [number for number, names in enumerate(ROWS) if name in names]
    assert found, f"{name} has no place in the order of imports; give it one in {Path(__file__).name}"
    return found[0]


def imports(path: Path) -> Iterator[tuple[str, int]]:
    """The parts of dualembed that a file imports, anywhere in it, with line numbers."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            modules = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: imports are written out in full"
            module = node.module or ""
            # `from dualembed import x` names a part, or one of OWN_NAMES.
            whole = module == "dualembed"
            modules = [f"{module}.{alias.name}" for alias in node.names] if whole else [module]
        else:
            continue
        for module in modules:
            package, _, rest = module.partition(".")
            if package == "dualembed":
                yield rest.partition(".")[0], node.lineno


def allowed(importer: str, imported: str) -> bool:
    """Whether the order lets one part import the other."""
    if importer == imported:
        return True
    if imported in OWN_NAMES:
        return importer in NEED_VERSION and imported == "__version__"
    above, below = row(importer), row(imported)
    return above < below or (above == below and ROWS[above] in SOCIABLE)


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_imports_point_down(path: Path) -> None:
    importer = part(path)
    # The package itself stands above all rows: its names lead down to every part.
    for imported, line in imports(path) if importer else ():
        assert allowed(importer, imported), f"{path}:{line}: {imported} is not below {importer}"


def module(path: Path) -> str:
    """The dotted name of a file's module."""
    return ".".join(path.relative_to(SOURCE.parent).with_suffix("").parts).removesuffix(".__init__")


def run_on_import(body: list[ast.stmt]) -> Iterator[ast.Import | ast.ImportFrom]:
    """Imports that run when a module is imported: neither those of functions nor those for the type checker."""
    for node in body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield node
        elif not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            checked = isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING")
            for name in ("orelse",) if checked else ("body", "handlers", "orelse", "finalbody"):
                yield from run_on_import(getattr(node, name, []))


def imported_modules(path: Path, modules: set[str]) -> set[str]:
    """The modules that a file's module needs before it can run; a name that is no module's stands for its package."""
    needed = set()
    for node in run_on_import(ast.parse(path.read_text(encoding="utf-8")).body):
        if isinstance(node, ast.Import):
            needed |= {alias.name for alias in node.names}
        else:
            inner = {f"{node.module}.{alias.name}" for alias in node.names}
            needed |= (inner & modules) | ({node.module or ""} if inner - modules else set())
    return needed & modules


def cycle(graph: dict[str, set[str]]) -> list[str]:
    """Nodes that lead to themselves, in order and with the first repeated; none if there are none."""
    done: set[str] = set()

    def search(node: str, way: list[str]) -> list[str]:
        if node in way:
            return [*way[way.index(node) :], node]
        if node in done:
            return []
        for following in sorted(graph[node]):
            if found := search(following, [*way, node]):
                return found
        done.add(node)
        return []

    return next((found for node in sorted(graph) if (found := search(node, []))), [])


def test_no_module_needs_itself() -> None:
    modules = {module(path) for path in FILES}
    found = cycle({module(path): imported_modules(path, modules) for path in FILES})
    assert not found, " -> ".join(found)


def test_circles_are_found() -> None:
    assert cycle({"a": {"b"}, "b": {"c"}, "c": {"b"}}) == ["b", "c", "b"]
    assert cycle({"a": {"b", "c"}, "b": {"c"}, "c": set()}) == []


def test_problems_and_spaces_do_not_see_each_other() -> None:
    assert not allowed("problems", "spaces")
    assert not allowed("spaces", "problems")


def test_package_itself_imports_nothing_but_old_names_until_asked() -> None:
    tree = ast.parse((SOURCE / "__init__.py").read_text(encoding="utf-8"))
    eager = [node.module for node in tree.body if isinstance(node, ast.ImportFrom)]
    assert [module for module in eager if module and module.startswith("dualembed")] == ["dualembed.deprecation"]


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_every_module_says_what_it_is(path: Path) -> None:
    docstring = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))
    assert docstring, f"{path} has no docstring"


def test_no_module_is_a_drawer() -> None:
    drawers = {"utils", "util", "helpers", "helper", "misc", "common"}
    folders = [SOURCE, SOURCE.parent.parent / "tests"]
    named = [path for folder in folders for path in folder.rglob("*") if path.stem.lower() in drawers]
    assert named == []


# What may be asked whether it has an attribute: errors of other libraries, values of JSON, functions and settings that
# people give, bars of matplotlib, modules by name.
PROBED = {"error", "value", "setting", "bars", "module"}


@pytest.mark.parametrize("path", [each for each in FILES if part(each) in ("report", "plot", "cli")], ids=str)
def test_reports_figures_and_the_command_line_probe_no_model(path: Path) -> None:
    """They know of a model what `Fitted` says, and never look whether it happens to have something."""
    calls = [node for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(node, ast.Call)]
    probes = [call for call in calls if isinstance(call.func, ast.Name) and call.func.id in ("hasattr", "getattr")]
    assert [ast.unparse(call) for call in probes if ast.unparse(call.args[0]) not in PROBED] == []
