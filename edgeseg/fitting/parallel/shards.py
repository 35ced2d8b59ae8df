"""Shards: moments of a part of the images as a file, for jobs without a network."""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from numpy.typing import NDArray
from safetensors import safe_open

from edgeseg.base.errors import ArtefactError, UsageError
from edgeseg.base.messages import Setting
from edgeseg.base.plain import JsonObject, Malformed, record
from edgeseg.config import FitConfig
from edgeseg.data.datasets import Dataset
from edgeseg.fitting.checkpoint import Collected, describe_pass, difference
from edgeseg.fitting.embedding_store import EmbeddingStore
from edgeseg.fitting.feature_space import FeatureSpace, check_size, largest_stride
from edgeseg.fitting.fitting import describe_data, finish, share_facts
from edgeseg.fitting.image_pass import collect, split
from edgeseg.fitting.options import FitOptions, Shard
from edgeseg.fitting.spaces import settle_geometry
from edgeseg.model.artefact import WRONG_VALUES, Artefact, stored_weights, under, write_tensors
from edgeseg.model.backbones import embedded_features
from edgeseg.model.moments import Moments
from edgeseg.model.weights_origin import WeightsOrigin
from edgeseg.modelfile.container import read_container
from edgeseg.modelfile.header import stored_config, unless_memory
from edgeseg.modelfile.history import FittedData
from edgeseg.modelfile.tensor_checks import check_values
from edgeseg.vision.appearance import GoodAppearance
from edgeseg.vision.part_groups import GreyCopies

SCHEMA = 2
KEY = "edgeseg-shard"
_STORES = ("seen", "unseen")


@dataclass(frozen=True, kw_only=True)
class ShardHeader:
    """The header of a shard."""

    schema: int
    shard: tuple[int, int]  # index, count
    config: JsonObject
    weights: WeightsOrigin
    sweep: JsonObject  # what has to be equal for shards to be parts of one fit
    origin: FittedData
    bad: tuple[str, ...]
    newest: float
    seen: tuple[int, ...]  # places of the images in the whole list
    unseen: tuple[int, ...]
    names: dict[str, tuple[str, ...]]
    appearance: GoodAppearance
    prints: tuple[int, ...]

    def __post_init__(self) -> None:
        Shard(index=self.shard[0], count=self.shard[1])
        if self.schema != SCHEMA:
            raise ValueError(f"schema: {self.schema}, expected {SCHEMA}")


def write_shard(
    dataset: Dataset, config: FitConfig, options: FitOptions, *, shard: Shard, path: Path
) -> int:
    """Go through a part of the images and write a shard; return the number of images."""
    if config.geometry.locate:
        raise UsageError(
            Setting("locate", config.geometry.locate),
            ": shards do not keep where parts lie; fit in one go",
        )
    config = settle_geometry(config, dataset, max_pixels=options.max_pixels)
    space = FeatureSpace.load(config, weights=options.weights, note=options.note)
    train, held_out = split(dataset, config, options.group_by)
    data = describe_data(
        dataset, held_out=len(held_out), max_pixels=options.max_pixels, by=options.group_by
    )
    with collect(space, train, held_out, shard=shard, options=options) as collected:
        header = ShardHeader(
            schema=SCHEMA,
            shard=(shard.index, shard.count),
            config=space.config.to_dict(),
            weights=space.origin,
            sweep=describe_pass(space, train, batch_size=options.batch_size),
            origin=data,
            bad=tuple(sorted(collected.bad)),
            newest=collected.newest,
            seen=tuple(collected.seen.places),
            unseen=tuple(collected.unseen.places),
            names={name: _names(getattr(collected, name)) for name in _STORES},
            appearance=collected.appearance,
            prints=tuple(sorted(collected.prints)),
        )
        tensors: dict[str, NDArray[Any]] = {"embedding": space.embedding}
        tensors |= {f"moments.{name}": sums for name, sums in collected.moments.pack().items()}
        weights = space.weights.arrays or {}
        tensors |= {f"backbone.{name}": values for name, values in weights.items()}
        tensors |= {name: getattr(collected, name).map_rows() for name in _STORES}
        for name in _STORES:
            looks = getattr(collected, name).grey_copies.tensors()
            tensors |= {f"looks.{name}.{kind}": values for kind, values in looks.items()}
        write_tensors(path, tensors, key=KEY, header=asdict(header))
    return collected.moments.images


def _names(store: EmbeddingStore) -> tuple[str, ...]:
    """Return names of files, without folders, in the order of `places`."""
    return tuple(PurePosixPath(store.names[place]).name for place in store.places)


def is_shard(path: Path) -> bool:
    """Return whether a file is a shard; other files are checked elsewhere."""
    try:
        read_container(path, KEY)
    except (Malformed, OSError):
        return False
    return True


def merge_shards(paths: Sequence[Path], options: FitOptions) -> Artefact:
    """Merge all shards of one data set to the model that one fit would have given."""
    headers = {path: _header(path) for path in paths}
    _check_complete(headers)
    first = next(iter(headers.values()))
    with ExitStack() as stack:
        stores = [stack.enter_context(EmbeddingStore()) for _ in _STORES]
        space, collected = _join(headers, stores)
        share_facts(collected, options)
        options.note(
            f"{collected.moments.images} good images of {first.origin.name} "
            f"in {len(headers)} shards"
        )
        options.note("no planted defects: they are made where all images are at hand, by `fit`")
        try:
            return finish(space, collected, data=first.origin, options=options)
        except (ValueError, ArithmeticError) as error:
            raise ArtefactError(f"the shards give no model ({error}); make them again") from None


def _join(
    headers: dict[Path, ShardHeader], stores: Sequence[EmbeddingStore]
) -> tuple[FeatureSpace, Collected]:
    space: FeatureSpace | None = None
    collected: Collected | None = None
    for path, header in sorted(headers.items(), key=lambda item: item[1].shard):
        try:
            moments, rows, own = _read(path, header, stores)
            if space is None or collected is None:
                space = own()
                _check_fits(space, moments, rows)
                collected = Collected(moments=moments, seen=stores[0], unseen=stores[1])
            else:
                collected.moments = collected.moments.merge(moments)
        except WRONG_VALUES as error:
            shard = ArtefactError(f"{path}: damaged shard ({error}); make it again")
            raise unless_memory(error, shard) from None
        collected.bad |= set(header.bad)
        collected.newest = max(collected.newest, header.newest)
        collected.appearance = collected.appearance.merge(header.appearance)
        collected.prints |= set(header.prints)
    if space is None or collected is None:
        raise UsageError("no shards to merge; expected the files of `edgeseg moments`")
    return space, collected


def _read(
    path: Path, header: ShardHeader, stores: Sequence[EmbeddingStore]
) -> tuple[Moments, list[tuple[int, ...]], Callable[[], FeatureSpace]]:
    """Read the moments of a shard and the shapes of its embeddings, and how to open its space."""
    shapes = []
    with safe_open(path, framework="numpy") as file:
        names = list(file.keys())
        small = {name: file.get_tensor(name) for name in names if name not in _STORES}
        check_values(small)
        for name, store in zip(_STORES, stores, strict=True):
            rows, places = file.get_slice(name), getattr(header, name)
            shapes.append(tuple(rows.get_shape()[1:]))
            if rows.get_shape()[0] != len(places):
                raise Malformed(f"{name}: {rows.get_shape()[0]} images, expected {len(places)}")
            for row, place in enumerate(places):
                embedded = rows[row : row + 1][0]
                check_values({name: embedded})
                store.append(embedded, place)
            store.names |= dict(zip(places, header.names.get(name, ()), strict=False))
            looks = GreyCopies.of_tensors(under(f"looks.{name}.", small))
            store.grey_copies.merge(looks)
    moments = Moments.unpack(under("moments.", small))
    return moments, shapes, lambda: _space(header, small)


def _check_fits(space: FeatureSpace, moments: Moments, rows: list[tuple[int, ...]]) -> None:
    """Refuse tensors of other shapes than the settings mean: they would fail much later."""
    check_size(space.config, largest_stride=largest_stride(space.config))
    features = embedded_features(space.config)
    if space.embedding.shape[0] != features:
        raise Malformed(f"W of {space.embedding.shape[0]} features, expected {features}")
    expected = (space.windows.kept, space.k)
    if tuple(moments.mean.shape) != expected or tuple(moments.count.shape) != expected[:1]:
        raise Malformed(f"moments of {tuple(moments.mean.shape)}, expected {expected}")
    wrong = [shape for shape in rows if shape not in (space.row_shape, ())]
    if wrong:
        raise Malformed(f"embeddings of {wrong[0]}, expected {space.row_shape}")


def _space(header: ShardHeader, tensors: dict[str, NDArray[Any]]) -> FeatureSpace:
    config = stored_config(header.config)
    return FeatureSpace(
        config=config,
        weights=stored_weights(config, header.weights, tensors),
        origin=header.weights,
        embedding=tensors["embedding"],
    )


def _header(path: Path) -> ShardHeader:
    try:
        return record(ShardHeader, read_container(path, KEY).header)
    except (Malformed, OSError) as error:
        raise ArtefactError(
            f"{path}: not a shard ({error}); expected a file of `edgeseg moments`"
        ) from None


def _check_complete(headers: dict[Path, ShardHeader]) -> None:
    """Require every shard of the same data and settings, each once."""
    (first, expected), *rest = headers.items()
    for path, header in rest:
        changed = difference(
            *(facts.sweep | {"number of shards": facts.shard[1]} for facts in (expected, header))
        )
        if changed is not None:
            raise UsageError(f"{first} and {path} are no parts of one fit ({changed})")
    count = expected.shard[1]
    given: dict[int, Path] = {}
    for path, header in headers.items():
        index = header.shard[0]
        if index in given:
            raise UsageError(f"{given[index]} and {path} are both shard {index}/{count}; drop one")
        given[index] = path
    missing = [f"{index}/{count}" for index in range(count) if index not in given]
    if missing:
        raise UsageError(
            f"{len(given)} of {count} shards: {', '.join(missing)} missing; "
            f"run `edgeseg moments DATA --shard {missing[0]} --out FILE`"
        )
