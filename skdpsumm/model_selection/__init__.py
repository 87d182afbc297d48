"""Private choice of parameters: random stopping, with the number of trials a secret."""

from ._private_search import PrivateSearchCV

__all__ = ["PrivateSearchCV"]
