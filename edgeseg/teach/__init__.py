"""From the first picture to a running station: collect, region, fit, judge, run, learn."""
