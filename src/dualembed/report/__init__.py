"""A fitted model for people who have not read the paper: a page that stands alone, and a card for notebooks."""

from dualembed.deprecation import renamed
from dualembed.report.page import card, write_report

__all__ = ["card", "write_report"]

__getattr__ = renamed(__name__, {"html_of": "card"})
