"""let_import: of two helpers of one name each file gets its own, or an error says why not."""

import pytest

from llmwrappers import PolicyRejected, load_prior


def files(folder, helper, source):
    folder.mkdir()
    (folder / f"{helper}.py").write_text(f"GAIN = '{folder.name}'\n")
    (folder / "policy.py").write_text(source)
    return f"trusted:{folder / 'policy.py'}"


def test_two_files_with_helpers_of_one_name(tmp_path):
    source = "from gains_of_this_test import GAIN\n\ndef policy(obs):\n    return GAIN\n"
    first, second = (files(tmp_path / name, "gains_of_this_test", source) for name in ("one", "two"))
    assert load_prior(first)(None) == "one"
    with pytest.raises(PolicyRejected, match=r"line 1: import of gains_of_this_test finds .*one/gains.*\.py and not"):
        load_prior(second)
    assert load_prior(first)(None) == "one"


@pytest.mark.parametrize("name", ["json", "gymnasium"])
def test_a_helper_that_python_does_not_find_first(tmp_path, name):
    prior = files(tmp_path / "mine", name, f"import {name}\n\ndef policy(obs):\n    return {name}.GAIN\n")
    with pytest.raises(PolicyRejected, match=f"line 1: import of {name} finds .* rename the latter"):
        load_prior(prior)


def test_what_does_not_lie_beside_it_is_imported_as_ever(tmp_path):
    source = "import math, gymnasium as gym\nfrom os import path\n\ndef policy(obs):\n    return math.pi\n"
    assert load_prior(files(tmp_path / "mine", "unused", source))(None) == pytest.approx(3.14159, rel=1e-5)
