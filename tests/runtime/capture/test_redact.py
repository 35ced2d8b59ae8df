"""No secret survives, in any of the ways in which people write them."""

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
        "http://proxy/?url=rtsp%3A%2F%2F***%40cam%2F1&q=2",
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
