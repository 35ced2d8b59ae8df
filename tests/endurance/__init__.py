"""Endurance runs, started by hand: `python -m tests.endurance.NAME`, figures in docs/trust.md.

fuzz                damaged files and messages of every format
kills, faults       commands that write: killed at random moments, and short of everything
bit_flips           a bit turned over in every piece of a model that decides
soak, soak_line     a stream, and a whole line, for as long as you like
"""
