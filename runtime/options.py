"""The options of `edgeseg stream`, checked before anything is loaded."""

from dataclasses import dataclass, fields
from pathlib import Path

from edgeseg.errors import UsageError


@dataclass(frozen=True, kw_only=True)
class StreamOptions:
    """One field per command-line option, by the same name."""

    model: Path
    source: tuple[str, ...]
    backend: str = "auto"
    threads: int | None = None
    allow_random_weights: bool = False
    threshold: float | None = None
    policy: str | None = None
    queue_size: int = 8
    realtime: bool = False
    stall_timeout: float = 5.0
    roi: str | None = None
    tile: bool = False
    tile_overlap: float = 0.25
    debounce: str = "1/1"
    events: str | None = None
    events_for: str = "all"
    save: Path | None = None
    snapshots: Path | None = None
    snapshot_count: int = 1000
    snapshot_bytes: int = 1_000_000_000
    show: bool = False
    serve: int | None = None
    host: str = "127.0.0.1"
    token_file: Path | None = None
    recordings: Path = Path("recordings")
    stale_after: float = 10.0
    drift: bool = True
    report: Path | None = None
    status_every: float = 5.0
    duration: float | None = None
    max_frames: int | None = None

    def __post_init__(self) -> None:
        if not self.source:
            raise UsageError("no --source given; try --source 0 or --source synthetic:")
        positive = ("threads", "queue_size", "stall_timeout", "duration", "max_frames")
        for name in positive:
            value = getattr(self, name)
            if value is not None and value <= 0:
                raise UsageError(f"--{name.replace('_', '-')} {value}: expected more than 0")
        if not 0 <= self.tile_overlap < 1:
            raise UsageError(f"--tile-overlap {self.tile_overlap}: expected 0 or more, below 1")
        if self.report is not None and self.report.suffix != ".json":
            raise UsageError(
                f"--report {self.report}: expected a name ending in .json; the text goes beside it"
            )
        if self.serve is None and self.token_file is not None:
            raise UsageError("--token-file is for the page; add --serve PORT")

    def token(self) -> str | None:
        """The page's token, from a file: arguments are visible to everyone on the computer."""
        if self.token_file is None:
            return None
        try:
            return self.token_file.read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(f"--token-file {self.token_file}: cannot be read ({error})") from None


OPTION_NAMES = tuple(item.name for item in fields(StreamOptions))
