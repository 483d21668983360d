"""What the commands that ask a model share."""

import subprocess
import sys

from conftest import ROOT

TWICE = """
import os, signal, time
from local_llm.command import stop_on_sigterm

stop_on_sigterm()
try:
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(10)
finally:
    os.kill(os.getpid(), signal.SIGTERM)
    print("cleaned up")
"""


def test_a_second_sigterm_leaves_the_first_its_time_to_clean_up():
    ended = subprocess.run([sys.executable, "-c", TWICE], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout, ended.stderr) == (143, "cleaned up\n", "")
