"""Linear systems from sums by group: one place for closed forms and for their errors."""

from dualembed.linear.candidates import RidgePath
from dualembed.linear.path import Average, solution_path
from dualembed.linear.sums import Sums, gather
from dualembed.linear.system import LinearSystem

__all__ = ["Average", "LinearSystem", "RidgePath", "Sums", "gather", "solution_path"]
