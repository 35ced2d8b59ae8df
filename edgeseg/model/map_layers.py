"""The share of an embedding that a map of its own is made of: the columns of W for its layers."""

from dataclasses import replace

from edgeseg.config import AUTO, FitConfig
from edgeseg.model.backbones import backbone_spec, embedded_features, features_of

# Of the k columns: all 64 features of the two shallow layers of EfficientNet-Lite where k is 150.
_SHARE = 3, 7


def shown_layers(config: FitConfig) -> tuple[int, ...]:
    """Return the layers of the map's own Gaussians: what is set, or what the backbone says.

    There are none where the map's maximum is the score, which never uses them.
    """
    if config.map_layers is not None:
        return config.map_layers
    best = () if config.top == 1 else backbone_spec(config.backbone).map_layers
    return tuple(number for number in best if number in config.layers)


def rows_of_map(config: FitConfig) -> list[int]:
    """Return the rows of W, which are features, that belong to the layers of the map."""
    rows: list[int] = []
    first, shown = 0, shown_layers(config)
    taps = backbone_spec(config.backbone).chosen_taps(config.layers)
    for number, tap in zip(config.layers, taps, strict=True):
        last = first + features_of(tap.channels, context=config.context)
        rows += range(first, last) if number in shown else ()
        first = last
    return rows


def embedded_width(config: FitConfig) -> int:
    """Return the number of columns of W: k, or all features where these are fewer."""
    features = embedded_features(config)
    return features if config.embedding == "identity" else min(config.k, features)


def map_width(config: FitConfig) -> int:
    """Return how many columns of W see the layers of the map alone; 0: it has none of its own.

    The others are at most as many as the features of other layers, and one of them at least.
    """
    shown, k = len(rows_of_map(config)), embedded_width(config)
    others = embedded_features(config) - shown
    most, of = _SHARE
    return min(shown, max(k * most // of, k - others, 1), k - (others > 0))


def layer_columns(config: FitConfig) -> list[tuple[int, int]]:
    """Return the columns of W that see each layer: the first, and the one behind the last."""
    width, k, shown = map_width(config), embedded_width(config), shown_layers(config)
    if not width:
        return [(0, k)] * len(config.layers)
    return [(0, width) if number in shown else (width, k) for number in config.layers]


def with_backbone_choices(config: FitConfig) -> FitConfig:
    """Return the settings with the backbone's best context and map, where none are set."""
    context = backbone_spec(config.backbone).context if config.context == AUTO else config.context
    return replace(config, context=context, map_layers=shown_layers(config))
