"""Latency and accuracy, side by side, in one command each.

Imports go one way: harness, latency, compare, peers, fit_cost, paper, demo, then cli and studies.
"""
