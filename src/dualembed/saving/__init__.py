"""Models as files: arrays and a description, nothing that runs when they are loaded."""

from dualembed.saving.allowed import MissingFunction
from dualembed.saving.models import describe, load, save

__all__ = ["MissingFunction", "describe", "load", "save"]
