"""Post every result to a foreign address, signed, and try again a few times."""

import hashlib
import hmac
import json
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from http.client import HTTPException, HTTPMessage
from typing import IO

from edgeseg.base.errors import RuntimeFailure
from edgeseg.runtime.adapters.outbox import Outbox
from edgeseg.runtime.station.records import StationResult
from edgeseg.runtime.station.station import Station

QUEUED = 1000
TRIES = 4
SIGNATURE = "X-Edgeseg-Signature"  # sha256=HMAC of "TIMESTAMP.BODY"
TIMESTAMP = "X-Edgeseg-Timestamp"  # Unix seconds: an old message that is sent again can be refused
_TIMEOUT_S = 5.0
_FIRST_PAUSE_S = 0.5


def signature(secret: bytes, timestamp: str, body: bytes) -> str:
    """Compute the signature that the receiver computes too, and compares."""
    return (
        "sha256=" + hmac.new(secret, timestamp.encode() + b"." + body, hashlib.sha256).hexdigest()
    )


@dataclass(frozen=True, kw_only=True)
class FailedPost:
    """Why a result was not taken."""

    reason: str
    status: int | None = None  # of the answer; None: there was none

    @property
    def is_refusal(self) -> bool:
        """Whether the receiver says that the message itself is wrong."""
        return self.status is not None and 400 <= self.status < 500

    def __str__(self) -> str:
        return self.reason if self.status is None else f"{self.status} {self.reason}"


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A handler that follows no redirect: a signed result goes only to the given address."""

    def redirect_request(
        self,
        req: urllib.request.Request,
        fp: IO[bytes],
        code: int,
        msg: str,
        headers: HTTPMessage,
        newurl: str,
    ) -> None:
        """Do not follow."""


class Webhook:
    """An adapter that posts results in order, in its own thread."""

    name = "webhook"

    def __init__(
        self,
        station: Station,
        *,
        url: str,
        secret: bytes | None,
        on_error: Callable[[str, str], None],
    ) -> None:
        self._url, self._secret = url, secret
        self._on_error = on_error
        self._opener = urllib.request.build_opener(_NoRedirect)
        self._outbox = Outbox(self.name, self._send, size=QUEUED, on_error=on_error)
        station.events.subscribe(StationResult, self._outbox.put, name=self.name)

    def _send(self, result: StationResult) -> None:
        body = json.dumps(result.facts()).encode()
        pause_s = _FIRST_PAUSE_S
        for attempt in range(1, TRIES + 1):
            problem = self._post(body)
            if problem is None:
                return
            over = attempt == TRIES or self._outbox.closing.wait(pause_s)
            if over or problem.is_refusal:  # it will not want the same message later
                number = result.trigger.trigger_id
                raise RuntimeFailure(f"result {number} is not delivered ({problem})")
            self._on_error("webhook_retry", f"the receiver does not take a result ({problem})")
            pause_s *= 2

    def _post(self, body: bytes) -> FailedPost | None:
        """Post a result; return what is wrong, or None."""
        stamp = str(int(time.time()))
        headers = {"Content-Type": "application/json", TIMESTAMP: stamp}
        if self._secret is not None:
            headers[SIGNATURE] = signature(self._secret, stamp, body)
        request = urllib.request.Request(self._url, data=body, headers=headers, method="POST")
        try:
            with self._opener.open(request, timeout=_TIMEOUT_S):
                return None
        except urllib.error.HTTPError as error:
            error.close()
            return FailedPost(status=error.code, reason=str(error.reason))
        except (OSError, HTTPException) as error:
            away = isinstance(error, urllib.error.URLError)
            return FailedPost(reason="away" if away else type(error).__name__)

    def close(self) -> None:
        """Send the queued results, within a few seconds."""
        self._outbox.close()
