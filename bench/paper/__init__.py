"""The paper's experiments on features that are computed once, published numbers beside ours."""
