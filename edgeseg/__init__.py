"""Anomaly segmentation for inspection cameras.

    import edgeseg

    model = edgeseg.fit("parts/good", out="part.edgeseg")
    result = model.predict(frame_hwc)  # .anomalous, .score, .map_hw, .regions
    model.export("part.onnx")

and on the device, without torch: `edgeseg.runtime.open("part.onnx").predict(frame_hwc)`.
"""

import importlib
from typing import TYPE_CHECKING

__version__ = "0.3.0"

__all__ = [
    "EdgesegError",
    "Evaluation",
    "FitConfig",
    "FitOptions",
    "JudgedPrediction",
    "Model",
    "Region",
    "fit",
    "load",
]

if TYPE_CHECKING:
    from edgeseg import runtime as runtime
    from edgeseg.api import Model, fit, load
    from edgeseg.base.errors import EdgesegError
    from edgeseg.config import FitConfig
    from edgeseg.decision.judgement import JudgedPrediction
    from edgeseg.decision.prediction import Region
    from edgeseg.evaluation.evaluate import Evaluation
    from edgeseg.fitting.options import FitOptions
else:
    # Loaded when they are used: `import edgeseg` costs nothing, and a device has no torch.
    _HOMES = {
        "Model": "edgeseg.api",
        "fit": "edgeseg.api",
        "load": "edgeseg.api",
        "FitConfig": "edgeseg.config",
        "EdgesegError": "edgeseg.base.errors",
        "FitOptions": "edgeseg.fitting.options",
        "JudgedPrediction": "edgeseg.decision.judgement",
        "Region": "edgeseg.decision.prediction",
        "Evaluation": "edgeseg.evaluation.evaluate",
    }

    def __getattr__(name: str) -> object:
        if name == "runtime":
            return importlib.import_module("edgeseg.runtime")
        if name not in _HOMES:
            raise AttributeError(f"module 'edgeseg' has no attribute {name!r}")
        try:
            module = importlib.import_module(_HOMES[name])
        except ModuleNotFoundError as error:
            raise _not_installed(name, error) from None
        for other, home in _HOMES.items():
            if home == module.__name__:
                globals()[other] = getattr(module, other)
        return globals()[name]

    def _not_installed(name: str, error: ModuleNotFoundError) -> ModuleNotFoundError:
        """Return the error with the command that installs what is missing."""
        from edgeseg.base.extras import install_command

        absent = error.name or ""
        command = install_command(absent)
        if command is None:
            return error
        said = f"edgeseg.{name} needs {absent}, which is not installed; run: {command}"
        return ModuleNotFoundError(said, name=absent)

    def __dir__() -> list[str]:
        own = (name for name in globals() if name.startswith("__") and name.endswith("__"))
        return sorted({*own, *__all__, "runtime"})  # not the modules that happen to be loaded
