"""What has been computed so far, so that an interrupted run goes on where it stopped, with the same numbers."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any


class Ledger:
    """Answers under their questions, both plain JSON values: one line each in a file, or in memory where there is none.

    A line goes to the disk as soon as it is known. The last one may have been cut short by a crash, and is then left
    out; JSON keeps every digit of a float, so that what is recalled is what was computed.

    >>> ledger = Ledger()
    >>> ledger.remember({"trial": 3}, 0.1)
    >>> ledger.recall({"trial": 3}), ledger.recall({"trial": 4})
    (0.1, None)
    """

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self._answers: dict[str, Any] = {}
        if path is not None and path.exists():
            for line in path.read_text(encoding="utf-8").splitlines():
                try:
                    entry = json.loads(line)
                    self._answers[_name(entry["question"])] = entry["answer"]
                except (ValueError, KeyError, TypeError):
                    continue

    def __len__(self) -> int:
        return len(self._answers)

    def recall(self, question: Any) -> Any:
        """The answer, or None where there is none yet."""
        return self._answers.get(_name(question))

    def remember(self, question: Any, answer: Any) -> None:
        """Keep the answer, on the disk too."""
        self.remember_all([(question, answer)])

    def remember_all(self, answered: Iterable[tuple[Any, Any]]) -> None:
        """Keep the answers to several questions that are known at once."""
        lines = ""
        for question, answer in answered:
            self._answers[_name(question)] = answer
            lines += json.dumps({"question": question, "answer": answer}) + "\n"
        if self._path is None:
            return
        with self._path.open("a", encoding="utf-8") as file:
            # A line of its own even after one that was cut short; empty lines are no entries.
            file.write("\n" + lines)
            file.flush()
            os.fsync(file.fileno())


def _name(question: Any) -> str:
    return json.dumps(question, sort_keys=True)
