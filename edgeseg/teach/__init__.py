"""A project from its first picture to a running station: collect, fit, judge, run, learn."""
