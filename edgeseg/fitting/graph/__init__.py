"""Models fitted through a backbone's graph: without torch and without onnx."""
