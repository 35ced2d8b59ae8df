"""One peer in its own process and, if need be, its own environment: fit, predict, export.

Run as `python peer_worker.py REQUEST.json`; needs anomalib and torch, and nothing of edgeseg.
What is done is written to the file named by the request after every step, so that a peer that
fails while exporting still has the figures of its fit.
"""

import json
import sys
import time
from pathlib import Path
from typing import Any

# The folder of this file would come first and shadow other people's modules.
sys.path[:] = [entry for entry in sys.path if Path(entry or ".").resolve() != Path(__file__).parent]

LAYERS = ["layer1", "layer2", "layer3"]


def run(request: dict[str, Any]) -> None:
    """Run all steps of one peer."""
    import torch
    from anomalib import __version__

    torch.set_num_threads(int(request["threads"]))
    torch.manual_seed(int(request["seed"]))
    out = Path(request["out"])
    out.mkdir(parents=True, exist_ok=True)
    result: dict[str, Any] = {"version": __version__, "step": "build"}
    try:
        model = build(request)
        if request["peer"] == "efficientad":
            _calibrate_blindly(model)
        else:
            result["step"] = "fit"
            result |= fit(model, request, out)
            if request["fit_only"]:
                result["step"] = "done"
                return
            result["step"] = "predict"
            predict(model, request, out)
            result["predicted"] = True
        size_hw = tuple(request["size_hw"])
        # One frame at a time, like ours. By default anomalib asks for a free batch, which leaves
        # PatchCore with a batch fixed at two.
        fixed: dict[str, Any] = {"dynamic_axes": {}}
        result["step"] = "export to ONNX"
        result["onnx"] = below(out, model.to_onnx(out, input_size=size_hw, **fixed))
        result["step"] = "export to OpenVINO"
        written = model.to_openvino(out, input_size=size_hw, onnx_kwargs=fixed)
        result["openvino"] = below(out, written)
        result["step"] = "done"
    except Exception as error:  # whatever it is, the row has to say it
        lines = str(error).strip().splitlines() or [""]
        result["error"] = f"{type(error).__name__}: {lines[0][:200]}"
    finally:
        Path(request["result"]).write_text(json.dumps(result), encoding="utf-8")


def below(folder: Path, path: Any) -> str:
    """Write a path relative to the folder of results, which may be moved."""
    return str(Path(path).resolve().relative_to(folder.resolve()))


def build(request: dict[str, Any]) -> Any:
    """Make the peer's own model with its own defaults, but our weights."""
    from anomalib.models import EfficientAd, Padim, Patchcore

    quiet = {"visualizer": False, "evaluator": False}
    if request["peer"] == "efficientad":
        return EfficientAd(**quiet)
    backbone = {"backbone": request["backbone"], "pre_trained": False}
    if request["peer"] == "padim":
        model = Padim(layers=LAYERS, **backbone, **quiet)
    else:
        ratio = float(request["coreset"])
        model = Patchcore(coreset_sampling_ratio=ratio, **backbone, **quiet)
    if request["weights"] is not None:
        _load_weights(model.model.feature_extractor.feature_extractor, Path(request["weights"]))
    return model


def _load_weights(network: Any, path: Path) -> None:
    import torch

    tensors = torch.load(path, map_location="cpu", weights_only=True)
    loaded = network.load_state_dict(tensors, strict=False)
    missing = [name for name in loaded.missing_keys if "num_batches_tracked" not in name]
    if missing:
        raise ValueError(f"{path}: {len(missing)} tensors are missing, the first is {missing[0]}")


def _calibrate_blindly(model: Any) -> None:
    """Set stand-ins for what training would set: same graph, other answers."""
    import torch

    for values in (model.model.mean_std, model.model.quantiles):
        for name in values:
            values[name].data = torch.ones_like(values[name].data)
    for name in ("qa_st", "qa_ae"):
        model.model.quantiles[name].data.zero_()


def fit(model: Any, request: dict[str, Any], out: Path) -> dict[str, Any]:
    """Fit with the peer's own engine; measure seconds with reading images, and peak memory."""
    from anomalib.data import Folder
    from anomalib.engine import Engine

    data = Path(request["data"])
    kinds = sorted(path.name for path in (data / "test").iterdir() if path.name != "good")
    module = Folder(
        name="staged",
        root=data,
        normal_dir="train/good",
        normal_test_dir="test/good",
        abnormal_dir=[f"test/{kind}" for kind in kinds],
        train_batch_size=32,
        eval_batch_size=32,
        num_workers=int(request["workers"]),
        val_split_mode="same_as_test",
        seed=int(request["seed"]),
    )
    engine = Engine(
        accelerator="cpu",
        devices=1,
        logger=False,
        enable_progress_bar=False,
        limit_val_batches=0,  # a fit alone; its validation would score the whole test set
        default_root_dir=out,
    )
    before = peak_mb()
    started = time.perf_counter()
    engine.fit(model=model, datamodule=module)
    return {"fit_s": time.perf_counter() - started, "base_mb": before, "peak_mb": peak_mb()}


def predict(model: Any, request: dict[str, Any], out: Path) -> None:
    """Save raw maps and scores of the test images, before the peer clamps or scales them."""
    import numpy as np
    import torch
    from torchvision.io import ImageReadMode, read_image

    model.eval()
    maps, scores = [], []
    with torch.no_grad():
        for name in request["test_images"]:
            image = read_image(name, ImageReadMode.RGB)[None].float() / 255
            answer = model.model(model.pre_processor(image))
            maps.append(answer.anomaly_map.reshape(image.shape[-2:]).float().numpy())
            scores.append(float(answer.pred_score.reshape(-1)[0]))
    np.save(out / "maps.npy", np.stack(maps))
    np.save(out / "scores.npy", np.array(scores))


def peak_mb() -> float:
    """Largest resident size of this process so far."""
    for line in Path("/proc/self/status").read_text(encoding="utf-8").splitlines():
        if line.startswith("VmHWM"):
            return int(line.split()[1]) * 1024 / 1e6
    return 0.0


if __name__ == "__main__":
    run(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")))
