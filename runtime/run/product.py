"""Open what a run inspects with: one model file, or a recipe of many."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from edgeseg.base.errors import RuntimeFailure, UsageError
from edgeseg.base.messages import Setting
from edgeseg.base.progress import Note
from edgeseg.runtime.backends.base import Session
from edgeseg.runtime.backends.choose import open_session
from edgeseg.runtime.backends.ran_versions import remember_ran
from edgeseg.runtime.recipes.changeover import ActiveRecipe, Changeover, LineContext
from edgeseg.runtime.recipes.model_watch import ModelWatch
from edgeseg.runtime.recipes.recipe import Recipe
from edgeseg.runtime.recipes.store import RecipeStore
from edgeseg.runtime.recipes.warm_sessions import WarmSessions
from edgeseg.runtime.scoring.scorer import ScorerConfig
from edgeseg.runtime.scoring.verdict import Debounce
from edgeseg.runtime.settings.options import StreamOptions
from edgeseg.vision.geometry import Roi

if TYPE_CHECKING:
    from edgeseg.runtime.run.line import Line
    from edgeseg.runtime.settings.sink_kinds import StreamRun


@dataclass(frozen=True, kw_only=True)
class Product:
    """A session and its settings; with recipes, also the store of the others."""

    session: Session
    scorer: ScorerConfig
    running: ActiveRecipe | None = None
    store: RecipeStore | None = None
    warm: WarmSessions | None = None

    @property
    def recipe_names(self) -> tuple[str, ...]:
        """The recipes to change to; none where one model file was given."""
        return () if self.store is None else tuple(each.name for each in self.store.recipes())


@contextmanager
def open_product(options: StreamOptions, *, note: Note) -> Iterator[Product]:
    """Open the model or recipe that the options name, and close it at the end."""
    opening = options.session()
    if options.recipes is None:
        with open_session(first_model(options)[1], opening, note=note) as session:
            if session.statement is not None:
                remember_ran(session.statement)
            yield Product(session=session, scorer=scorer_config(options))
        return
    store = RecipeStore(folder=options.recipes)
    recipe = first_recipe(store, options.recipe)
    warm = WarmSessions(opening, limit_mb=options.warm_mb, note=note)
    try:
        loaded = warm.take(recipe)
        recipe, model = loaded.recipe, loaded.model
        warm.keep(recipe.name, model)
        yield Product(
            session=model.session,
            scorer=recipe.scorer_config(),
            running=ActiveRecipe(recipe=recipe, model=model),
            store=store,
            warm=warm,
        )
    finally:
        warm.close()


def first_model(options: StreamOptions) -> tuple[str, Path]:
    """Return name and file of the model that the run begins with."""
    if options.recipes is not None:
        recipe = first_recipe(RecipeStore(folder=options.recipes), options.recipe)
        return recipe.name, recipe.model
    if options.model is None:
        raise UsageError(
            "no model given; add ", Setting("model", "FILE"), ", or ", Setting("recipes", "FOLDER")
        )
    return options.model.name, options.model


def first_recipe(store: RecipeStore, key: str | None) -> Recipe:
    """Return the requested recipe, or the only one there is."""
    recipes = store.recipes()
    names = ", ".join(recipe.name for recipe in recipes) or "none"
    if key is None:
        if len(recipes) != 1:
            raise UsageError(
                Setting("recipes", store.folder),
                f": {len(recipes)} there ({names}); say with which one to begin: ",
                Setting("recipe", "NAME"),
            )
        return recipes[0]
    found = store.find(key)
    if found is None:
        raise UsageError(Setting("recipe", key), f": expected one of {names}")
    return found


def scorer_config(options: StreamOptions) -> ScorerConfig:
    """Return the settings for cutting and judging frames where no recipe has them."""
    return ScorerConfig(
        roi=Roi.parse(options.roi) if options.roi else None,
        tile_overlap=options.tile_overlap if options.tile else None,
        threshold=options.threshold,
        min_area=options.min_area,
        debounce=Debounce.parse(options.debounce),
    )


class RecipeChanges:
    """Changeovers and the watch on model files, inside a `with` block; idle without recipes."""

    def __init__(self, product: Product, run: "StreamRun", line: "Line") -> None:
        self._triggered = line.triggered
        self.changeover: Changeover | None = None
        if product.store is None or product.warm is None or product.running is None:
            return
        around = LineContext(
            pipeline=run.pipeline,
            station=line.station,
            note=run.note,
            jobs=line.jobs,
        )
        self.changeover = Changeover(product.store, product.warm, product.running, around)
        self._watch = ModelWatch(self.changeover, product.warm, around)

    def __enter__(self) -> "RecipeChanges":
        if self.changeover is None:
            return self
        record = self.changeover.begin()
        if record is not None and not record.passed and not self._triggered:
            self.changeover.close()
            raise RuntimeFailure(f"golden check failed: {record.summary}; nothing is inspected")
        self._watch.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self.changeover is not None:
            self._watch.close()
            self.changeover.close()
