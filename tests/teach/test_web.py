"""The addresses of the teaching page: who may ask what, and what is refused before it is read."""

import http.client
import json
import threading
from collections.abc import Iterator

import pytest

from edgeseg.base.errors import UsageError
from edgeseg.base.messages import Message
from edgeseg.runtime.web.access import Access
from edgeseg.teach import uploads, web
from edgeseg.teach.web import MAX_UPLOAD, for_page, routes_of, serve
from tests.doubles.fake_teach import FakeTeach
from tests.support import HANGS_S
from tests.support.http_client import request

OPERATOR, SUPERVISOR = "an-operators-token-0", "a-supervisors-token-0"

# Every action with a body that it takes, and one that it does not.
OPERATORS = {
    "/teach/capture": ('{"kind": "bad"}', '{"kind": "removed"}'),
    "/teach/auto": ('{"mode": "parts"}', '{"mode": "always"}'),
    "/teach/upload?name=a.png&kind=good": ("picture", None),
    "/teach/mark": ('{"alarm": "alarm-001", "mark": "good", "name": "Ann"}', '{"mark": "good"}'),
    "/teach/look": ("{}", '{"newest": true}'),
    "/teach/missed": (
        '{"card": {"id": "part-001", "part": "SN 001"}, "kind": "scratch", '
        '"outlines": [[[1, 2], [30, 2], [30, 40]]], "name": "Ann"}',
        '{"card": "part-001", "kind": "scratch", "outlines": [], "name": "Ann"}',
    ),
    "/teach/missed/withdraw": ('{"id": "part-001", "name": "Ann"}', '{"name": "Ann"}'),
    "/shift": ('{"begin": true}', '{"begin": 1}'),
    "/teach/withdraw": (
        '{"alarm": "alarm-001", "name": "Ann", "of_who": "operator", "of_name": "Ann"}',
        '{"alarm": "alarm-001", "name": "Ann", "of_who": "owner", "of_name": "Ann"}',
    ),
}
SUPERVISORS = {
    "/teach/keep": ('{"name": "good-0001.png"}', '{"name": null}'),
    "/teach/remove": ('{"name": "good-0001.png"}', '{"name": 3}'),
    "/teach/restore": ('{"name": "good-0002.png"}', '["good-0002.png"]'),
    "/teach/undo": ("{}", '{"all": true}'),
    "/teach/region": (
        '{"roi": [1, 2, 30, 40], "ignore": [[[1, 2], [3, 4], [5, 6]]], "locate": "none"}',
        '{"roi": [1, 2, 30], "ignore": [], "locate": "none"}',
    ),
    "/teach/fit": ("{}", '{"backbone": 18}'),
    "/teach/fit/cancel": ("{}", "null"),
    "/teach/choose": ('{"per_thousand": 5}', '{"per_thousand": "5"}'),
    "/teach/run": ("{}", ""),
    "/teach/stop": ("{}", "{"),
    "/teach/preview": ("{}", "[]"),
    "/teach/learn": ('{"of": "shown", "name": "Ada"}', "[" * 2000),
    "/teach/learn/cancel": ("{}", '{"now": 1}'),
    "/teach/confirm": ('{"name": "Bob"}', '{"name": 3}'),
    "/teach/confirm/withdraw": ('{"name": "Bob"}', '{"name": 3}'),
    "/teach/golden/withdraw": ('{"file": "good/a.png", "name": "Bob"}', '{"name": "Bob"}'),
    "/teach/rollback": ("{}", '{"to": NaN}'),
}
ACTIONS = {**OPERATORS, **SUPERVISORS}
READS = (
    "/",
    "/teach/state",
    "/teach/live.jpg",
    "/teach/live.mjpg",
    "/teach/empty.jpg",
    "/teach/pictures/good",
    "/teach/pictures/good/good-0001.png?width=200",
    "/teach/region",
    "/teach/judge",
    "/teach/maps/good-0001.png",
    "/screen",
    "/rejects?head=alarm-002",
    "/parts/0000000000001-000001.jpg",
    "/teach/alarms/alarm-001?width=100",
    "/teach/golden/bad/b.png?width=100",
    "/teach/marks",
    "/teach/parts",
    "/teach/parts/part-001?width=100",
    "/teach/missed",
    "/teach/missed/part-001?width=100",
    "/teach/history",
)


class Site:
    """A page over a fake project, and a client."""

    def __init__(self, *, token: str | None = OPERATOR, supervisor: str | None = SUPERVISOR):
        self.fake, self.errors = FakeTeach(), []
        for _ in range(2):
            self.fake.capture()
        self.fake.remove("good-0002.png")
        self.fake.running = "running"
        self.fake.calls.clear()
        access = Access(host="127.0.0.1", token=token, supervisor_token=supervisor)
        self.server = serve(
            self.fake, access, port=0, on_error=lambda *error: self.errors.append(error)
        )

    def ask(self, path: str, *, method: str = "GET", body: bytes | str | None = None, **headers):
        status, told, content = request(
            self.server.server_port, method, path, body=body, headers=headers
        )
        is_json = told.get("Content-Type") == "application/json"
        return status, json.loads(content) if is_json and content else content

    def act(self, path: str, body: bytes | str = "{}", *, token: str = SUPERVISOR, **headers):
        own = {"X_Edgeseg": "1", "Authorization": f"Bearer {token}", **headers}
        return self.ask(path, method="POST", body=body, **own)

    def begin(self, path: str, length: int) -> http.client.HTTPConnection:
        """An action whose body is still to be sent."""
        connection = http.client.HTTPConnection(
            "127.0.0.1", self.server.server_port, timeout=HANGS_S
        )
        connection.putrequest("POST", path)
        own = {"X-Edgeseg": "1", "Authorization": f"Bearer {SUPERVISOR}"}
        for name, value in {**own, "Content-Length": str(length)}.items():
            connection.putheader(name, value)
        connection.endheaders()
        return connection

    def read(self, path: str):
        return self.ask(path, Authorization=f"Bearer {OPERATOR}")


@pytest.fixture
def site() -> Iterator[Site]:
    started = Site()
    yield started
    started.server.stop()
    assert started.errors == []


def test_the_lists_of_this_file_are_complete() -> None:
    routes = routes_of(FakeTeach(), Access(host="127.0.0.1"))
    acting = {(route.path, route.role) for route in routes if route.method == "POST"}
    listed = {(path.partition("?")[0], "operator") for path in OPERATORS}
    assert acting == listed | {(path, "supervisor") for path in SUPERVISORS}
    reading = [route for route in routes if route.method == "GET" and not route.public]
    assert len(reading) == len(READS)


@pytest.mark.parametrize("path", READS)
def test_reads_need_a_token(site: Site, path: str) -> None:
    assert site.ask(path, method="HEAD")[0] == 401
    assert site.ask(path, method="HEAD", Authorization="Bearer nobody-knows-this")[0] == 401
    assert site.ask(path, method="HEAD", Authorization=f"Bearer {OPERATOR}")[0] == 200
    foreign = {"Sec_Fetch_Site": "cross-site", "Sec_Fetch_Mode": "no-cors"}
    assert site.ask(path, method="HEAD", Authorization=f"Bearer {OPERATOR}", **foreign)[0] == 401
    assert site.act(path)[0] == 404 or path in ACTIONS  # a region can be read and drawn


@pytest.mark.parametrize("path", ACTIONS)
def test_actions_need_a_token_our_page_and_a_post(site: Site, path: str) -> None:
    body = ACTIONS[path][0]
    own = {"X_Edgeseg": "1", "Authorization": f"Bearer {SUPERVISOR}"}
    for headers in (
        {},
        {"X_Edgeseg": "1"},
        {"X_Edgeseg": "1", "Authorization": "Bearer nobody-knows-this"},
        {"Authorization": f"Bearer {SUPERVISOR}"},
        {**own, "Origin": "http://evil.example"},
        {**own, "Origin": "null"},
        {**own, "Sec_Fetch_Site": "cross-site"},
        {**own, "Sec_Fetch_Site": "same-site"},
    ):
        assert site.ask(path, method="POST", body=body, **headers)[0] == 403
    address = path.partition("?")[0]
    with_token = f"{address}?token={SUPERVISOR}"  # an address may be linked to
    assert site.ask(with_token, method="POST", body=body, X_Edgeseg="1")[0] == 403
    known = site.ask(path, **own)[0]
    assert known == 404 or address in ("/teach/region", "/teach/missed")  # can be read, too
    assert site.fake.calls == []
    origin = f"http://127.0.0.1:{site.server.server_port}"
    assert site.act(path, body, Origin=origin)[0] == 200
    assert len(site.fake.calls) == 1


@pytest.mark.parametrize("path", ACTIONS)
def test_an_operator_may_mark_and_capture_and_no_more(site: Site, path: str) -> None:
    status, answer = site.act(path, ACTIONS[path][0], token=OPERATOR)
    if path in OPERATORS:
        assert status == 200
        return
    assert (status, answer["error"]) == (403, "this needs the supervisor's token")
    assert site.fake.calls == []


@pytest.mark.parametrize("path", ACTIONS)
def test_malformed_and_oversized_bodies_change_nothing(site: Site, path: str) -> None:
    wrong = ACTIONS[path][1]
    for body in [wrong] if wrong is not None else []:
        status, answer = site.act(path, body)
        assert status == 400
        assert answer["error"].startswith("expected ")
    if path in SUPERVISORS:
        unknown = json.dumps({**json.loads(ACTIONS[path][0]), "more": 1})
        assert site.act(path, unknown)[0] == 400
    size = MAX_UPLOAD if "upload" in path else web.MAX_REGION
    assert site.act(path, b" " * (size + 1))[0] == 400
    assert site.fake.calls == []


@pytest.mark.parametrize(
    "name",
    [
        *("..", "../project.toml", "..%2fproject.toml", "%2e%2e%2fproject.toml", "a/b.png"),
        *("a%5Cb.png", "C:x.png", "a%00.png", "a%20b.png", "%C3%A4.png", ".hidden", "a" * 101, ""),
    ],
)
def test_names_are_names_and_no_paths(site: Site, name: str) -> None:
    folders = ("pictures/good", "maps", "alarms", "parts", "missed")
    for address in (f"/teach/{folder}/{{}}" for folder in folders):
        status, answer = site.read(address.format(name))
        assert status == 404
        assert "error" in answer
    assert site.act(f"/teach/upload?name={name}", b"x")[0] == 409
    assert site.act("/teach/remove", json.dumps({"name": name}))[0] == 409
    said = {"alarm": name, "mark": "good"}
    assert site.act("/teach/mark", json.dumps(said))[0] == 409
    assert site.fake.calls == []


def test_kinds_are_known(site: Site) -> None:
    for path in ("/teach/pictures/fit", "/teach/pictures/feedback/x.png"):
        assert site.read(path)[0] == 404
    assert site.act("/teach/upload?name=a.png&kind=removed", b"x")[0] == 400
    assert site.act("/teach/upload?name=a.png&kind=fit", b"x")[0] == 404
    assert site.fake.calls == []


def test_what_was_asked_reaches_the_service(site: Site) -> None:
    site.act("/teach/upload?name=a.png&kind=bad", b"x" * 100_000)
    site.act("/teach/mark", OPERATORS["/teach/mark"][0], token=OPERATOR)
    site.act("/teach/mark", OPERATORS["/teach/mark"][0], token=SUPERVISOR)
    site.act("/teach/choose", '{"per_thousand": 5}')
    site.act("/teach/fit", '{"backbone": "resnet18"}')
    site.act("/teach/learn", SUPERVISORS["/teach/learn"][0])
    site.act("/teach/confirm", '{"name": "Bob"}')
    site.act("/teach/withdraw", OPERATORS["/teach/withdraw"][0], token=OPERATOR)
    assert site.fake.calls == [
        ("upload", "a.png", 100_000, "bad"),
        ("mark", "alarm-001", "good", "operator", "Ann"),
        ("mark", "alarm-001", "good", "supervisor", "Ann"),
        ("choose", 5.0, ""),
        ("start_fit", {"backbone": "resnet18"}),
        ("learn", "supervisor", "Ada", "shown"),
        ("confirm", "supervisor", "Bob"),
        ("withdraw", "alarm-001", "operator", "Ann", "operator", "Ann"),
    ]
    site.fake.calls.clear()
    for path in ("/teach/missed", "/teach/missed/withdraw"):
        site.act(path, OPERATORS[path][0], token=OPERATOR)
    outline = ((1.0, 2.0), (30.0, 2.0), (30.0, 40.0))
    assert site.fake.calls == [
        ("mark_missed", "part-001", "SN 001", (outline,), "scratch", "operator", "Ann"),
        ("withdraw_missed", "part-001", "operator", "Ann"),
    ]
    site.act("/teach/region", SUPERVISORS["/teach/region"][0])
    region = {"roi": [1, 2, 30, 40], "ignore": [[[1, 2], [3, 4], [5, 6]]], "locate": "none"}
    reference = {"name": "good-0001.png", "size": [320, 240], "kind": "good"}
    view = {"name": "good-0001.png", "size": [640, 480], "reference": reference}
    assert site.read("/teach/region") == (
        200,
        {**region, "drawn_on": "", "smallest": 0, "view": view},
    )


@pytest.mark.parametrize(
    "address", ["/teach/mark", "/teach/withdraw", "/teach/learn", "/teach/missed"]
)
@pytest.mark.parametrize("key", ["who", "role"])
def test_nobody_gives_himself_a_role(site: Site, address: str, key: str) -> None:
    body = json.dumps({**json.loads(ACTIONS[address][0]), key: "supervisor"})
    for token in (OPERATOR, SUPERVISOR):
        assert site.act(address, body, token=token)[0] in (400, 403)
    assert site.act(f"{address}?{key}=supervisor", ACTIONS[address][0], token=OPERATOR)[0] in (
        200,
        403,
    )
    assert all("supervisor" not in call for call in site.fake.calls)


def test_lists_are_given_in_parts(site: Site) -> None:
    whole = site.read("/teach/pictures/good")[1]
    assert (whole["total"], len(whole["items"])) == (1, 1)
    again = site.read(f"/teach/pictures/good?revision={whole['revision']}")[1]
    assert again == {"revision": whole["revision"], "unchanged": True}
    assert site.read("/teach/pictures/good?offset=1&most=5")[1]["items"] == []
    assert len(site.read("/rejects?most=2")[1]["items"]) == 2
    assert len(site.read("/rejects?most=-1")[1]["items"]) == 3  # no number: as many as there are


def test_keys_stand_beside_the_words_of_messages_and_change_nothing() -> None:
    begun, flag = Message("starting"), Message("flag_duplicate", name="a.png")
    facts = {
        "fit": {"state": "running", "sentence": begun},
        "held_back": ({"reason": begun}, {"reason": "rare"}),
        "why": 3,
        "flags": [flag],
        "lost": "",
        "names": [],
    }
    assert for_page(facts) == {
        "fit": {"state": "running", "sentence": str(begun), "sentence_said": begun.to_json()},
        "held_back": [{"reason": "starting", "reason_said": begun.to_json()}, {"reason": "rare"}],
        "why": 3,
        "flags": [str(flag)],
        "flags_said": [{"key": "flag_duplicate", "values": {"name": "a.png"}}],
        "lost": "",
        "names": [],
    }


def test_a_refusal_is_a_sentence(site: Site) -> None:
    site.fake.refusal = "2 good pictures, expected 4 or more; collect more"
    assert site.act("/teach/fit") == (409, {"error": site.fake.refusal})
    assert site.read("/teach/maps/none.png") == (404, {"error": "none.png: no map"})
    site.fake.refusal = Message("run_not")
    said = {"error": str(site.fake.refusal), "error_said": {"key": "run_not", "values": {}}}
    assert site.act("/teach/stop") == (409, said)
    site.fake.history = lambda **_: 1 / 0  # type: ignore[method-assign]
    assert site.read("/teach/history") == (500, {"error": "ZeroDivisionError"})


def test_one_picture_at_a_time_is_decoded(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uploads, "WAIT_S", 0.05)
    inside, go_on = threading.Event(), threading.Event()

    def slow(name: str, body: bytes, *, kind: str) -> dict[str, str]:
        inside.set()
        go_on.wait(HANGS_S)
        return {"name": name}

    site.fake.upload = slow  # type: ignore[method-assign]
    first = threading.Thread(target=site.act, args=("/teach/upload?name=a.png", b"x"))
    first.start()
    assert inside.wait(HANGS_S)
    status, answer = site.act("/teach/upload?name=b.png", b"x")
    assert (status, answer["error"]) == (503, "another picture is coming in; try again")
    go_on.set()
    first.join()
    assert site.act("/teach/upload?name=b.png", b"x")[0] == 200


def test_a_slow_upload_holds_nobody_up(site: Site) -> None:
    slow = site.begin("/teach/upload?name=slow.png", 100_000)
    slow.send(b"x" * 50_000)
    for name in ("a", "b", "c"):
        assert site.act(f"/teach/upload?name={name}.png", b"y" * 50_000)[0] == 200
    slow.send(b"x" * 50_000)
    assert slow.getresponse().status == 200
    slow.close()


def test_a_client_has_so_many_places_for_uploads(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(uploads, "WAIT_S", 0.05)
    monkeypatch.setattr(uploads, "PER_CLIENT", 1)
    slow = site.begin("/teach/upload?name=slow.png", 100_000)
    slow.send(b"x" * 50_000)
    while site.act("/teach/upload?name=a.png", b"y" * 50_000)[0] == 200:
        continue  # the slow one has not got its place yet
    slow.send(b"x" * 50_000)
    assert slow.getresponse().status == 200
    slow.close()
    assert site.act("/teach/upload?name=a.png", b"y" * 50_000)[0] == 200


def test_the_local_user_is_the_supervisor() -> None:
    site = Site(token=None, supervisor=None)
    try:
        assert site.ask("/teach/state")[1]["role"] == "supervisor"
        assert site.ask("/teach/fit", method="POST", body="{}", X_Edgeseg="1")[0] == 200
        refused = site.ask("/teach/fit", method="POST", body="{}", X_Edgeseg="1", Host="evil.test")
        assert refused[0] == 403
    finally:
        site.server.stop()


def test_state_says_who_is_asking(site: Site) -> None:
    state = site.read("/teach/state")[1]
    assert (state["project"], state["role"], state["roles"]) == ("line3", "operator", True)
    assert site.ask("/healthz") == (200, b"ok\n")


def test_others_on_the_network_need_a_token() -> None:
    with pytest.raises(UsageError, match="expected a token"):
        serve(FakeTeach(), Access(host="0.0.0.0"), port=0)
    assert "a-supervisors" not in repr(Access(host="127.0.0.1", supervisor_token=SUPERVISOR))
