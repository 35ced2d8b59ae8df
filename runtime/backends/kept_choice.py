"""Keep the threshold and regions that were chosen for a model file when it is written again.

    earlier file --earlier_choice--> EarlierFile --carry_to--> the sidecar of the new file

A threshold, a band, a calibration and ignored regions are chosen on the scores of good images that
the graph carries. If the new file carries exactly the same scores, the choice stays. Otherwise it
is another model, and a note says how to choose again.
"""

from dataclasses import dataclass
from pathlib import Path

from edgeseg.base.errors import EdgesegError
from edgeseg.base.files import write_json
from edgeseg.base.messages import Sentence
from edgeseg.base.progress import Note
from edgeseg.modelfile.metadata import Decision, ModelMetadata
from edgeseg.runtime.backends.model_file import file_metadata
from edgeseg.runtime.backends.onnx_properties import property_text

# What a choice rests on. Batch and outputs may differ: the same frame has the same score.
_BASIS = (
    "threshold",
    "good_scores",
    "drift",
    "planted_scores",
    "calibrated_in",
    "precision",
    "target",
    "geometry",
    "camera_hw",
    "rule",
    "tiles",
    "grid_hw",
    "k",
    "rank",
    "backbone",
)


@dataclass(frozen=True, kw_only=True)
class EarlierFile:
    """The file that had the name before, with a choice in its sidecar."""

    model: Path
    made: ModelMetadata  # as it was exported
    chosen: ModelMetadata  # as it runs

    def carry_to(self, new: ModelMetadata, *, note: Note) -> ModelMetadata:
        """Return the new file's metadata, with the choice if it still holds; a note says which."""
        last = self.chosen.history[-1]
        if all(getattr(self.made, name) == getattr(new, name) for name in _BASIS):
            note(
                f"what was chosen of {self.model.name} stays: threshold "
                f"{self.chosen.threshold.score:.4f} ({last.action}, {last.when}); an export under "
                "another name starts anew"
            )
            return new.with_decisions(self.chosen)
        commands = commands_to_choose_again(self.chosen, self.model, regions=self._write_regions())
        note(
            f"{self.model.name} is another model now: its threshold "
            f"{self.chosen.threshold.score:.4f} ({last.action}, {last.when}) is replaced by "
            f"{new.threshold.score:.4f} of this export; to choose as before: {commands}"
        )
        return new

    def _write_regions(self) -> Path | None:
        """Write the ignored regions to a file for --mask; return None if there are none."""
        if not self.chosen.ignored_here:
            return None
        path = self.model.with_name(f"{self.model.stem}.ignored.json")
        write_json(path, {"polygons": self.chosen.ignored_here})
        return path


def earlier_choice(model: Path, *, note: Note) -> EarlierFile | None:
    """Read what was chosen for the file that has this name now; None if nothing was."""
    if not model.is_file():
        return None
    try:
        chosen = file_metadata(model)
        text = property_text(model)
        if not chosen.history or text is None:
            return None
        made = ModelMetadata.from_json(text, source=str(model))
    except EdgesegError as error:
        note(Sentence(f"what was chosen of the earlier {model.name} is not kept: ", error))
        return None
    return EarlierFile(model=model, made=made, chosen=chosen)


def commands_to_choose_again(chosen: ModelMetadata, model: Path, *, regions: Path | None) -> str:
    """Return the commands that make the same choice for another model."""
    commands = []
    if regions is not None:
        commands.append(f"edgeseg ignore {model} --mask {regions}")
    numbers = [line for line in chosen.history if line.action != "ignore"]
    if numbers:
        commands.append(_command(numbers[-1], chosen, model))
    return "; ".join(f"`{command}`" for command in commands)


def _command(line: Decision, chosen: ModelMetadata, model: Path) -> str:
    stored = chosen.threshold
    if line.action == "calibrate":
        backend = f" --backend {chosen.calibrated_in}" if chosen.calibrated_in else ""
        return f"edgeseg calibrate {model} GOOD_IMAGES --rate {stored.requested_rate:g}{backend}"
    wish = f"--value {stored.score:.6g}" if line.rate is None else f"--rate {line.rate:g}"
    band = "" if stored.unsure_rate is None else f" --unsure-rate {stored.unsure_rate:g}"
    return f"edgeseg threshold {model} {wish}{band}"
