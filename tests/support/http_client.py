"""A client for the servers of the tests: requests, and bytes that are none."""

import http.client
import json
import socket
from collections.abc import Mapping
from typing import Any

from tests.doubles.rig import Rig
from tests.support import HANGS_S


def request(
    port: int,
    method: str,
    path: str,
    *,
    body: bytes | str | None = None,
    headers: Mapping[str, str],
) -> tuple[int, dict[str, str], bytes]:
    """Send one request: status, headers and body of the answer; `_` in a name stands for `-`."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=HANGS_S)
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    connection.request(method, path, body=body, headers=names)
    answer = connection.getresponse()
    content = answer.read()
    connection.close()
    return answer.status, dict(answer.getheaders()), content


def ask(
    line: Rig, method: str, path: str, body: object = None, headers: dict[str, str] | None = None
) -> tuple[int, Any]:
    """Ask the HTTP service of a line: the status, and the JSON of its answer."""
    text = body if isinstance(body, str) else json.dumps(body if body is not None else {})
    own = {"X-Edgeseg": "1"} | (headers or {})
    sent = text if method == "POST" else None
    status, _, content = request(line.adapter("http").port, method, path, body=sent, headers=own)
    return status, json.loads(content)


def send_raw(port: int, data: bytes) -> bytes:
    """Send bytes and no more: all that is answered until the server hangs up."""
    with socket.create_connection(("127.0.0.1", port), timeout=HANGS_S) as client:
        client.sendall(data)
        client.shutdown(socket.SHUT_WR)
        return b"".join(iter(lambda: client.recv(4096), b""))
