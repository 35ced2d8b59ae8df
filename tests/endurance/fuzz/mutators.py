"""Ways to damage bytes: blind ones, and one that knows JSON and seals what it has changed."""

import hashlib
import json
import random
import re
from collections.abc import Callable
from typing import Any

Mutator = Callable[[random.Random, bytes, bytes], bytes]  # also of another file of the kind
_SEAL = re.compile(rb"(edgeseg-sha256:)([0-9a-f]{64})")
_MOST_GROWN = 5000


def flip(dice: random.Random, data: bytes, other: bytes) -> bytes:
    """A few bits, near each other or not."""
    changed = bytearray(data)
    for _ in range(dice.choice((1, 1, 1, 2, 8, 32))):
        if changed:
            changed[dice.randrange(len(changed))] ^= 1 << dice.randrange(8)
    return bytes(changed)


def overwrite(dice: random.Random, data: bytes, other: bytes) -> bytes:
    """A run of bytes of one value, or of chance: lengths and types among them."""
    if not data:
        return data
    at, length = dice.randrange(len(data)), dice.choice((1, 2, 4, 8, 64))
    filled = dice.choice((b"\0", b"\xff", b"\x7f", b"\x80")) * length
    piece = filled if dice.random() < 0.6 else dice.randbytes(length)
    return data[:at] + piece[: len(data) - at] + data[at + length :]


def truncate(dice: random.Random, data: bytes, other: bytes) -> bytes:
    """Cut off the end, or the beginning."""
    at = dice.randrange(len(data) + 1)
    return data[at:] if dice.random() < 0.1 else data[:at]


def splice(dice: random.Random, data: bytes, other: bytes) -> bytes:
    """A piece of another file, or of another place, in the middle of this one."""
    source = other if dice.random() < 0.5 else data
    first, second = sorted(dice.randrange(len(source) + 1) for _ in range(2))
    at = dice.randrange(len(data) + 1)
    skipped = second - first if dice.random() < 0.5 else 0
    return data[:at] + source[first:second][:100_000] + data[at + skipped :]


def grow(dice: random.Random, data: bytes, other: bytes) -> bytes:
    """More bytes than there were."""
    at = dice.choice((0, len(data), dice.randrange(len(data) + 1)))
    length = dice.randrange(1, _MOST_GROWN)
    piece = dice.choice((b"\0", b" ", b"[", b"\xff")) * length
    return data[:at] + (piece if dice.random() < 0.7 else dice.randbytes(length)) + data[at:]


BLIND: tuple[Mutator, ...] = (flip, flip, overwrite, truncate, splice, grow)


def odd_values(dice: random.Random) -> str:
    """JSON text of something that no field expects."""
    return dice.choice(_ODD)(dice)


_WORDS = (
    "null", "true", "[]", "{}", '""', "-1", "0", "1e308", "-1e308", "1e999", "NaN", "Infinity",
    "0.5", "65536", "4294967296", "18446744073709551616", '"\\ud800"', '"\\u0000"',
    '{"a":' * 50 + "1" + "}" * 50, "[" * 40 + "]" * 40,
)  # fmt: skip
# Words come as often as everything else together; long texts are only made when they are chosen.
_ODD: tuple[Callable[[random.Random], str], ...] = (
    *(lambda dice: dice.choice(_WORDS),) * 7,
    lambda dice: "9" * dice.choice((19, 21, 400, 5000)),
    lambda dice: "[" * dice.choice((10, 40, 100_000)),
    lambda dice: json.dumps("x" * dice.choice((100, 100_000))),
    lambda dice: json.dumps([dice.random() for _ in range(dice.choice((1, 3, 5000)))]),
    lambda dice: json.dumps({str(n): n for n in range(dice.choice((1, 1000)))}),
    lambda dice: str(dice.uniform(-1e9, 1e9)),
    lambda dice: str(dice.randrange(-10, 10**9)),
)


def change_json(dice: random.Random, text: str) -> str:
    """The same values with one replaced, removed, renamed, moved or added."""
    try:
        values = json.loads(text)
    except ValueError:
        return text
    places = list(_places(values))
    if not places:
        return odd_values(dice)
    holder, key = dice.choice(places)
    action = dice.random()
    mark = f"@{dice.getrandbits(64):x}@"
    if action < 0.15:
        del holder[key]
    elif action < 0.25 and isinstance(holder, dict):
        holder[f"{key}_"] = holder.pop(key)
    elif action < 0.4:
        other_holder, other_key = dice.choice(places)
        holder[key] = json.loads(json.dumps(other_holder[other_key]))
    elif action < 0.5 and isinstance(holder[key], int | float):
        holder[key] = holder[key] * dice.choice((-1, 0, 2, 1000, 1e6, 1e30))
    else:
        holder[key] = mark
    return json.dumps(values).replace(f'"{mark}"', odd_values(dice))


def _places(values: Any) -> Any:
    """Every value with what holds it; of long lists the first few."""
    if isinstance(values, dict):
        items: Any = list(values.items())
    elif isinstance(values, list):
        items = list(enumerate(values[:5]))
    else:
        return
    for key, value in items:
        yield values, key
        yield from _places(value)


def sealed_again(data: bytes, *, text: bool) -> bytes:
    """With the hash that it should have: what stands behind the hash is to be tried, too."""
    blank = _SEAL.sub(lambda match: match[1] + b"0" * 64, data)
    digest = hashlib.sha256(blank.strip() if text else blank).hexdigest().encode()
    return _SEAL.sub(lambda match: match[1] + digest, data)
