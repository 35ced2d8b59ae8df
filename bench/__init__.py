"""Latency and accuracy, side by side, in one command each.

Imports go one way: harness, latency, compare, fit_cost, paper, demo, choices, results.
"""
