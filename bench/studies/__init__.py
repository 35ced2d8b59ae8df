"""One-off studies, run from a checkout and not installed: `python -m edgeseg.bench.studies.NAME`.

contamination, drift_rates (with disturb), large (with boards), scaling, soak, loop_overhead
"""
