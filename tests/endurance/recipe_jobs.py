"""A recipe whose model is replaced: by a command, by going back, and under a running stream."""

import contextlib
import json
import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from edgeseg.base.errors import EdgesegError

_LONGEST_S = 60.0


def make_recipe_folder(folder: Path, model: Path, pictures: Path) -> None:
    """A recipe with two golden pictures, approved."""
    import shutil

    from edgeseg.base.progress import ignore
    from edgeseg.decision.threshold_bounds import FARTHEST
    from edgeseg.runtime.backends.model_file import file_metadata
    from edgeseg.runtime.backends.session_options import SessionOptions
    from edgeseg.runtime.recipes.approval import write_approval
    from edgeseg.runtime.recipes.golden_check import approve
    from edgeseg.runtime.recipes.open_judge import open_judge
    from edgeseg.runtime.recipes.recipe import DecisionSettings, Settings
    from edgeseg.runtime.recipes.store import make_recipe

    # So high that the golden pictures are good whatever the weights are, and still within the bound
    # for the next model, whose good scores are somewhat lower.
    highest = FARTHEST / 10 * file_metadata(model).good_scores.max
    settings = Settings(number=1, operating_point=DecisionSettings(threshold=highest))
    recipe = make_recipe(folder, model, settings)
    for picture in sorted(pictures.iterdir())[:2]:
        shutil.copy(picture, recipe.golden / "good" / picture.name)
    options = SessionOptions(backend="cpu", threads=1, allow_random_weights=True)
    with open_judge(recipe, options, note=ignore) as judge:
        write_approval(recipe, approve(judge))


def recipe_facts(folder: Path) -> list[Any]:
    """The model as a stream would open it; the approval and all kept versions can be read."""
    from edgeseg.base.files import file_sha256
    from edgeseg.runtime.backends.model_file import file_metadata
    from edgeseg.runtime.recipes.approval import read_approval
    from edgeseg.runtime.recipes.recipe import read_recipe
    from edgeseg.runtime.recipes.versions import versions_of

    recipe = read_recipe(folder)
    read_approval(recipe)
    kept = versions_of(recipe)
    if len(kept) != len(list((folder / "versions").glob("[0-9]*"))):
        raise ValueError("a version that is none")
    for path, version in kept:
        file_metadata(path / version.model)
        if file_sha256(path / version.model) != version.model_sha256:
            raise ValueError(f"{path.name}: another model than its version says")
    file_metadata(recipe.model)
    return [file_sha256(recipe.model)]


def is_approved(folder: Path) -> None:
    """What was approved is of the model that is there."""
    from edgeseg.base.files import file_sha256
    from edgeseg.runtime.recipes.approval import read_approval
    from edgeseg.runtime.recipes.recipe import read_recipe

    recipe = read_recipe(folder)
    if read_approval(recipe).model_sha256 != file_sha256(recipe.model):
        raise ValueError("the approval is of another model")


@contextlib.contextmanager
def replaced_model(folder: Path, model: Path, log: Path) -> Iterator[None]:
    """Beside a stream: replace the recipe's model once it runs, and end it when that is swapped."""
    from edgeseg.runtime.recipes import model_watch
    from edgeseg.runtime.recipes.recipe import read_recipe
    from edgeseg.runtime.recipes.versions import put_model

    model_watch.EVERY_S = 0.05
    seen = _events(log)

    def act() -> None:
        with contextlib.suppress(OSError, EdgesegError):  # no room: then the old one goes on
            _wait(log, {"frame"}, after=seen)
            put_model(read_recipe(folder), model)
            _wait(log, {"model_swapped", "model_refused"}, after=seen)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=act, daemon=True).start()
    yield


def _wait(log: Path, kinds: set[str], *, after: int) -> None:
    deadline_s = time.monotonic() + _LONGEST_S
    while time.monotonic() < deadline_s:
        with contextlib.suppress(OSError, ValueError):
            lines = log.read_text(encoding="utf-8").splitlines()[after:]
            if any(json.loads(line)["event"] in kinds for line in lines):
                return
        time.sleep(0.01)


def _events(log: Path) -> int:
    return len(log.read_text(encoding="utf-8").splitlines()) if log.exists() else 0
