"""Waiting for what a test means, instead of for a time."""
import time

PATIENCE = 20.0  # seconds for what happens at once on an idle machine


def wait_until(condition, what, patience=PATIENCE, every=0.005):
    """Until the condition is true; returns what it returned. Seconds between two looks: as long as a look may be late."""
    end = time.monotonic() + patience
    while time.monotonic() < end:
        if found := condition():
            return found
        time.sleep(every)
    raise AssertionError(f"{what} did not happen within {patience} s")
