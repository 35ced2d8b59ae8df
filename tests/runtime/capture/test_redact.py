"""No secret survives, in any of the ways in which people write them."""

import base64
import random
import urllib.parse

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgeseg.runtime.capture.redact import redact, redact_url

CASES = [
    ("rtsp://admin:hunter2@cam/1", "rtsp://***@cam/1"),
    ("rtsp://hunter2@cam:554/1?channel=1", "rtsp://***@cam:554/1?channel=1"),
    ("rtsp://us%40er:hunter2%2F@cam/1", "rtsp://***@cam/1"),
    ("rtsp://admin:a@hunter2/b?c@cam/1", "rtsp://***@cam/1"),
    ("rtsp://admin:hunter2!x@cam/1", "rtsp://***@cam/1"),
    (
        "http://cam/v?user=admin&password=hunter2&channel=1",
        "http://cam/v?user=***&password=***&channel=1",
    ),
    ("http://cam/v?loginuse=x&loginpas=hunter2", "http://cam/v?loginuse=***&loginpas=***"),
    ("http://cam/v?pwd%3Dhunter2", "http://cam/v?pwd%3D***"),
    ("http://cam/v?access_token=hunter2", "http://cam/v?access_token=***"),
    ("rtsp://cam/user=admin_password=hunter2_channel=1.sdp", "rtsp://cam/user=***"),
    (
        "http://proxy/?url=rtsp%3A%2F%2Fadmin%3Ahunter2%40cam%2F1&q=2",
        "http://proxy/?url=rtsp://***@cam/1&q=2",
    ),
    (
        'rtspsrc location=rtsp://admin:hunter2@cam/1 user-pw="hunter2 x" latency=0 ! appsink',
        "rtspsrc location=rtsp://***@cam/1 user-pw=*** latency=0 ! appsink",
    ),
    (
        "rtspsrc user-id = admin user-pw = 'hunter2' ! appsink",
        "rtspsrc user-id = *** user-pw = *** ! appsink",
    ),
    (
        'souphttpsrc extra-headers="headers,Authorization=(string)\\"Basic hunter2=\\"" ! appsink',
        'souphttpsrc extra-headers="headers,Authorization=***" ! appsink',
    ),
    ("GET / Authorization: Bearer hunter2", "GET / Authorization: Bearer ***"),
    (
        "http://h/mjpg?user=admin&password=hun@ter2",
        "http://h/mjpg?user=***&password=***",
    ),
    ("http://h:80/mjpg?user=admin&password=hun@ter2", "http://***"),  # or 80/mjpg... is a password
    ("http://cam/v?password=hun&ter2&channel=1", "http://cam/v?password=***&channel=1"),
    ("http://cam/v?u=admin&p=hunter2", "http://cam/v?u=***&p=***"),
    (
        "http://proxy/?url=http%3A%2F%2Fcam%2F%3Fpwd%3Dh%40unter2",
        "http://proxy/?url=http://cam/?pwd=***",
    ),
    ("http://proxy/?url=rtsp://admin:hunter2@cam/1", "http://***@cam/1"),
    ("mqtts://line:hunter2@broker:8883", "mqtts://***@broker:8883"),
    ("rtsp://admin:hunter2", "rtsp://***"),  # no host at all
    ("rtsp://admin:h[unter2@cam/1", "rtsp://***@cam/1"),
    ("rtsp://admin:h[unter2", "rtsp://***"),
    ("rtsp://[fe80::1%eth0]:554/1", "rtsp://[fe80::1%eth0]:554/1"),
    ("rtsp://admin:hun ter2@cam/1 does not answer", "rtsp://***@cam/1 does not answer"),
    ("source='rtsp://admin:hun ter2@cam/1': no", "source='rtsp://***@cam/1': no"),
    ('rtspsrc location="rtsp://a:hun ter2@cam/1" ! x', 'rtspsrc location="rtsp://***@cam/1" ! x'),
    ('{"user": "admin", "password": "hunter2"}', '{"user": ***, "password": ***}'),
]


@pytest.mark.parametrize(("text", "expected"), CASES)
def test_secrets_go_and_the_rest_stays(text: str, expected: str) -> None:
    assert redact(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "/dev/video0",
        "0",
        "clips/line 2/a@b.mp4",
        "synthetic:fps=30,defects=0.1",
        "videotestsrc pattern=ball ! videoconvert ! appsink",
        "http://cam:8080/stream?channel=1&fps=25",
    ],
)
def test_a_source_without_secrets_is_left_alone(text: str) -> None:
    assert redact(text) == text
    assert redact_url(text) == text


# Letters that occur nowhere else in the URLs below, with everything awkward between them.
_awkward = st.text(st.sampled_from("QZ@/:?#&=%!'\" ;,$+"), min_size=1).map(lambda s: f"QZQ{s}ZQZ")


@given(_awkward)
def test_any_password_in_the_user_part_goes(password: str) -> None:
    text = redact_url(f"rtsp://admin:{password}@cam/1")
    assert text == "rtsp://***@cam/1"


@given(_awkward)
def test_any_escaped_password_in_a_query_goes(password: str) -> None:
    quoted = urllib.parse.quote(password, safe="")
    assert redact_url(f"http://cam/v?password={quoted}&channel=1") == (
        "http://cam/v?password=***&channel=1"
    )


# Every place of a credential, with the letters that cannot stand there unescaped. The first
# argument is what redacts: an address by itself, or text with addresses in it.
PLACES = [
    (redact_url, "rtsp://admin:{}@presse7.werk:554/Streaming/1", ""),
    (redact_url, "rtsp://{}@presse7.werk/1", ""),
    (redact_url, "mqtt://linie:{}@presse7.werk:1883", ""),
    (redact_url, "http://presse7.werk/mjpg?user=admin&password={}", ""),
    (redact_url, "http://presse7.werk/mjpg?channel=1&pwd={}&fps=5", ""),
    (redact_url, "http://presse7.werk/user=admin_password={}_channel=1.sdp", ""),
    (redact_url, "http://presse7.werk/v?access_token={}", ""),
    (redact_url, "http://presse7.werk/v?url=rtsp%3A%2F%2Fadmin%3A{quoted}%40presse7.werk%2F1", ""),
    (redact_url, "http://presse7.werk/v?url=http%3A%2F%2Fpresse7.werk%2F%3Fpwd%3D{quoted}", ""),
    (redact, "rtspsrc location=rtsp://admin:{}@presse7.werk/1 latency=0 ! appsink", " "),
    (redact, 'rtspsrc location="rtsp://admin:{}@presse7.werk/1" ! appsink', '"'),
    (redact, 'rtspsrc location=rtsp://presse7.werk/1 user-id=admin user-pw="{}" ! appsink', '"'),
    (redact, "rtspsrc location=rtsp://presse7.werk/1 user-pw={} ! appsink", " \"'"),
    (redact, "souphttpsrc location=http://presse7.werk/?token={} ! appsink", " "),
    (redact, "cannot open rtsp://admin:{}@presse7.werk/1: no route", ""),
    (redact, "http://presse7.werk/v?password={}: 401 Unauthorized", " "),
    (redact, "GET /1 Authorization: Basic {encoded}", ""),
]


def made_up(rng: random.Random, forbidden: str) -> str:
    """A secret of 4 to 16 characters, of letters that no address has, and all that is awkward."""
    awkward = [
        letter for letter in "@/:?#&=%!'\" ;,$+[]{}()<>|\\^`~*.-_" if letter not in forbidden
    ]
    letters = [
        rng.choice(awkward) if rng.random() < 0.3 else rng.choice("GJKQXYZ0389")
        for _ in range(rng.randint(4, 16))
    ]
    return "".join(letters)


def survivors(secret: str, shown: str, public: str) -> list[str]:
    """Parts of a secret that are shown and stand nowhere in the rest of the address."""
    parts = {secret[at : at + 4] for at in range(len(secret) - 3)}
    return [part for part in parts if part in shown and part not in public]


def test_nothing_of_a_hundred_thousand_secrets_survives() -> None:
    rng = random.Random(18)
    with_host = 0
    for number in range(100_000):
        hide, place, forbidden = PLACES[number % len(PLACES)]
        secret = made_up(rng, forbidden)
        forms = {
            "quoted": urllib.parse.quote(secret, safe=""),
            "encoded": base64.b64encode(secret.encode()).decode(),
        }
        shown = hide(place.format(secret, **forms))
        for form in (secret, *forms.values()):
            assert survivors(form, shown, place) == [], (place, secret, shown)
        with_host += "presse7.werk" in shown
    # The host goes only where a secret could be read as another part of its address.
    assert with_host > 0.9 * 100_000 * (len(PLACES) - 1) / len(PLACES)
