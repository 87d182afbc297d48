"""Noise in floating point, for laws that have no exact sampler: its guarantees are idealised."""

from __future__ import annotations

import secrets

import numpy as np
from numpy.typing import NDArray


def secret_generator(noise_seed: int | None) -> np.random.Generator:
    """Return a generator that starts from 256 bits of the system's entropy, or from a seed."""
    return np.random.default_rng(secrets.randbits(256) if noise_seed is None else noise_seed)


def radial_noise(
    shape: tuple[int, ...], scale: float, rng: np.random.Generator
) -> NDArray[np.float64]:
    """Return a vector with density proportional to ``exp(-|xi|_2 / scale)``.

    Added to a vector of L2 sensitivity Delta it is ``Delta / scale``-DP (the K-norm mechanism of
    Hardt and Talwar 2010, for the Euclidean ball). Its length is Gamma distributed.
    """
    direction = rng.standard_normal(shape)
    length = rng.gamma(direction.size, scale)
    return direction * (length / np.linalg.norm(direction))
