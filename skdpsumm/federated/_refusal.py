"""What an owner says when he does not answer."""


class Refusal(Exception):
    """An owner's reason, in words that may leave his site.

    Its text consists of what both parties have agreed on (names of columns, of parameters) and
    never of anything read off the table. All other exceptions stay at home: the curator gets
    `GENERIC` in their place.

    Parameters
    ----------
    reason : str
        For the curator.
    detail : str, default=""
        For the owner's log.
    """

    def __init__(self, reason: str, detail: str = ""):
        super().__init__(reason)
        self.detail = detail


GENERIC = "the owner's side failed; his log says why"
