"""A line that begins with one recipe of a folder, and what tests do with it."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from edgeseg.base.progress import ignore
from edgeseg.runtime.recipes.changeover import ActiveRecipe
from edgeseg.runtime.recipes.store import RecipeStore
from edgeseg.runtime.recipes.warm_sessions import WarmSessions
from edgeseg.runtime.run.product import Product
from edgeseg.runtime.station.records import StationResult
from tests.doubles.rig import Rig
from tests.support.recipe_folders import CPU

LEVEL = 150  # of the camera's frames: good for `high`, a defect for `low`


@contextmanager
def line(
    folder: Path,
    *,
    first: str = "high",
    trust: tuple[Path, ...] = (),
    sinks: bool = False,
    picture: NDArray[np.uint8] | None = None,
    **values: object,
) -> Iterator[Rig]:
    """A line that is triggered by the test and begins with one recipe."""
    store = RecipeStore(folder=folder)
    opening = replace(CPU, trust=trust)
    warm = WarmSessions(opening, limit_mb=500.0, note=ignore)
    recipe = store.find(first)
    assert recipe is not None
    loaded = warm.take(recipe)
    recipe, model = loaded.recipe, loaded.model
    warm.keep(recipe.name, model)
    product = Product(
        session=model.session,
        scorer=recipe.scorer_config(),
        running=ActiveRecipe(recipe=recipe, model=model),
        store=store,
        warm=warm,
    )
    options = {"trigger": "modbus", "modbus": "0", **values}
    rig = Rig(session=model.session, values=options, product=product, sinks=sinks)
    rig.camera.level, rig.camera.picture = LEVEL, picture
    try:
        with rig:
            rig.wait(lambda: rig.station.current_job.name == first, "the first recipe")
            yield rig
    finally:
        warm.close()


def inspect(rig: Rig) -> tuple[str, str]:
    """Trigger once: the recipe and the verdict of the answer."""
    event = rig.station.trigger(origin="test")

    def results() -> list[StationResult]:
        return [each for each in rig.results if each.trigger.trigger_id == event.trigger_id]

    rig.wait(lambda: bool(results()), "a result")  # which comes after the station has ended it
    (result,) = results()
    return result.trigger.job.name, result.verdict


@contextmanager
def triggering(rig: Rig) -> Iterator[None]:
    """Trigger without a pause from two threads; at the end no trigger waits for its result."""
    stop = threading.Event()

    def trigger() -> None:
        while not stop.wait(0.002):
            rig.station.trigger(origin="test")

    threads = [threading.Thread(target=trigger) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    rig.wait(lambda: not rig.station.busy, "the last results")


def wait_for_results(rig: Rig) -> None:
    """Wait for several results more than there are."""
    seen = len(rig.results)
    rig.wait(lambda: len(rig.results) > seen + 5, "results")


def change(rig: Rig, key: int | str, name: str) -> None:
    assert rig.station.load_job(key)
    rig.wait(lambda: not rig.station.status().job_loading, "the recipe")
    assert rig.station.current_job.name == name, rig.station.status().reason
