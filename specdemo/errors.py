"""The exceptions whose messages a person reads: what was found, what is expected, what to do.

Everything else that is raised inside the package is a bug and may show a traceback.
"""


class SpecdemoError(Exception):
    """Base of all errors that are shown to a person as one sentence."""


class SettingsError(SpecdemoError):
    """A setting is out of its range or contradicts another."""


class PromptError(SpecdemoError):
    """A prompt is empty, blank or too long for the model."""


class ModelError(SpecdemoError):
    """A target or drafter cannot be fetched, loaded or used for what was asked."""


class TraceError(SpecdemoError):
    """A trace file is missing, damaged or of a version this program does not read."""


class SpaceError(SpecdemoError):
    """The Spacefile, or the README that its card is written into, cannot be used."""


class SiteError(SpecdemoError):
    """An exported site cannot be written where it was asked for."""


class LessonError(SpecdemoError):
    """A lesson's file is damaged, lacks a text, or refers to a figure that no recorded race has."""
