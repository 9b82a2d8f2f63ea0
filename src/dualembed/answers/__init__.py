"""Questions that are linear in f, and their answers: a number, its error, and how much it rests on."""

from dualembed.answers.answer import Answer, Verdict
from dualembed.answers.question import Question

__all__ = ["Answer", "Question", "Verdict"]
