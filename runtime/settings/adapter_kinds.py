"""Every kind of adapter: its options, and how it is made for a station.

    its own checked record of options -> make(line, record) -> an adapter, or None

A new adapter is its module and an entry in ADAPTERS; `edgeseg stream` then has its options. The
help reads this module, so an adapter is imported only when it is made.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar
from urllib.parse import urlsplit

from edgeseg.base.errors import UsageError
from edgeseg.base.messages import Setting
from edgeseg.base.options import FILE
from edgeseg.base.progress import Note
from edgeseg.base.typed_options import typed
from edgeseg.runtime.settings.trigger_kinds import add_software_trigger

if TYPE_CHECKING:
    from edgeseg.runtime.adapters.mqtt import BrokerAccess
    from edgeseg.runtime.station.station import Station

Record = TypeVar("Record")


class Adapter(Protocol):
    """A connection that triggers the station or passes its results on, in its own threads."""

    name: str  # short and fixed, e.g. "modbus": the key of its error counter

    def close(self) -> None:
        """Send the queued results, and release the connection."""


@dataclass(frozen=True, kw_only=True)
class LineRun:
    """The station and run that adapters are made for."""

    station: "Station"
    trigger: str  # a key of TRIGGERS
    timeout_s: float  # from a trigger to its result
    on_error: Callable[[str, str], None]
    note: Note


@dataclass(frozen=True, kw_only=True)
class AdapterKind(Generic[Record]):
    """An entry of ADAPTERS."""

    record: type[Record]  # of typed fields with defaults, which checks itself
    make: "Callable[[LineRun, Record], Adapter | None]"
    setting: Setting  # that asks for it, with the kind of its value: modbus=PORT
    group: str = "the line"  # of the help
    module: str | None = None  # that it needs, and that may not be here

    def needs(self, options: Record) -> Sequence[str]:
        """Return the modules that these options need."""
        asked = getattr(options, self.setting.name) is not None
        return (self.module,) if asked and self.module is not None else ()


ADAPTERS: dict[str, AdapterKind[Any]] = {}


def address(name: str, text: str) -> tuple[str, int]:
    """Parse `PORT` on this computer, or `HOST:PORT`."""
    host, _, port = text.rpartition(":")
    if not port.isdecimal() or int(port) > 65535:
        raise UsageError(
            Setting(name, repr(text)), ": expected PORT or HOST:PORT, such as 1502 or 0.0.0.0:1502"
        )
    return host.strip("[]") or "127.0.0.1", int(port)


@dataclass(frozen=True, kw_only=True)
class ModbusOptions:
    """Options of `modbus`."""

    modbus: str | None = typed(
        None,
        "Modbus TCP server for a PLC, on this computer unless a host is given.",
        metavar="[HOST:]PORT",
    )
    result_buffer: int = typed(16, "Results that may wait for a PLC's acknowledgement.")

    def __post_init__(self) -> None:
        if self.modbus is not None:
            address("modbus", self.modbus)
        if not 1 <= self.result_buffer <= 4096:
            raise UsageError(Setting("result_buffer", self.result_buffer), ": expected 1 to 4096")


def _modbus(line: LineRun, options: ModbusOptions) -> "Adapter | None":
    if options.modbus is None:
        return None
    from edgeseg.runtime.adapters.modbus import ModbusServer
    from edgeseg.runtime.adapters.modbus_face import ModbusFace

    face = ModbusFace(
        line.station,
        may_trigger=line.trigger == "modbus",
        capacity=options.result_buffer,
        on_error=line.on_error,
    )
    host, port = address("modbus", options.modbus)
    server = ModbusServer(face, host=host, port=port, on_error=line.on_error)
    line.note(f"modbus: {host}:{server.port}")
    return server


def read_secret(name: str, path: Path) -> str:
    """Read a secret from a file, since arguments are visible to everyone on the computer."""
    try:
        text = path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(Setting(name, path), f": cannot be read ({error})") from None
    if not text:
        raise UsageError(Setting(name, path), ": is empty")
    return text


@dataclass(frozen=True, kw_only=True)
class MqttOptions:
    """Options of `mqtt`."""

    mqtt: str | None = typed(
        None,
        "MQTT broker and prefix of the topics, such as mqtt://broker/plant/line3.",
        metavar="URL",
    )
    mqtt_user: str | None = typed(None, "User name at the MQTT broker.")
    mqtt_password_file: Path | None = typed(
        None, "File with the password of the MQTT broker.", kind=FILE
    )
    mqtt_ca: Path | None = typed(None, "File of certificates to trust, for mqtts://.", kind=FILE)

    def __post_init__(self) -> None:
        if self.mqtt is not None:
            self.broker()
        elif self.mqtt_user or self.mqtt_password_file or self.mqtt_ca:
            raise UsageError(
                "mqtt_user, mqtt_password_file and mqtt_ca need ", Setting("mqtt", "URL")
            )

    def broker(self) -> "BrokerAccess":
        """Return the address of the broker; the password is read here, when it is used."""
        from edgeseg.runtime.adapters.mqtt import BrokerAccess

        form = "mqtt://HOST[:PORT]/PREFIX, or mqtts:// with TLS"
        try:
            url = urlsplit(self.mqtt or "")
            host, port = url.hostname, url.port
        except ValueError:
            host, port = None, None
        prefix = url.path.strip("/") if host else ""
        if not host or not prefix or url.scheme not in ("mqtt", "mqtts") or set("#+") & set(prefix):
            raise UsageError(f"mqtt: expected {form}, such as mqtt://broker/plant/line3")
        if url.username or url.password:
            raise UsageError("mqtt: a user in the address; give mqtt_user and mqtt_password_file")
        tls = url.scheme == "mqtts"
        if self.mqtt_ca is not None and not tls:
            raise UsageError(Setting("mqtt_ca", self.mqtt_ca), ": is for mqtts://")
        file = self.mqtt_password_file
        return BrokerAccess(
            host=host,
            port=port or (8883 if tls else 1883),
            prefix=prefix,
            tls=tls,
            ca=self.mqtt_ca,
            user=self.mqtt_user,
            password=None if file is None else read_secret("mqtt_password_file", file),
        )


def _mqtt(line: LineRun, options: MqttOptions) -> "Adapter | None":
    if options.mqtt is None:
        return None
    from edgeseg.runtime.adapters.mqtt import MqttAdapter

    broker = options.broker()
    line.note(f"mqtt: {broker.host}:{broker.port}, topics {broker.prefix}/...")
    return MqttAdapter(
        line.station, broker, may_trigger=line.trigger == "mqtt", on_error=line.on_error
    )


@dataclass(frozen=True, kw_only=True)
class HttpOptions:
    """Options of `http`."""

    http: str | None = typed(
        None, "HTTP server for programs: POST /trigger and GET /result.", metavar="[HOST:]PORT"
    )
    http_token_file: Path | None = typed(
        None, "File with the token of --http; needed when other computers may call it.", kind=FILE
    )

    def __post_init__(self) -> None:
        if self.http is not None:
            address("http", self.http)
        elif self.http_token_file is not None:
            raise UsageError(
                Setting("http_token_file", self.http_token_file), ": add ", Setting("http", "PORT")
            )


def _http(line: LineRun, options: HttpOptions) -> "Adapter | None":
    if options.http is None:
        return None
    from edgeseg.runtime.adapters.http_service import HttpService

    host, port = address("http", options.http)
    file = options.http_token_file
    service = HttpService(
        line.station,
        host=host,
        port=port,
        token=None if file is None else read_secret("http_token_file", file),
        may_trigger=line.trigger == "http",
        wait_s=line.timeout_s + 1.0,
        on_error=line.on_error,
    )
    line.note(f"http: {host}:{service.port}")
    return service


@dataclass(frozen=True, kw_only=True)
class WebhookOptions:
    """Options of `webhook`."""

    webhook: str | None = typed(None, "Send every result to this address by POST.", metavar="URL")
    webhook_secret_file: Path | None = typed(
        None, "File with the key that signs what --webhook sends.", kind=FILE
    )

    def __post_init__(self) -> None:
        if self.webhook is not None and not self.webhook.startswith(("http://", "https://")):
            raise UsageError("webhook: expected an address with http:// or https://")
        if self.webhook is None and self.webhook_secret_file is not None:
            raise UsageError(
                Setting("webhook_secret_file", self.webhook_secret_file),
                ": add ",
                Setting("webhook", "URL"),
            )


def _webhook(line: LineRun, options: WebhookOptions) -> "Adapter | None":
    if options.webhook is None:
        return None
    from edgeseg.runtime.adapters.webhook import Webhook

    file = options.webhook_secret_file
    secret = None if file is None else read_secret("webhook_secret_file", file).encode()
    return Webhook(line.station, url=options.webhook, secret=secret, on_error=line.on_error)


@dataclass(frozen=True, kw_only=True)
class CommandOptions:
    """Options of `command`."""

    on_verdict: tuple[str, ...] = typed(
        (),
        "Run a program, without a shell, for every result with this verdict, or for any. "
        "May be given several times.",
        metavar="VERDICT=COMMAND",
    )
    command_timeout: float = typed(
        5.0, "Seconds after which the program of --on-verdict is killed."
    )

    def __post_init__(self) -> None:
        from edgeseg.runtime.adapters.command import parse_commands

        parse_commands(self.on_verdict)
        if not self.command_timeout > 0:
            raise UsageError(
                Setting("command_timeout", self.command_timeout), ": expected more than 0"
            )


def _command(line: LineRun, options: CommandOptions) -> "Adapter | None":
    if not options.on_verdict:
        return None
    from edgeseg.runtime.adapters.command import CommandAdapter, parse_commands

    return CommandAdapter(
        line.station,
        commands=parse_commands(options.on_verdict),
        timeout_s=options.command_timeout,
        on_error=line.on_error,
    )


@dataclass(frozen=True, kw_only=True)
class OpcUaOptions:
    """Options of `opcua`."""

    opcua: str | None = typed(
        None, "OPC UA server, with the names of OPC 40100-1.", metavar="[HOST:]PORT"
    )

    def __post_init__(self) -> None:
        if self.opcua is not None:
            address("opcua", self.opcua)


def _opcua(line: LineRun, options: OpcUaOptions) -> "Adapter | None":
    if options.opcua is None:
        return None
    from edgeseg.runtime.adapters.opcua import OpcUaAdapter

    host, port = address("opcua", options.opcua)
    adapter = OpcUaAdapter(
        line.station,
        host=host,
        port=port,
        may_trigger=line.trigger == "opcua",
        on_error=line.on_error,
    )
    line.note(f"opcua: {adapter.url}")
    return adapter


for _name, _record, _make, _setting, _module in (
    ("modbus", ModbusOptions, _modbus, Setting("modbus", "PORT"), None),
    ("mqtt", MqttOptions, _mqtt, Setting("mqtt", "URL"), "paho"),
    ("http", HttpOptions, _http, Setting("http", "PORT"), None),
    ("webhook", WebhookOptions, _webhook, Setting("webhook", "URL"), None),
    ("command", CommandOptions, _command, Setting("on_verdict", "VERDICT=COMMAND"), None),
    ("opcua", OpcUaOptions, _opcua, Setting("opcua", "PORT"), "asyncua"),
):
    ADAPTERS[_name] = AdapterKind(record=_record, make=_make, setting=_setting, module=_module)
for _name in ("modbus", "mqtt", "http", "opcua"):
    add_software_trigger(_name)
