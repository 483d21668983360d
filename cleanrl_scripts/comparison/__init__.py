"""The parts of compare.py: runs, pools, curves, statistics, report."""
