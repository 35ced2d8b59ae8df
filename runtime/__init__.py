"""The light runtime: camera frames in, verdicts and latency out. No torch, no onnx."""
