"""Trajectories: what they refuse, and that a file gives back what was saved."""

import io
import zipfile

import numpy as np
import pytest

from llmwrappers import Trajectories
from llmwrappers.critical_states.trajectories import ARRAYS

RNG = np.random.default_rng(0)
FIELDS = {
    "env_id": "Pendulum-v1",
    "observations": RNG.standard_normal((6, 3)),
    "actions": RNG.standard_normal((6, 1)).astype(np.float32),
    "rewards": np.float32([1, 2, 4, 8, 16, 32]),
    "lengths": np.array([1, 3, 2]),
    "terminations": np.array([True, False, True]),
    "final_observations": RNG.standard_normal((3, 3)),
    "seeds": np.array([7, 8, 9]),
}
GRIDS = FIELDS | {
    "observations": RNG.integers(0, 255, (6, 2, 4, 4), np.uint8),
    "final_observations": RNG.integers(0, 255, (3, 2, 4, 4), np.uint8),
    "actions": np.array([0, 5, 1, 2, 3, 4]),
}


def assert_equal(one, other):
    assert (one.env_id, one.env_kwargs) == (other.env_id, other.env_kwargs)
    for name in ARRAYS:
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
        assert getattr(one, name).dtype == getattr(other, name).dtype


def test_episodes_lie_one_after_the_other():
    three = Trajectories(**FIELDS)
    assert len(three) == 3
    assert [three.episode(index) for index in range(3)] == [slice(0, 1), slice(1, 4), slice(4, 6)]
    assert three.returns.tolist() == [1, 14, 48]
    for index in (-1, 3):
        with pytest.raises(IndexError, match=f"got {index}"):
            three.episode(index)


@pytest.mark.parametrize("shape", [(16, 16, 3), (4, 4, 16), (2, 6, 6), (2, 80, 80), (5,), ()])
def test_any_observations_but_pongs_grids_are_matched_as_they_are(shape):
    images = RNG.integers(0, 255, (9, *shape), np.uint8)
    parts = {"observations": images[:6], "final_observations": images[6:]}
    np.testing.assert_array_equal(Trajectories(**FIELDS | parts).matched, images[:6].reshape(6, -1))


@pytest.mark.parametrize("n", [1, 2])
def test_split_keeps_every_episode(n):
    three = Trajectories(**FIELDS, env_kwargs='{"g": 1.62}')
    parts = three.split(n)
    assert [len(part) for part in parts] == [n, 3 - n]
    assert [part.env_kwargs for part in parts] == ['{"g": 1.62}'] * 2
    for name in ARRAYS:
        np.testing.assert_array_equal(np.concatenate([getattr(part, name) for part in parts]), FIELDS[name])
    assert np.concatenate([part.returns for part in parts]).tolist() == [1, 14, 48]


@pytest.mark.parametrize("n", [0, 3, -1])
def test_split_leaves_no_part_empty(n):
    with pytest.raises(ValueError, match=rf"n must .*\[1, 2\], got {n}"):
        Trajectories(**FIELDS).split(n)


@pytest.mark.parametrize(("fields", "dtype"), [(FIELDS, np.float32), (GRIDS, np.int64)], ids=["vectors", "grids"])
def test_a_file_gives_back_what_was_saved(tmp_path, fields, dtype):
    saved, path = Trajectories(**fields, env_kwargs='{"g": 1.62}'), tmp_path / "played.npz"
    saved.save(path)
    loaded = Trajectories.load(path)
    assert_equal(loaded, saved)
    assert loaded.actions.dtype == dtype
    assert loaded.observations.dtype == fields["observations"].dtype
    bytes_before = path.read_bytes()
    loaded.save(path)
    assert path.read_bytes() == bytes_before
    assert [file.name for file in tmp_path.iterdir()] == ["played.npz"]


WRONG = {
    "env_id": [("", "env_id")],
    "observations": [
        (np.zeros((5, 3)), "lengths .* 5"),
        (np.full((6, 3), np.nan), "observations must be finite in float64, got nan"),
    ],
    "actions": [
        (np.zeros((5, 1)), r"actions must have shape \(6, 1\), got \(5, 1\)"),
        (np.full((6, 1), np.inf), "actions .*inf"),
    ],
    "rewards": [
        (np.zeros((6, 1)), "rewards must have shape"),
        (np.full(6, np.nan), "rewards must be finite"),
        (np.full(6, 1e39), r"rewards must be finite in float32, got 1e\+39"),
    ],
    "lengths": [
        ([2, 2, 3], "lengths .* 6 .* 7"),
        ([0, 4, 2], "lengths"),
        ([3, 3], "terminations"),
        ([1.0, 3.0, 2.0], "lengths"),
    ],
    "terminations": [([0, 1, 0], "terminations must be an array"), ([True, False], "terminations must have shape")],
    "final_observations": [(np.zeros((3, 2)), r"final_observations must have shape \(3, 3\)")],
    "seeds": [([1, 2], "seeds"), ([1.5, 2, 3], "seeds")],
}
wrong = pytest.mark.parametrize(
    ("name", "value", "message"), [(name, value, message) for name, cases in WRONG.items() for value, message in cases]
)


@wrong
def test_wrong_fields_are_refused(name, value, message):
    with pytest.raises(ValueError, match=message):
        Trajectories(**FIELDS | {name: value})


@wrong
def test_a_wrong_file_is_named_with_its_field(tmp_path, name, value, message):
    np.savez(tmp_path / "odd.npz", **FIELDS | {name: value})
    with pytest.raises(ValueError, match=rf"odd\.npz.*{message}"):
        Trajectories.load(tmp_path / "odd.npz")


@pytest.mark.parametrize("name", FIELDS)
def test_a_missing_field_is_named(tmp_path, name):
    np.savez(tmp_path / "odd.npz", **{key: value for key, value in FIELDS.items() if key != name})
    with pytest.raises(ValueError, match=rf"odd\.npz.* {name} is missing"):
        Trajectories.load(tmp_path / "odd.npz")


def saved_bytes():
    file = io.BytesIO()
    np.savez(file, **FIELDS)
    return file.getvalue()


def one_array():
    file = io.BytesIO()
    np.save(file, np.zeros(3))
    return file.getvalue()


def other_zip():
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("lengths.npy", b"nonsense")
    return file.getvalue()


@pytest.mark.parametrize(
    "content", [None, b"", b"nonsense", saved_bytes()[:400], saved_bytes()[:-30], one_array(), other_zip()],
    ids=["absent", "empty", "text", "head", "truncated", "npy", "zip"],
)  # fmt: skip
def test_what_is_no_such_file_is_named(tmp_path, content):
    path = tmp_path / "odd.npz"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ValueError, match=r"odd\.npz"):
        Trajectories.load(path)


def test_nothing_is_unpickled(tmp_path):
    np.savez(tmp_path / "odd.npz", **FIELDS | {"rewards": np.array([print] * 6, dtype=object)})
    with pytest.raises(ValueError, match=r"odd\.npz.*allow_pickle=False"):
        Trajectories.load(tmp_path / "odd.npz")


def test_an_interrupted_save_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "played.npz"
    Trajectories(**FIELDS).save(path)

    def interrupted(file, **arrays):
        file.write(b"half")
        raise KeyboardInterrupt

    monkeypatch.setattr(np, "savez_compressed", interrupted)
    with pytest.raises(KeyboardInterrupt):
        Trajectories(**GRIDS).save(path)
    assert_equal(Trajectories.load(path), Trajectories(**FIELDS))
