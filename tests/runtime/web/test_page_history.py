"""The scores that the page draws."""

import numpy as np

from edgeseg.runtime.web.page_history import BUCKET_S, BUCKETS, ScoreHistory
from tests.support.scored_frames import make_result


def test_history_is_the_maximum_of_each_bucket() -> None:
    rng = np.random.default_rng(0)
    history = ScoreHistory()
    times = np.sort(rng.uniform(0, 400, 5000))
    scores = rng.gamma(2, 3, 5000)
    for moment, score in zip(times, scores, strict=True):
        history.add(make_result(score=float(score), wall_s=float(moment)))
    expected: dict[int, float] = {}
    for moment, score in zip(times, scores, strict=True):
        bucket = int(moment / BUCKET_S)
        expected[bucket] = max(expected.get(bucket, 0.0), score)
    kept = sorted(expected)[-BUCKETS:]
    assert history.since(0) == [[b, expected[b], bool(expected[b] > 10)] for b in kept]
    assert history.since(kept[-3])[0][0] == kept[-3]


def test_history_survives_a_clock_set_back() -> None:
    history = ScoreHistory()
    for moment, score in ((100.0, 1.0), (50.0, 20.0), (100.3, 2.0)):
        history.add(make_result(score=score, wall_s=moment))
    assert history.since(0) == [[400, 20.0, True], [401, 2.0, False]]
