"""Run asyncua's server with our rules: no client changes a node, and each call knows its age.

The library lets a user called "admin" do everything, whatever the password, and lets everyone
write what a node allows. Here everyone is the same user, who may read, subscribe and call methods.
The library handles the messages of a connection one after another. Each is stamped on arrival,
since a call that waits is as old as its message.
"""

import asyncio
import time
from contextvars import ContextVar
from typing import Any

WAITING = 64  # messages of a connection; one that sends more is closed
MAX_CLIENTS = 32
ALLOWED = (
    *("CreateSession", "ActivateSession", "CloseSession", "CloseSecureChannel"),
    *("GetEndpoints", "FindServers", "Read", "Browse", "BrowseNext", "HistoryRead"),
    *("TranslateBrowsePathsToNodeIds", "RegisterNodes", "UnregisterNodes", "Call"),
    *("CreateSubscription", "ModifySubscription", "DeleteSubscriptions", "TransferSubscriptions"),
    *("CreateMonitoredItems", "ModifyMonitoredItems", "DeleteMonitoredItems"),
    *("SetMonitoringMode", "SetPublishingMode", "Publish", "Republish"),
)
_came_ns: ContextVar[int | None] = ContextVar("came_ns", default=None)


def came_ns() -> int:
    """Return when the message of the current call arrived."""
    stamped = _came_ns.get()
    return time.monotonic_ns() if stamped is None else stamped


class _Users:
    """A user manager that gives everyone the same user; there is no password to check."""

    def __init__(self, user: Any) -> None:
        self._user = user

    def get_user(
        self, iserver: Any, username: Any = None, password: Any = None, certificate: Any = None
    ) -> Any:
        """Return the one user, who is never an administrator."""
        return self._user


class _Rules:
    """The services that change nothing; adding, deleting and writing are not among them."""

    def __init__(self, ua: Any) -> None:
        names = (f"{name}Request_Encoding_DefaultBinary" for name in ALLOWED)
        self._allowed = {ua.NodeId(getattr(ua.ObjectIds, name)) for name in names}

    def check_validity(self, user: Any, action_type_id: Any, body: Any) -> bool:
        """Whether a request may be made."""
        return action_type_id in self._allowed


class _StampedMessages(asyncio.Queue[Any]):
    """The messages of one connection, each with its time of arrival."""

    def _put(self, item: Any) -> None:
        super()._put((time.monotonic_ns(), item))

    def _get(self) -> Any:
        came, item = super()._get()
        _came_ns.set(came)  # for the task of this connection, and what it calls
        return item


def make_server() -> Any:
    """Make a server whose nodes only the station changes."""
    import asyncua
    from asyncua.crypto.permission_rules import User, UserRole
    from asyncua.server.server import Server

    class StationServer(Server):
        """A server whose connections stamp their messages."""

        @property
        def bserver(self) -> Any:
            """The listening part; the library makes it at the start, and it listens at once."""
            return self._listens

        @bserver.setter
        def bserver(self, made: Any) -> None:
            self._listens = made
            if made is not None:
                made._make_protocol = lambda: _stamping_protocol(made)

    ua: Any = asyncua.ua
    users: Any = _Users(User(role=UserRole.User))
    rules: Any = _Rules(ua)
    server: Any = StationServer(user_manager=users)
    server.allow_remote_admin(False)
    server.set_security_policy([ua.SecurityPolicyType.NoSecurity], permission_ruleset=rules)
    server.iserver.max_connections = MAX_CLIENTS

    def refuse(params: Any, conf: Any = None) -> None:
        raise ua.uaerrors.BadUserAccessDenied

    # Before a session there is no user whom the rules could be asked for.
    server.iserver.register_server = server.iserver.register_server2 = refuse
    return server


def _stamping_protocol(made: Any) -> Any:
    protocol = type(made)._make_protocol(made)
    protocol.messages = _StampedMessages(WAITING)
    return protocol
