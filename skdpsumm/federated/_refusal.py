"""What an owner says when he does not answer."""


class Refusal(Exception):
    """An owner's reason, in words that may leave his site.

    Its text consists of what both parties have agreed on (names of columns, of parameters) and
    never of anything read off the table. All other exceptions stay at home: the curator gets
    `GENERIC` in their place.
    """


GENERIC = "the owner's side failed; his log says why"
