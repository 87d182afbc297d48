"""A sealed message is opened by its receiver, in its place, as it was written; or not at all."""

import importlib.util
from dataclasses import fields, replace

import pytest
from refusals import refused

if importlib.util.find_spec("flwr") is None or importlib.util.find_spec("pyarrow") is None:
    pytest.skip("needs the extra flower", allow_module_level=True)

from cryptography.hazmat.primitives import serialization

from skdpsumm.federated import _envelope
from skdpsumm.federated._envelope import EnvelopeError, Keys, Letter, seal, unseal

ROOM = 200
CURATOR, NORTH, EAST = Keys(), Keys(), Keys()
LETTER = Letter("ab12", run=7, counter=3, kind="ask", sender="curator", receiver="north")


def sealed(letter=LETTER, content=b"rows", keys=CURATOR, receiver=NORTH):
    return seal(letter, content, ROOM, keys, receiver.public)


def opened(octets, letter=LETTER, keys=NORTH, sender=CURATOR):
    return unseal(letter, octets, ROOM, keys, sender.public)


def is_refused(octets, *place, **how):
    with pytest.raises(EnvelopeError):
        opened(octets, *place, **how)
    return True


def test_all_messages_of_a_room_have_one_length_and_no_two_are_alike():
    contents = [b"", b"\0", b"x", b"x", b"x", bytes(range(ROOM))]
    told = [sealed(content=content) for content in contents]
    assert [opened(octets) for octets in told] == contents
    assert {len(octets) for octets in told} == {_envelope.sealed_size(ROOM)}
    # No two blocks of a cipher are alike either, though what is padded is all alike.
    blocks = [octets[k : k + 16] for octets in told for k in range(8, len(octets) - 16)]
    assert len(set(blocks)) == len(blocks)
    refused("has 201 bytes; 200 are agreed", sealed, content=bytes(ROOM + 1))


def test_no_bit_can_be_changed_and_no_part_is_a_message():
    octets = sealed()
    for place in range(len(octets)):
        changed = bytearray(octets)
        changed[place] ^= 1 << (place % 8)
        assert is_refused(bytes(changed))
    for cut in (0, 1, 8, 71, 72, 103, 104, -1):
        assert is_refused(octets[:cut])
    assert is_refused(octets + b"\0")


@pytest.mark.parametrize("name", [field.name for field in fields(Letter)])
def test_a_message_is_opened_in_its_own_place_only(name):
    """A replay in another run, an answer to another question, a message for somebody else."""
    value = getattr(LETTER, name)
    other = replace(LETTER, **{name: value + 1 if isinstance(value, int) else value + "x"})
    assert is_refused(sealed(), other)
    assert is_refused(sealed(other), LETTER)


def test_texts_of_a_place_cannot_flow_into_one_another():
    letters = [replace(LETTER, kind="a", sender="bc"), replace(LETTER, kind="ab", sender="c")]
    letters += [replace(LETTER, kind='a", "b'), replace(LETTER, kind="a", sender='b", "curator')]
    assert len({letter.context() for letter in letters}) == 4


def test_only_the_sender_signs_and_only_the_receiver_opens():
    assert is_refused(sealed(keys=EAST))
    assert is_refused(sealed(), keys=EAST)
    assert is_refused(sealed(receiver=EAST))
    # Nobody can sign what another has sealed and pass it for their own.
    ours, theirs = sealed(), replace(LETTER, sender="east")
    assert is_refused(sealed(theirs, keys=EAST)[:72] + ours[72:], theirs, sender=EAST)
    resigned = EAST.sign.sign(theirs.context() + ours[72:])
    assert is_refused(ours[:8] + resigned + ours[72:], theirs, sender=EAST)


def test_a_length_beyond_the_room_is_refused():
    """From a sender whose key is in the agreement, and who pads otherwise."""
    padded, context = (ROOM + 1).to_bytes(8, "big") + bytes(ROOM), LETTER.context()
    box = _envelope._SUITE.encrypt(padded, NORTH.seal.public_key(), info=context)
    assert is_refused(LETTER.counter.to_bytes(8, "big") + CURATOR.sign.sign(context + box) + box)


def test_keys_are_kept_for_one_user(tmp_path):
    path = tmp_path / "keys.pem"
    NORTH.save(path)
    assert path.stat().st_mode & 0o777 == 0o600
    again = Keys.load(path)
    assert opened(sealed(), keys=again) == b"rows"
    assert again.are(NORTH.public | {"node": "of Flower"})
    assert not again.are(EAST.public)
    path.chmod(0o644)
    refused("chmod 600", Keys.load, path)
    path.chmod(0o600)
    form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    plain = serialization.NoEncryption()
    sign, box = (key.private_bytes(*form, plain) for key in (NORTH.sign, NORTH.seal))
    for content in (b"", sign, box + sign, sign + sign, sign + box + box):
        path.write_bytes(content)
        refused("no pair of keys", Keys.load, path)


@pytest.mark.parametrize(
    "change",
    [
        {"sign": ""},
        {"seal": "AAAA"},
        {"sign": 4},
        {"sign": None},
        {"seal": NORTH.public["seal"] + "=="},
        {"sign": "é" * 44},
        {"seal": "A" * 43 + "="},  # of low order: nothing can be sealed for it
    ],
)
def test_public_keys_are_checked(change):
    _envelope.check_public(NORTH.public)
    for public in (NORTH.public | change, {k: v for k, v in NORTH.public.items() if k in change}):
        refused("Give `sign` and `seal`", _envelope.check_public, public)
