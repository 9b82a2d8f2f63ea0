"""A fitted model for people who have not read the paper: a page that stands alone, and a card for notebooks."""

from dualembed.report.card import html_of
from dualembed.report.page import write_report

__all__ = ["html_of", "write_report"]
