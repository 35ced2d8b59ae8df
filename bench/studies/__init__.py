"""One-off studies, run from a checkout: `python -m edgeseg.bench.studies.ROOM.NAME`. Not installed.

decide      settings, planted defects, foreign frames, the promise
precision   what fewer bits cost, threads that spin, numbers over backends
region      parts that move, and cameras that do
line        triggers, cameras, changeovers and parts, counted; an hour at full speed
trust       kills, faults and flipped bits; fuzz: damaged files of every kind
scale       large pictures and many processes
"""
