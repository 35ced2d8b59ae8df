"""The alarms of the station: the camera's whole picture and its facts; the newest are kept.

alarms/ID.png, ID.json    written by a thread of its own; when it is behind, alarms are counted
                          and not kept, and the station goes on
"""

import json
import queue
import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from edgeseg.base.errors import EdgesegError, UsageError
from edgeseg.base.files import write_text
from edgeseg.base.messages import Message
from edgeseg.base.plain import Malformed, finite, parse_json, read_bounded, record
from edgeseg.base.progress import Note
from edgeseg.base.utc import utc_time
from edgeseg.decision.kinds import KindGuess
from edgeseg.decision.prediction import explanation_of
from edgeseg.decision.why import Why
from edgeseg.runtime.events.records import FrameResult
from edgeseg.teach.folder_list import FileEntry, FolderList
from edgeseg.teach.project import Box, check_picture_name
from edgeseg.vision.images import read_image, write_image

KEPT = 200
_WAITING = 8  # pictures in memory


@dataclass(frozen=True, kw_only=True)
class Alarm:
    """One part that was stopped."""

    id: str  # in the order of time
    when: str
    score: float | None  # None: the model gave no number
    p_value: float | None
    verdict: str
    threshold: float
    box: Box | None
    width: int
    height: int
    part: str = ""  # its serial number, or the name of its file
    kind: KindGuess | None = None  # of the region that is furthest above its threshold
    why: Why | None = None

    @property
    def explanation(self) -> Message | None:
        """Kind and reason in words; None where the model tells neither."""
        return explanation_of(self.kind, self.why)


def alarm_of(result: FrameResult) -> Alarm | None:
    """Make the alarm of a frame; None if it is not to be shown to people."""
    if not result.rejected:
        return None
    whole_hwc = result.frame_hwc if result.captured_hwc is None else result.captured_hwc
    largest = max(result.regions, key=lambda region: region.area_px, default=None)
    box = None
    if largest is not None:
        (x0, y0), (x, y, w, h) = result.roi_xy, largest.box_xywh
        box = (x + x0, y + y0, w, h)
    score, strongest = result.prediction.score, result.strongest
    return Alarm(
        id=result.key,
        when=utc_time(result.wall_s),
        score=finite(score),
        p_value=result.p_value,
        verdict=result.verdict,
        threshold=result.threshold_score,
        box=box,
        width=whole_hwc.shape[1],
        height=whole_hwc.shape[0],
        part=result.part_id or result.frame_name,
        kind=None if strongest is None else strongest.kind,
        why=None if strongest is None else strongest.why,
    )


def _is_alarm(name: str) -> bool:
    return name[:1].isdigit() and name.endswith(".json")  # not what is being written


class Alarms:
    """The folder of alarms; may be called from any thread."""

    def __init__(self, folder: Path, *, note: Note) -> None:
        self._folder, self._note = folder, note
        self._queue: queue.Queue[tuple[Alarm, NDArray[np.uint8]] | None] = queue.Queue(_WAITING)
        self.lost = 0
        self._list = FolderList(folder, is_ours=_is_alarm)
        self._known: dict[FileEntry, Alarm] = {}
        self._thread = threading.Thread(target=self._run, name="alarms", daemon=True)
        self._thread.start()

    def offer(self, result: FrameResult) -> None:
        """Queue the alarm of a result; called by the scoring thread, so it never waits."""
        alarm = alarm_of(result)
        if alarm is None:
            return
        whole_hwc = result.frame_hwc if result.captured_hwc is None else result.captured_hwc
        try:
            self._queue.put_nowait((alarm, whole_hwc))
        except queue.Full:
            self.lost += 1

    def ids(self) -> list[str]:
        """List the ids of all that are kept, the oldest first."""
        return [entry.name[:-5] for entry in self._list.listing().entries]

    def after(self, alarm_id: str, *, most: int = KEPT) -> list[Alarm]:
        """List the alarms after an id, the newest first; a file is read once."""
        return self.those([each for each in self.ids() if each > alarm_id][-most:][::-1])

    def those(self, alarm_ids: Sequence[str]) -> list[Alarm]:
        """List alarms by their ids, in this order, without those that are gone."""
        entries = {each.name[:-5]: each for each in self._list.listing().entries}
        found = {}
        for entry in (entries[each] for each in alarm_ids if each in entries):
            with suppress(UsageError):  # a newer one may just have taken its place
                found[entry] = self._known.get(entry) or self.find(entry.name[:-5])
        self._known = self._known | found if len(self._known) < 2 * KEPT else found
        return list(found.values())

    def find(self, alarm_id: str) -> Alarm:
        """Read an alarm by its id."""
        path = self._folder / f"{check_picture_name(alarm_id)}.json"
        try:
            return record(Alarm, parse_json(read_bounded(path)))
        except (OSError, Malformed):
            raise UsageError(Message("alarm_gone", name=alarm_id, n=KEPT)) from None

    def path(self, alarm_id: str) -> Path:
        """Path of an alarm's picture."""
        self.find(alarm_id)
        return self._folder / f"{alarm_id}.png"

    def picture(self, alarm_id: str) -> NDArray[np.uint8]:
        """Read the camera's whole picture, RGB."""
        return read_image(self.path(alarm_id))

    def settle(self) -> None:
        """Wait until all that was offered is written."""
        self._queue.join()

    def close(self) -> None:
        """Write what waits, and end the thread."""
        self._queue.put(None)
        self._thread.join(10.0)

    def _run(self) -> None:
        while (item := self._queue.get()) is not None:
            alarm, whole_hwc = item
            try:
                write_image(self._folder / f"{alarm.id}.png", whole_hwc)
                text = json.dumps(asdict(alarm), allow_nan=False)
                write_text(self._folder / f"{alarm.id}.json", text)  # last: now it is there
                self._forget_old()
            except (OSError, EdgesegError) as error:
                self.lost += 1
                self._note(f"alarm {alarm.id}: not kept ({error})")
            finally:
                self._queue.task_done()
        self._queue.task_done()

    def _forget_old(self) -> None:
        for entry in self._list.listing().entries[:-KEPT]:
            path = self._folder / entry.name
            path.unlink(missing_ok=True)
            path.with_suffix(".png").unlink(missing_ok=True)
