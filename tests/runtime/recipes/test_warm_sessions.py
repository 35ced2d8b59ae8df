"""Models that stay loaded, within their memory."""

from dataclasses import replace
from pathlib import Path

import pytest

from edgeseg.runtime.recipes import warm_sessions as module
from edgeseg.runtime.recipes.recipe import Recipe
from edgeseg.runtime.recipes.warm_sessions import LoadedRecipe, WarmModel, WarmSessions
from tests.support.brightness_model import brightness_metadata, write_brightness_model
from tests.support.recipe_folders import CPU, new_recipe

MB = 1_000_000


@pytest.fixture
def recipes(tmp_path: Path) -> list[Recipe]:
    return [
        new_recipe(tmp_path / name, number=number, approved=False)
        for number, name in enumerate("abc", start=1)
    ]


@pytest.fixture
def closed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the models whose sessions were closed; each counts as a megabyte."""
    names: list[str] = []

    def open_counted(self: WarmSessions, recipe: Recipe) -> LoadedRecipe:
        loaded = real(self, recipe)
        loaded.model.session.close = lambda: names.append(recipe.name)
        return replace(loaded, model=replace(loaded.model, bytes=MB))

    real = module.WarmSessions._open
    monkeypatch.setattr(module.WarmSessions, "_open", open_counted)
    return names


def use(warm: WarmSessions, recipe: Recipe) -> tuple[WarmModel, bool]:
    loaded = warm.take(recipe)
    warm.keep(recipe.name, loaded.model)
    return loaded.model, loaded.was_warm


def test_the_least_recently_used_goes_and_the_one_in_use_never(
    recipes: list[Recipe], closed: list[str]
) -> None:
    a, b, c = recipes
    warm = WarmSessions(CPU, limit_mb=2, note=lambda text: None)
    assert [use(warm, recipe)[1] for recipe in (a, b, a)] == [False, False, True]
    assert use(warm, c)[1] is False
    assert closed == ["b"]
    assert warm.names == ["a", "c"]
    assert use(warm, a)[1] is True
    warm.close()
    assert sorted(closed) == ["a", "b", "c"]


def test_a_model_larger_than_the_limit_runs_alone(recipes: list[Recipe], closed: list[str]) -> None:
    warm = WarmSessions(CPU, limit_mb=0.1, note=lambda text: None)
    for recipe in recipes:
        use(warm, recipe)
    assert (warm.names, closed) == (["c"], ["a", "b"])


def test_replaced_files_are_opened_anew(recipes: list[Recipe], closed: list[str]) -> None:
    warm = WarmSessions(CPU, limit_mb=9, note=lambda text: None)
    first, _ = use(warm, recipes[0])
    write_brightness_model(recipes[0].model, metadata=brightness_metadata(threshold=77.0))
    loaded = warm.take(recipes[0])
    second = loaded.model
    assert not loaded.was_warm
    assert second.session.metadata.threshold.score == 77.0
    assert closed == [], "the old one may be in use until it is replaced"
    warm.keep("a", second)
    assert closed == ["a"]
    assert first is not second


def test_what_is_not_taken_into_use_is_closed(recipes: list[Recipe], closed: list[str]) -> None:
    warm = WarmSessions(CPU, limit_mb=9, note=lambda text: None)
    warm.drop(warm.take(recipes[0]).model)
    assert (warm.names, closed) == ([], ["a"])
    kept, _ = use(warm, recipes[1])
    warm.drop(kept)
    assert closed == ["a"]


def test_a_real_model_costs_at_least_its_file(recipes: list[Recipe]) -> None:
    warm = WarmSessions(CPU, limit_mb=9, note=lambda text: None)
    model, _ = use(warm, recipes[0])
    assert model.bytes >= recipes[0].model.stat().st_size
    warm.close()
