"""Every kind of file or message that comes from outside, the quickest to read first.

    FORMATS[name]: seeds(folder) -> whole files; load(data, seed, folder) -> what it makes of one

A load raises an EdgesegError, or returns. For sealed seeds it must raise if anything changed.
"""

from tests.endurance.fuzz import (
    http_bodies,
    line_seeds,
    messages,
    model_files,
    pictures,
    seeds,
    station_files,
)
from tests.endurance.fuzz.format import Format

FORMATS: dict[str, Format] = {
    "registers": Format(seeds=line_seeds.registers, load=messages.answer_registers),
    "image": Format(seeds=seeds.images, load=pictures.read_image),
    "trigger": Format(
        seeds=line_seeds.triggers, load=messages.read_payload, json="text", refusals=(ValueError,)
    ),
    "regions": Format(seeds=line_seeds.regions, load=station_files.read_regions_file, json="text"),
    "recipe": Format(seeds=line_seeds.recipes, load=station_files.read_recipe_file),
    "project": Format(seeds=line_seeds.projects, load=station_files.read_project_file),
    "golden": Format(seeds=line_seeds.approvals, load=station_files.read_golden, json="text"),
    "mask": Format(seeds=seeds.masks, load=pictures.read_mask),
    "signature": Format(seeds=line_seeds.signatures, load=station_files.read_signed, json="text"),
    "log": Format(seeds=line_seeds.logs, load=station_files.read_log),
    "counters": Format(seeds=line_seeds.counters, load=station_files.read_counters, json="text"),
    "frame": Format(seeds=line_seeds.frames, load=messages.answer_frame),
    "request": Format(seeds=line_seeds.requests, load=messages.answer_request),
    "body": Format(seeds=http_bodies.bodies, load=http_bodies.answer_body, json="text"),
    "checkpoint": Format(
        seeds=seeds.checkpoints, load=model_files.read_checkpoint, json="safetensors"
    ),
    "plan": Format(seeds=seeds.plans, load=model_files.read_plan, json="text"),
    "sidecar": Format(seeds=seeds.sidecars, load=model_files.read_sidecar, json="text"),
    "video": Format(seeds=seeds.videos, load=pictures.read_video),
    "graph+sidecar": Format(
        seeds=seeds.graphs, load=model_files.read_graph_and_sidecar, json="onnx"
    ),
    "weights": Format(seeds=seeds.weights, load=model_files.read_weights),
    "backbone": Format(seeds=seeds.backbones, load=model_files.read_backbone),
    "graph": Format(seeds=seeds.graphs, load=model_files.read_graph, json="onnx"),
    "station": Format(seeds=line_seeds.stations, load=station_files.read_station_file),
    "shard": Format(seeds=seeds.shards, load=model_files.read_shard, json="safetensors"),
    "artefact": Format(seeds=seeds.artefacts, load=model_files.read_artefact, json="safetensors"),
}
