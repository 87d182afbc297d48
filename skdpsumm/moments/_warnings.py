"""The warning that belongs to answers."""


class AnswerWarning(UserWarning):
    """An answer may be off by more than its error bar says, and why can be told."""
