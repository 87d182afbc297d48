"""A sealed message is opened by its receiver, in its place, as it was written; or not at all."""

import importlib.util
from dataclasses import fields, replace

import pytest

if importlib.util.find_spec("flwr") is None or importlib.util.find_spec("pyarrow") is None:
    pytest.skip("needs the extra flower", allow_module_level=True)

from cryptography.hazmat.primitives import serialization

from skdpsumm.federated import _envelope
from skdpsumm.federated._envelope import (
    EnvelopeError,
    Keys,
    Letter,
    check_public,
    seal,
    sealed_size,
    unseal,
)

ROOM = 200
CURATOR, NORTH, EAST = Keys(), Keys(), Keys()
LETTER = Letter("ab12", run=7, counter=3, kind="ask", sender="curator", receiver="north")


def sealed(letter=LETTER, content=b"rows", keys=CURATOR, receiver=NORTH):
    return seal(letter, content, ROOM, keys, receiver.public)


def opened(octets, letter=LETTER, room=ROOM, keys=NORTH, sender=CURATOR):
    return unseal(letter, octets, room, keys, sender.public)


@pytest.mark.parametrize("content", [b"", b"rows", b"\0\0", bytes(range(200))])
def test_what_was_sealed_is_opened(content):
    assert opened(sealed(content=content)) == content


def test_all_messages_of_a_room_have_one_length_and_no_two_are_alike():
    told = [sealed(content=b"x" * n) for n in (0, 1, 1, 1, ROOM)]
    assert {len(octets) for octets in told} == {sealed_size(ROOM)}
    # No two blocks of a cipher are alike either, though what is padded is all alike.
    blocks = [octets[k : k + 16] for octets in told for k in range(8, len(octets) - 16)]
    assert len(set(blocks)) == len(blocks)
    with pytest.raises(ValueError, match="has 201 bytes; 200 are agreed"):
        sealed(content=bytes(ROOM + 1))


def test_no_bit_can_be_changed():
    octets = sealed()
    for place in range(len(octets)):
        changed = bytearray(octets)
        changed[place] ^= 1 << (place % 8)
        with pytest.raises(EnvelopeError):
            opened(bytes(changed))


@pytest.mark.parametrize("cut", [0, 1, 8, 71, 72, 103, 104, -1])
def test_no_part_of_a_message_is_one(cut):
    for octets in (sealed()[:cut], sealed() + b"\0"):
        with pytest.raises(EnvelopeError):
            opened(octets)


@pytest.mark.parametrize("name", [field.name for field in fields(Letter)])
def test_a_message_is_opened_in_its_own_place_only(name):
    """A replay in another run, an answer to another question, a message for somebody else."""
    value = getattr(LETTER, name)
    other = replace(LETTER, **{name: value + 1 if isinstance(value, int) else value + "x"})
    for told, expected in ((LETTER, other), (other, LETTER)):
        with pytest.raises(EnvelopeError):
            opened(sealed(told), expected)


def test_texts_of_a_place_cannot_flow_into_one_another():
    letters = [replace(LETTER, kind="a", sender="bc"), replace(LETTER, kind="ab", sender="c")]
    letters += [replace(LETTER, kind='a", "b'), replace(LETTER, kind="a", sender='b", "curator')]
    assert len({letter.context() for letter in letters}) == 4


def test_only_the_sender_signs_and_only_the_receiver_opens():
    with pytest.raises(EnvelopeError):
        opened(sealed(keys=EAST))
    with pytest.raises(EnvelopeError):
        opened(sealed(), keys=EAST)
    with pytest.raises(EnvelopeError):
        opened(sealed(receiver=EAST))
    # Nobody can sign what another has sealed and pass it for their own.
    ours = sealed()
    theirs = bytearray(sealed(replace(LETTER, sender="east"), keys=EAST))
    theirs[72:] = ours[72:]
    with pytest.raises(EnvelopeError):
        opened(bytes(theirs), replace(LETTER, sender="east"), sender=EAST)
    resigned = EAST.sign.sign(replace(LETTER, sender="east").context() + ours[72:])
    with pytest.raises(EnvelopeError):
        opened(ours[:8] + resigned + ours[72:], replace(LETTER, sender="east"), sender=EAST)


def test_no_version_but_this_one_is_spoken(monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(_envelope, "_VERSION", "skdpsumm federated 0; none")
        old = sealed()
        assert opened(old) == b"rows"
    with pytest.raises(EnvelopeError):
        opened(old)


def test_a_length_beyond_the_room_is_refused(monkeypatch):
    """From a sender whose key is in the agreement, and who pads otherwise."""
    monkeypatch.setattr(_envelope, "_BYTES_OF_LENGTH", 8)
    context = LETTER.context()
    padded = (ROOM + 1).to_bytes(8, "big") + bytes(ROOM)
    box = _envelope._SUITE.encrypt(padded, NORTH.seal.public_key(), info=context)
    octets = LETTER.counter.to_bytes(8, "big") + CURATOR.sign.sign(context + box) + box
    with pytest.raises(EnvelopeError, match="longer"):
        opened(octets)


def test_keys_are_kept_for_one_user(tmp_path):
    path = tmp_path / "keys.pem"
    NORTH.save(path)
    assert path.stat().st_mode & 0o777 == 0o600
    again = Keys.load(path)
    assert again.public == NORTH.public
    assert opened(sealed(), keys=again) == b"rows"
    assert NORTH.are(NORTH.public | {"node": "of Flower"})
    assert not NORTH.are(EAST.public)
    path.chmod(0o644)
    with pytest.raises(ValueError, match="chmod 600"):
        Keys.load(path)


def test_a_file_of_other_keys_is_refused(tmp_path):
    path = tmp_path / "keys.pem"
    form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    sign, box = (
        key.private_bytes(*form, serialization.NoEncryption()) for key in (NORTH.sign, NORTH.seal)
    )
    for content in (b"", sign, box + sign, sign + sign, sign + box + box):
        path.write_bytes(content)
        path.chmod(0o600)
        with pytest.raises(ValueError, match="no pair of keys"):
            Keys.load(path)


@pytest.mark.parametrize(
    "change",
    [
        {"sign": ""},
        {"seal": "AAAA"},
        {"sign": 4},
        {"seal": NORTH.public["seal"] + "=="},
        {"sign": "é" * 44},
        {"seal": "A" * 43 + "="},  # of low order: nothing can be sealed for it
    ],
)
def test_public_keys_are_checked(change):
    check_public(NORTH.public)
    with pytest.raises(ValueError, match="Give `sign` and `seal`"):
        check_public(NORTH.public | change)
    for missing in ("sign", "seal"):
        with pytest.raises(ValueError, match="Give `sign` and `seal`"):
            check_public({missing: NORTH.public[missing]})
