"""Sealed and signed messages: who carries them learns when they were sent, and no more.

The content is padded to a size that both parties know before, sealed for the receiver's key (HPKE,
RFC 9180, base mode: X25519, HKDF-SHA256, AES-256-GCM) and signed with the sender's (Ed25519). Seal
and signature are bound to the `Letter`: version, agreement, run, counter, question, sender and
receiver. None of these is read off the message, except the counter, so that a message from another
place is refused before anything of it is parsed, and there is nothing to negotiate down.
"""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Mapping
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any

from cryptography.exceptions import InvalidSignature, InvalidTag
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.hpke import AEAD, KDF, KEM, Suite

from ._files import write_file

_VERSION = "skdpsumm federated 1; Ed25519; HPKE base X25519 HKDF-SHA256 AES-256-GCM"
_SUITE = Suite(KEM.X25519, KDF.HKDF_SHA256, AEAD.AES_256_GCM)
_BYTES_OF_COUNTER, _BYTES_OF_SIGNATURE, _BYTES_OF_LENGTH = 8, 64, 8
# What a sealed message is longer than its padded content: the encapsulated key, and AES-GCM's tag.
_BYTES_OF_SEAL = 32 + 16
_RAW = serialization.Encoding.Raw, serialization.PublicFormat.Raw
_PEM_END = b"-----END PRIVATE KEY-----\n"


class EnvelopeError(ValueError):
    """A message is not the one that was to come: it says no more, and nobody needs to know more."""


@dataclass(frozen=True)
class Letter:
    """What a message is bound to.

    Parameters
    ----------
    agreement : str
        Its digest.
    run : int
    counter : int
        Of the question within its run. Answers have that of their question.
    kind, sender, receiver : str
    question : str, default=""
        SHA-256 of the message that is answered.
    """

    agreement: str
    run: int
    counter: int
    kind: str
    sender: str
    receiver: str
    question: str = ""

    def context(self) -> bytes:
        """Return all of it, and the version, as text that is read in one way only."""
        return json.dumps([_VERSION, *astuple(self)]).encode()


class Keys:
    """The private keys of one party: one signs, one opens what is sealed for it.

    Examples
    --------
    >>> from skdpsumm.federated._envelope import Keys, Letter, seal, unseal
    >>> north, curator = Keys(), Keys()
    >>> letter = Letter("ab12", run=1, counter=0, kind="sign", sender="curator", receiver="north")
    >>> octets = seal(letter, b"yes", 100, curator, north.public)
    >>> unseal(letter, octets, 100, north, curator.public)
    b'yes'
    """

    def __init__(self, sign: Ed25519PrivateKey | None = None, seal: X25519PrivateKey | None = None):
        self.sign = Ed25519PrivateKey.generate() if sign is None else sign
        self.seal = X25519PrivateKey.generate() if seal is None else seal

    @property
    def public(self) -> dict[str, str]:
        """What the agreement holds of a party, by name, in base64."""
        sign, seal = self.sign.public_key(), self.seal.public_key()
        raw = {"sign": sign.public_bytes(*_RAW), "seal": seal.public_bytes(*_RAW)}
        return {name: base64.b64encode(octets).decode() for name, octets in raw.items()}

    def are(self, public: Mapping[str, str]) -> bool:
        """Return whether the agreement's keys of a party are these."""
        return all(public.get(name) == value for name, value in self.public.items())

    @classmethod
    def load(cls, path: str | os.PathLike) -> Keys:
        """Read what `save` wrote.

        Raises
        ------
        ValueError
            If the file is no pair of keys, or others on the machine can read it.
        """
        path = Path(path).expanduser()
        if path.stat().st_mode & 0o077:
            raise ValueError(f"Run `chmod 600 {path.name}`: others can read this file of keys.")
        parts = path.read_bytes().split(_PEM_END)[:-1]
        keys = [serialization.load_pem_private_key(part + _PEM_END, None) for part in parts]
        match keys:
            case [Ed25519PrivateKey() as sign, X25519PrivateKey() as seal]:
                return cls(sign, seal)
        raise ValueError(f"{path.name} holds no pair of keys; make one with the command `new`.")

    def save(self, path: str | os.PathLike) -> None:
        """Write both as PEM, for this user's eyes only."""
        form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
        plain = serialization.NoEncryption()
        write_file(path, b"".join(k.private_bytes(*form, plain) for k in (self.sign, self.seal)))


def check_public(public: Any) -> None:
    """Raise ValueError unless `public` has both public keys of a party."""
    try:
        # Keys of low order are refused here, and not when something is to be sealed for them.
        X25519PrivateKey.generate().exchange(_public(public)[1])
    except Exception as error:
        raise ValueError("Give `sign` and `seal`, as the command `new` prints them.") from error


def _public(public: Mapping[str, str]) -> tuple[Ed25519PublicKey, X25519PublicKey]:
    sign, seal = (base64.b64decode(public[name], validate=True) for name in ("sign", "seal"))
    return Ed25519PublicKey.from_public_bytes(sign), X25519PublicKey.from_public_bytes(seal)


def sealed_size(room: int) -> int:
    """Return the bytes of a message whose content may have `room`."""
    return _BYTES_OF_COUNTER + _BYTES_OF_SIGNATURE + _BYTES_OF_SEAL + _BYTES_OF_LENGTH + room


def counter_of(octets: bytes) -> int:
    """Return the counter that a message claims, which its signature covers."""
    return int.from_bytes(octets[:_BYTES_OF_COUNTER], "big")


def seal(
    letter: Letter, content: bytes, room: int, keys: Keys, receiver: Mapping[str, str]
) -> bytes:
    """Return `content` padded to `room`, sealed for the receiver and signed by the sender.

    Raises
    ------
    ValueError
        If the content is longer than `room`.
    """
    if len(content) > room:
        raise ValueError(f"The message has {len(content)} bytes; {room} are agreed.")
    padded = len(content).to_bytes(_BYTES_OF_LENGTH, "big") + content.ljust(room, b"\0")
    context = letter.context()
    sealed = _SUITE.encrypt(padded, _public(receiver)[1], info=context)
    signature = keys.sign.sign(context + sealed)
    return letter.counter.to_bytes(_BYTES_OF_COUNTER, "big") + signature + sealed


def unseal(
    letter: Letter, octets: bytes, room: int, keys: Keys, sender: Mapping[str, str]
) -> bytes:
    """Return the content of a message that is exactly the expected one.

    Raises
    ------
    EnvelopeError
        For another size, which is looked at first; another counter, signature, receiver or letter.
    """
    if len(octets) != sealed_size(room) or counter_of(octets) != letter.counter:
        raise EnvelopeError("The message has another size or place than agreed.")
    start = _BYTES_OF_COUNTER + _BYTES_OF_SIGNATURE
    signature, sealed, context = octets[_BYTES_OF_COUNTER:start], octets[start:], letter.context()
    try:
        _public(sender)[0].verify(signature, context + sealed)
        padded = _SUITE.decrypt(sealed, keys.seal, info=context)
    except (InvalidSignature, InvalidTag, ValueError) as error:
        raise EnvelopeError("The message is not signed or sealed as agreed.") from error
    length = int.from_bytes(padded[:_BYTES_OF_LENGTH], "big")
    if length > room:
        raise EnvelopeError("The message is longer than its room.")
    return padded[_BYTES_OF_LENGTH : _BYTES_OF_LENGTH + length]
