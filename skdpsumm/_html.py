"""What objects show of themselves: their attributes, one small table, and the axes of a picture.

Names and texts may come from a stranger's file, so they are cut and escaped here. The table has no
colours of its own: it takes those of the page, light or dark.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence, Sized
from html import escape
from itertools import islice
from typing import Any

# Rows and columns of a table that a reader still looks over, and characters of one text. The
# longest text that the library writes itself, what a guarantee takes as given, has some 500.
MOST_ROWS_SHOWN, MOST_COLUMNS_SHOWN, LONGEST = 20, 12, 1000


def cut(text: str) -> str:
    """Return a text for people: its start, with what would steer a terminal written out."""
    more = f"... {len(text) - LONGEST:,} more characters" if len(text) > LONGEST else ""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text[:LONGEST]) + more


def more_of(shown: Sized, most: int) -> list[str]:
    """Return what ends a list of which only the first so many are shown: how many more it has."""
    return [f"... {len(shown) - most:,} more"] if len(shown) > most else []


def some_of(shown: Sequence[Any], told: Callable[[Any], str] = repr, most: int = 10) -> str:
    """Return the first of some things as a message lists them, and how many more there are."""
    return ", ".join([*map(told, shown[:most]), *more_of(shown, most)])


def check_axes(ax: Any, caller: str) -> None:
    """Raise ImportError without matplotlib, TypeError for what is no Axes but several."""
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError(
            f'{caller} requires matplotlib: install it with pip install "skdpsumm[plot]".'
        ) from error
    if ax is not None and not isinstance(ax, plt.Axes):
        raise TypeError(f"ax must be a matplotlib Axes or None, got {type(ax).__name__}.")


def open_axes(ax: Any, caller: str, figsize: tuple[float, float]) -> Any:
    """Return the axes to draw on, new ones of a size in inches where `ax` is None."""
    check_axes(ax, caller)
    import matplotlib.pyplot as plt

    return plt.subplots(figsize=figsize, layout="constrained")[1] if ax is None else ax


def html_table(
    caption: str, heads: Sequence[str], rows: Iterable[Sequence[str]], n_rows: int
) -> str:
    """Return a table of texts, each of which may hold anything.

    Parameters
    ----------
    caption : str
        What matters most: of a release, its promise.
    heads : sequence of str
        Heads of the columns. Empty, for rows of a name and a text.
    rows : iterable of sequence of str
        The name of each row, and its cells. Only the first `MOST_ROWS_SHOWN` are asked for.
    n_rows : int
        How many rows there are.

    Returns
    -------
    str
    """
    more = more_of(range(n_rows), MOST_ROWS_SHOWN)
    ending = "".join(f"<tr><td>{text}</td></tr>" for text in more)
    head = "".join(
        f'<th scope="col">{_safe(text)}</th>' if text else "<td></td>" for text in _cells(heads)
    )
    # Pages move cells to the right, which suits numbers and not sentences.
    cell = "<td>" if head else '<td style="text-align: left">'
    body = "".join(_html_row(row, cell) for row in islice(rows, MOST_ROWS_SHOWN))
    title = f"<caption>{_safe(caption)}</caption>" if caption else ""
    top = f"<thead><tr>{head}</tr></thead>" if head else ""
    return f"<table>{title}{top}<tbody>{body}{ending}</tbody></table>"


def _html_row(row: Sequence[str], cell: str) -> str:
    name, *texts = _cells(row)
    told = "".join(f"{cell}{_safe(text)}</td>" for text in texts)
    return f'<tr><th scope="row">{_safe(name)}</th>{told}</tr>'


def _cells(row: Sequence[str]) -> Sequence[str]:
    return row if len(row) <= MOST_COLUMNS_SHOWN else [*row[:MOST_COLUMNS_SHOWN], "..."]


def _safe(text: str) -> str:
    return escape(cut(text))


class ListedMixin:
    """Attributes that can be listed whatever the parameters are; goes before `BaseEstimator`.

    scikit-learn 1.9 asks for every attribute that `dir` lists, to leave out methods that are not
    available. One that raises anything but AttributeError would end completion, and the
    representation in a notebook, though parameters are only checked in `fit`.
    """

    def __dir__(self) -> list[str]:
        return [name for name in object.__dir__(self) if _is_there(self, name)]


def _is_there(listed: Any, name: str) -> bool:
    try:
        getattr(listed, name)
    except Exception:  # of a parameter that is wrong, say, which `fit` tells
        return False
    return True
