"""Curators and summarizers from one set of parameters, those of the protocol among them."""

import numpy as np
from sklearn.base import clone

from skdpsumm import PrivateMMDSummarizer
from skdpsumm.summaries import Curator
from skdpsumm.summaries._summarizer import PROTOCOLS


def points(n, centre=0.0, seed=0):
    """Return rows of two columns around a centre."""
    return np.random.default_rng(seed).normal(centre, 1.0, (n, 2))


OF_PROTOCOL = ("n_target", "shares", "max_share_per_owner")


def summarizer_of(n_select=100, *, protocol="propose", **parameters):
    """Return a summarizer; what is the protocol's goes to a protocol that has such a parameter."""
    own = {name: parameters.pop(name) for name in OF_PROTOCOL if name in parameters}
    if own:
        made = PROTOCOLS[protocol]() if isinstance(protocol, str) else clone(protocol)
        known = made.get_params(deep=False)
        protocol = made.set_params(**{name: own[name] for name in own if name in known})
    return PrivateMMDSummarizer(n_select=n_select, protocol=protocol, **parameters)


def curator_of(X_target, owners, *, target_groups=None, ledger=None, random_state=None, **options):
    """Return a curator with the terms of such a summarizer."""
    own = {"ledger": ledger, "random_state": random_state}
    terms = summarizer_of(**options).terms()
    return Curator(X_target, owners, terms, target_groups=target_groups, **own)


def with_n_target(summarizer, n_target):
    """Give a summarizer a public number of target rows, where its protocol takes one; return it."""
    made = clone(summarizer._made_protocol())
    if "n_target" in made.get_params(deep=False):
        summarizer.set_params(protocol=made.set_params(n_target=n_target))
    return summarizer
