"""`edgeseg teach`: a project from good pictures to a recipe that runs, by shell or by page."""

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from edgeseg.base.errors import DatasetError, EdgesegError, RuntimeFailure, UsageError
from edgeseg.base.messages import Sentence, Setting
from edgeseg.base.options import (
    FILE,
    PATH,
    RegistryName,
    command_line,
    listeners,
    quiet_option,
    trust_option,
)
from edgeseg.base.progress import Note
from edgeseg.base.tables import align_columns
from edgeseg.base.typed_options import same_as, takes, typed
from edgeseg.cli.fit_settings import FitSettings
from edgeseg.cli.needs import command_name
from edgeseg.config import FitConfig
from edgeseg.model.backbones import BACKBONES
from edgeseg.modelfile.signature import admit
from edgeseg.teach.pictures import Limits
from edgeseg.vision.ignored import read_regions
from edgeseg.vision.picture_size import MAX_PIXELS
from edgeseg.vision.unreadable import unreadable_error

if TYPE_CHECKING:
    from edgeseg.teach.project import Project
    from edgeseg.teach.service import TeachService

_SHOWN = (1, 2, 5, 10, 20, 50, 100)  # false alarms in a thousand
_WORST = 8
_POLL_S = 0.2


@dataclass(frozen=True, kw_only=True)
class TeachWishes:
    """Settings of a project that were typed; None leaves the stored one."""

    source: str | None = typed(None, "Camera, folder or address, as for `edgeseg stream`.")
    trigger: Literal["free", "part", "hardware"] | None = typed(
        None, "What makes a frame a part when it runs.  [default: free]"
    )
    rate: float | None = typed(
        None, "Share of good parts that may be called defective.  [default: 0.02]"
    )
    roi: str | None = typed(None, "Look only at this rectangle of the pictures.", metavar="X,Y,W,H")
    ignore: Path | None = same_as(FitSettings, "ignore")
    locate: str | None = typed(
        None,
        "Find the part first: blob, or anchor:X,Y,W,H[,angles=10], as for `edgeseg fit`.",
        metavar="HOW",
    )
    backbone: str | None = typed(
        None, f"Network to use.  [default: {FitConfig.backbone}]", kind=RegistryName(BACKBONES)
    )
    graph: Path | None = typed(
        None,
        "File of `edgeseg export-backbone` to compute with.  [default: one at hand]",
        kind=FILE,
    )


@dataclass(frozen=True, kw_only=True)
class PageWish:
    """Options of the page: address and tokens. Without a port there is no page."""

    serve: int | None = typed(
        None, "Port of the page, such as 8080.", kind=click.IntRange(0, 65535)
    )
    host: str = typed("127.0.0.1", "Address of the page.")
    token_file: Path | None = typed(
        None, "File with the token of operators, who may watch, capture and mark.", kind=FILE
    )
    supervisor_token_file: Path | None = typed(
        None,
        "File with the token of supervisors, who may do all that changes a decision. Without it "
        "operators may do that too.",
        kind=FILE,
    )

    def __post_init__(self) -> None:
        for name in ("token_file", "supervisor_token_file"):
            if self.serve is None and getattr(self, name) is not None:
                raise UsageError(
                    Setting(name, getattr(self, name)),
                    ": is for the page; add ",
                    Setting("serve", "PORT"),
                )


@click.command()
@click.argument("folder", metavar="[PROJECT]", type=PATH, required=False)
@click.option("--project", type=PATH, help="Folder of the project, instead of PROJECT.")
@click.option("--good", type=PATH, help="Pictures of good parts: a folder, or a pattern.")
@click.option(
    "--bad", type=PATH, help="Pictures of bad parts: they show what is found, and are not fitted."
)
@takes("wishes", TeachWishes)
@takes("page", PageWish)
@click.option(
    "--max-pixels",
    type=click.IntRange(1, MAX_PIXELS),
    default=Limits.pixels,
    show_default=True,
    help="Most pixels of a picture, as its header says; a larger one is not taken.",
)
@trust_option
@quiet_option
def teach(
    folder: Path | None,
    project: Path | None,
    good: Path | None,
    bad: Path | None,
    wishes: TeachWishes,
    page: PageWish,
    max_pixels: int,
    trust: tuple[Path, ...],
    quiet: bool,
) -> None:
    """Go from good pictures to a station that runs: collect, fit, judge, make the recipe.

    PROJECT is a folder of plain files; it is made where there is none, and what is typed once stays
    in its project.toml. Sixty good parts are a good beginning.

    With --trust the station runs nothing unsigned, its own work included: what was taught here
    waits until its recipe is signed, and learning goes on from a signed one.

    \b
    edgeseg teach line3 --good photos/
    edgeseg teach line3 --good photos/ --bad rejects/ --rate 0.005 --roi 200,80,900,700
    edgeseg teach line3 --rate 0.01                          fit again, with what is there
    edgeseg teach --source 0 --project line3 --serve 8080    the same on a page
    """
    where = folder or project
    if where is None or (folder is not None and project is not None):
        raise UsageError("which project? Give one folder, such as `edgeseg teach line3 --good DIR`")

    from edgeseg.teach.project import Project

    note = listeners(quiet=quiet)[0]
    begun = Project.open_or_create(where)
    _store(begun, wishes)
    _check_can_fit(begun, note, page=page)
    with open_service(begun, note=note, trust=trust, max_pixels=max_pixels) as service:
        for kind, pictures in (("good", good), ("bad", bad)):
            if pictures is not None:
                note(_collect(service, pictures, kind))
        if page.serve is None:
            _teach(service, note)
            _say_unsigned(begun, trust, note)
        else:
            _serve_page(service, page, note)


def _check_can_fit(project: "Project", note: Note, *, page: PageWish) -> None:
    """Say what a fit lacks here before pictures are collected for it.

    What runs already goes on running by its page, wherever it was taught.
    """
    from edgeseg.fitting.graph.known_graphs import check_through_graph
    from edgeseg.teach.fit_job import graph_of

    settings = project.settings()
    graph = graph_of(settings)
    try:
        check_through_graph(command_name(), settings.config(), graph)
        if graph is not None:
            from edgeseg.fitting.graph.backbone_graph import read_facts

            read_facts(graph)
    except EdgesegError as error:
        if page.serve is None or not project.recipe.is_dir():
            raise
        note(str(Sentence("what was taught can run, and nothing new be fitted: ", error)))


def _teach(service: "TeachService", note: Note) -> None:
    """Fit, judge and make the recipe."""
    _say_flags(service, note)
    service.start_fit({})
    note(follow(service, "fit", note=note))
    click.echo("\n".join(judgement_lines(service.judge())))
    made, project = service.install(), service.project
    note(f"golden pictures: {made['golden']}")
    stream = ("stream", "--recipes", project.recipes, "--source")
    following = command_line(*stream, project.settings().source or "0")
    note(f"wrote {made['recipe']}; next: {following}")


def _say_unsigned(project: "Project", trust: tuple[Path, ...], note: Note) -> None:
    """Say why a station that asks for signatures would refuse the recipe."""
    try:
        admit(project.recipe, trust)
    except RuntimeFailure as error:
        note(f"it does not run here yet: {error}")


def _serve_page(service: "TeachService", page: PageWish, note: Note) -> None:
    """Serve the page until the process is stopped."""
    from edgeseg.runtime.web.access import Access, token_in
    from edgeseg.teach.web import serve

    access = Access(
        host=page.host,
        token=token_in(page.token_file),
        supervisor_token=token_in(page.supervisor_token_file, setting="supervisor_token_file"),
    )
    server = serve(
        service, access, port=page.serve or 0, on_error=lambda name, text: note(f"{name}: {text}")
    )
    ended = threading.Event()
    before = signal.signal(signal.SIGTERM, lambda number, frame: ended.set())
    try:
        service.open_camera()
        note(f"open {server.url} in a browser; end with Ctrl-C")
        while not ended.wait(1.0):  # a wait without an end would not hear Ctrl-C everywhere
            pass
    except KeyboardInterrupt:
        note("ended")
    finally:
        signal.signal(signal.SIGTERM, before)
        server.stop()


@contextmanager
def open_service(
    project: "Project",
    *,
    note: Note,
    trust: tuple[Path, ...] = (),
    max_pixels: int = Limits.pixels,
) -> "Iterator[TeachService]":
    """Open the service that the page calls too; work under way ends when it closes."""
    from edgeseg.teach.service import TeachService

    service = TeachService(project, note=note, limits=Limits(pixels=max_pixels), trust=trust)
    try:
        yield service
    finally:
        service.close()


def follow(service: "TeachService", work: str, *, note: Note) -> str:
    """Wait for a fit or for learning; return its last sentence, or raise its failure."""
    said, told_s = "", time.monotonic()
    while (now := service.state()[work])["state"] == "running":
        if now["sentence"] != said and time.monotonic() - told_s > 2:
            said, told_s = now["sentence"], time.monotonic()
            note(f"{now['share']:>4.0%} {said}")
        time.sleep(_POLL_S)
    if now["state"] != "done":
        raise EdgesegError(str(now["sentence"]))
    return str(now["sentence"])


def _store(project: "Project", wishes: TeachWishes) -> None:
    """Store the typed settings in the project."""
    said = {name: value for name, value in asdict(wishes).items() if value is not None}
    settings = project.settings()
    region = {name: said.pop(name) for name in ("roi", "ignore", "locate") if name in said}
    if "ignore" in region:
        region["ignore"] = read_regions(region["ignore"])
    if "graph" in said:
        said["graph"] = str(said["graph"].resolve())
    changed = replace(settings, **said, region=replace(settings.region, **region))
    if changed != settings:
        project.store(changed)


def _collect(service: "TeachService", pictures: Path, kind: Any) -> str:
    """Copy pictures into the project, except those that it has or that were removed from it."""
    from edgeseg.runtime.capture.image_files import image_paths
    from edgeseg.teach.pictures import StaysOutError

    try:
        paths = image_paths(str(pictures))
    except UsageError as error:
        raise UsageError(error.text(lambda setting: f"--{kind} {setting.value}")) from None
    before, out = service.count(kind), []
    faults: list[EdgesegError] = []
    for path in paths:
        try:
            service.upload(path.name.lstrip("."), path.read_bytes(), kind=kind, again=False)
        except StaysOutError:
            out.append(path.name)
        except DatasetError as error:
            faults.append(error)
    if faults:
        advice = ["; repair or remove ", "it" if len(faults) == 1 else "them"]
        raise unreadable_error(faults, of=len(paths), advice=advice)
    told = f"{service.count(kind) - before} of {len(paths)} {kind} pictures are new"
    if not out:
        return told
    names = ", ".join(out[:_WORST]) + ", ..." * (len(out) > _WORST)
    stay = "stays" if len(out) == 1 else "stay"
    return f"{told}; {len(out)} removed before {stay} out (see removed/): {names}"


def _say_flags(service: "TeachService", note: Note) -> None:
    for item in service.every_picture("good"):
        for flag in item["flags"]:
            note(f"good/{item['name']}: {flag}")


def judgement_lines(judged: dict[str, Any]) -> Iterator[str]:
    """Write what each rate costs, the worst good pictures, and which bad ones are found."""
    rows = [("of 1000", "threshold", "promised", "planted found", "bad found")]
    for row in judged["table"]:
        here = row["per_thousand"] == judged["chosen"]
        if here or row["per_thousand"] in _SHOWN:
            rows.append(
                (
                    f"{row['per_thousand']:g}{' *' if here else ''}",
                    f"{row['threshold']:.4f}",
                    "yes" if row["kept"] else "too few",
                    _share(row["planted_found"]),
                    _share(row["bad_found"]),
                )
            )
    yield from align_columns(rows)
    yield from str(judged["sentence"]).split("; ")
    chosen = next(row for row in judged["table"] if row["per_thousand"] == judged["chosen"])
    if chosen["warning"] is not None:
        yield f"warning: {chosen['warning']}"
    yield "good pictures with the highest scores; look at them, and remove what is not good:"
    for item in judged["worst"][:_WORST]:
        without = item["threshold_without"]
        marks = (
            (f"threshold {without or 0:.4f} without it and the higher ones", without is not None),
            ("looks like no other", item["foreign"]),
        )
        said = ", ".join(words for words, holds in marks if holds)
        yield f"  {item['score']:.4f}  good/{item['name'] or '?'}  {said}".rstrip()
    missed = [item["name"] for item in judged["bad"] if not item["found"]]
    if judged["bad"]:
        found = len(judged["bad"]) - len(missed)
        names = f"; missed: {', '.join(missed[:_WORST])}" if missed else ""
        yield f"{found} of {len(judged['bad'])} bad pictures are found{names}"


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.0%}"
