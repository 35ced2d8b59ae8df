"""Who may see the page and act on it, and what never leaks."""

import json
from collections.abc import Iterator

import pytest

from edgeseg.base.errors import UsageError
from edgeseg.runtime.capture.redact import redact
from edgeseg.runtime.capture.sources import parse_source
from edgeseg.runtime.events.records import SourceEvent
from edgeseg.runtime.web.access import Access
from tests.support.page_site import TOKEN, Site, running
from tests.support.scored_frames import make_result

ACTION = {"method": "POST", "body": '{"active": true}'}


@pytest.fixture
def site() -> Iterator[Site]:
    with running() as started:
        yield started


@pytest.fixture
def locked() -> Iterator[Site]:
    with running(token=TOKEN) as started:
        yield started


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"X_Edgeseg": "1"}, 200),
        ({"X_Edgeseg": "1", "Origin": "http://HOST", "Sec_Fetch_Site": "same-origin"}, 200),
        ({}, 403),
        ({"X_Edgeseg": "1", "Origin": "http://evil.example"}, 403),
        ({"X_Edgeseg": "1", "Origin": "null"}, 403),
        ({"X_Edgeseg": "1", "Origin": "http://localhost:1"}, 403),
        ({"X_Edgeseg": "1", "Sec_Fetch_Site": "cross-site"}, 403),
        ({"X_Edgeseg": "1", "Sec_Fetch_Site": "same-site"}, 403),
        ({"X_Edgeseg": "1", "Host": "evil.example"}, 403),
    ],
)
def test_only_our_page_may_act(site: Site, headers: dict[str, str], status: int) -> None:
    own = {k: v.replace("HOST", f"127.0.0.1:{site.port}") for k, v in headers.items()}
    assert site.ask("/recording", **ACTION, **own)[0] == status
    assert site.recorder.active is (status == 200)


def test_a_stream_of_one_model_has_no_recipe_to_change(site: Site) -> None:
    def act(body: str) -> tuple[int, dict]:
        status, _, answer = site.ask("/recipe", method="POST", body=body, X_Edgeseg="1")
        return status, json.loads(answer)

    text = "this stream runs one model; start it with recipes=FOLDER"
    assert act('{"recipe": "bottle"}') == (409, {"error": text})
    for body in ('{"recipe": 3}', '{"job": "bottle"}', "bottle", "[" * 2000):
        assert act(body) == (400, {"error": 'expected {"recipe": "NAME"}'})
    assert json.loads(site.ask("/state")[2])["recipes"] is None


def test_recording_starts_stops_and_explains(site: Site) -> None:
    def act(body: str) -> tuple[int, dict]:
        status, _, answer = site.ask("/recording", method="POST", body=body, X_Edgeseg="1")
        return status, json.loads(answer)

    assert act('{"active": true}') == (200, {"active": True})
    assert act('{"active": true}') == (200, {"active": True})
    assert act('{"active": false}') == (200, {"active": False})
    site.recorder.error = "the disk is full"
    assert act('{"active": true}') == (409, {"error": "the disk is full"})
    site.recorder.start = lambda: 1 / 0  # type: ignore[method-assign]
    assert act('{"active": true}') == (500, {"error": "ZeroDivisionError"})
    for body in ("", "[]", "{}", '{"active": 1}', "\xff", "x" * 5000):
        assert act(body)[0] == 400
    assert site.ask("/other", **ACTION, X_Edgeseg="1")[0] == 404
    assert site.recorder.active is False


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost", 200),
        ("LOCALHOST:1234", 200),
        ("127.0.0.1:8080", 200),
        ("127.8.9.1", 200),
        ("[::1]:8080", 200),
        ("evil.example", 403),
        ("localhost.evil.example", 403),
        ("127.0.0.1.evil.example", 403),
        ("192.168.1.4:8080", 403),
        ("", 403),
        ("[::1", 403),
    ],
)
def test_loopback_answers_to_loopback_names_only(site: Site, host: str, status: int) -> None:
    assert site.ask("/state", Host=host)[0] == status


def test_embedding_by_another_site_is_refused(site: Site) -> None:
    foreign = {"Sec_Fetch_Site": "cross-site"}
    assert site.ask("/stream.mjpg", **foreign, Sec_Fetch_Mode="no-cors")[0] == 403
    assert site.ask("/", **foreign, Sec_Fetch_Mode="navigate")[0] == 200


@pytest.mark.parametrize("path", ["/", "/state", "/events", "/metrics", "/stream.mjpg"])
def test_token_is_needed_everywhere(locked: Site, path: str) -> None:
    assert locked.ask(path, method="HEAD")[0] == 401
    assert locked.ask(path, method="HEAD", Authorization=f"Bearer {TOKEN[:-1]}")[0] == 401
    assert locked.ask(path, method="HEAD", Cookie=f"edgeseg={TOKEN}")[0] == 401
    assert locked.ask(path, method="HEAD", Authorization=f"bearer {TOKEN}")[0] == 200
    assert locked.ask("/healthz")[0] == 200


def test_token_in_the_address_becomes_a_cookie(locked: Site) -> None:
    status, headers, _ = locked.ask(f"/?token={TOKEN}")
    assert (status, headers["Location"]) == (303, "/")
    cookie = headers["Set-Cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=Lax" in cookie
    assert TOKEN not in cookie
    pair = cookie.split(";")[0]
    assert locked.ask("/state", Cookie=f"a=b; {pair}")[0] == 200
    assert locked.ask("/state", Cookie=pair + "0")[0] == 401
    assert locked.ask(f"/state?token={TOKEN}")[0] == 200
    assert locked.ask("/recording", **ACTION)[0] == 403
    assert locked.ask("/recording", **ACTION, Cookie=pair)[0] == 403
    assert locked.ask("/recording", **ACTION, Cookie=pair, X_Edgeseg="1")[0] == 200


def test_login_form(locked: Site) -> None:
    form = {"method": "POST", "Content_Type": "application/x-www-form-urlencoded"}
    assert locked.ask("/login", body="token=wrong", **form)[0] == 401
    assert locked.ask("/login", body="", **form)[0] == 401
    status, headers, _ = locked.ask("/login", body=f"token={TOKEN}", **form)
    assert (status, headers["Location"]) == (303, "/")


def test_token_is_never_shown(locked: Site, capfd: pytest.CaptureFixture[str]) -> None:
    locked.page.on_frame(make_result(score=20.0, alarm_started=True))
    answers = [
        locked.ask(path, Authorization=f"Bearer {TOKEN}")[1:]
        for path in ("/", "/state", "/events", "/metrics", "/healthz", f"/?token={TOKEN}")
    ]
    assert TOKEN not in repr(answers)
    assert TOKEN not in repr(Access(host="127.0.0.1", token=TOKEN))
    assert TOKEN not in locked.page.url
    assert capfd.readouterr() == ("", "")  # no access log: request lines hold tokens
    assert locked.errors == []


@pytest.mark.parametrize("host", ["0.0.0.0", "", "192.168.1.4", "::", "factory.example"])
def test_other_addresses_need_a_token(host: str) -> None:
    with pytest.raises(UsageError, match=r"^host='.*expected a token; give token_file=FILE"):
        Access(host=host)
    Access(host=host, token=TOKEN)


@pytest.mark.parametrize("token", ["", "short", "fifteen-letters", "ä" * 20])
def test_weak_tokens_are_refused(token: str) -> None:
    with pytest.raises(UsageError, match="expected 16 or more of ASCII") as caught:
        Access(host="127.0.0.1", token=token)
    assert not token or token not in str(caught.value)


def test_camera_credentials_reach_no_answer(site: Site) -> None:
    name = parse_source("rtsp://admin:hunter2@10.0.0.9:554/stream1?token=abcdef0123").name
    site.view.names = [name]
    reason = redact("cannot open rtsp://admin:hunter2@10.0.0.9:554/stream1")
    site.page.on_source(
        SourceEvent(
            kind="source_lost",
            source=name,
            source_index=0,
            wall_s=1.0,
            monotonic_s=1.0,
            reason=reason,
        )
    )
    answers = [site.ask(path)[2].decode() for path in ("/", "/state", "/events", "/metrics")]
    assert "10.0.0.9" in answers[1]
    for secret in ("hunter2", "admin", "abcdef0123"):
        assert all(secret not in answer for answer in answers)


def test_two_tokens_tell_operators_from_supervisors() -> None:
    access = Access(host="0.0.0.0", token=TOKEN, supervisor_token=TOKEN[::-1])
    roles = {TOKEN: "operator", TOKEN[::-1]: "supervisor", TOKEN[1:]: None, "": None}
    for token, role in roles.items():
        assert access.role({"Authorization": f"Bearer {token}"}) == role
        assert access.role({}, query_token=token) == role
        cookie = access.cookie_for(token)
        assert (cookie is not None) is (role is not None)
        assert access.role({"Cookie": cookie or "edgeseg=None"}) == role
    assert TOKEN[::-1] not in repr(access)
    assert access.role({"Host": "localhost"}) is None


def test_one_token_or_none_lets_everyone_in_do_everything() -> None:
    assert Access(host="0.0.0.0", token=TOKEN).role({}, query_token=TOKEN) == "supervisor"
    assert Access(host="127.0.0.1").role({"Host": "localhost"}) == "supervisor"


def test_a_station_with_a_screen_needs_a_token_for_the_supervisor_alone() -> None:
    access = Access(host="127.0.0.1", supervisor_token=TOKEN)
    assert access.role({"Host": "localhost:8080"}) == "operator"
    assert access.role({"Host": "localhost:8080"}, query_token=TOKEN) == "supervisor"
    assert access.role({"Host": "evil.example"}) is None
    with pytest.raises(UsageError, match=r"^host='0.0.0.0': everyone on the network"):
        Access(host="0.0.0.0", supervisor_token=TOKEN)


def test_tokens_of_two_roles_differ_and_are_strong() -> None:
    with pytest.raises(UsageError, match="operators have the supervisor's token"):
        Access(host="0.0.0.0", token=TOKEN, supervisor_token=TOKEN)
    with pytest.raises(UsageError, match=r"^the supervisor's token has 5 characters"):
        Access(host="127.0.0.1", supervisor_token="short")
