"""Lines of code and files of each package, counted by tokens: docstrings, comments and blank lines are none.

make count
"""

from __future__ import annotations

import ast
import io
import tokenize
from collections import Counter
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src" / "dualembed"
DOCUMENTED = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
SILENT = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}


def code_lines(text: str) -> int:
    """How many lines of a module hold a token that is neither a comment nor of a docstring."""
    words: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, DOCUMENTED) and ast.get_docstring(node, clean=False) is not None:
            words.update(range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1))
    tokens = (token for token in tokenize.generate_tokens(io.StringIO(text).readline) if token.type not in SILENT)
    return len({line for token in tokens for line in range(token.start[0], token.end[0] + 1)} - words)


def main() -> None:
    """Prints a line for each package, the modules beside them together, and the totals."""
    lines: Counter[str] = Counter()
    files: Counter[str] = Counter()
    for path in SOURCE.rglob("*.py"):
        inner = path.relative_to(SOURCE).parts
        package = inner[0] if len(inner) > 1 else "(modules)"
        lines[package] += code_lines(path.read_text(encoding="utf-8"))
        files[package] += 1
    print(f"{'package':24}{'lines':>8}{'files':>8}")
    for package in sorted(lines):
        print(f"{package:24}{lines[package]:8}{files[package]:8}")
    print(f"{'total':24}{lines.total():8}{files.total():8}")
    rest = lines.total() - lines["experiments"], files.total() - files["experiments"]
    print(f"{'without experiments':24}{rest[0]:8}{rest[1]:8}")


if __name__ == "__main__":
    main()
