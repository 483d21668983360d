"""local_llm/selection/drawings.py: images are what they show, and axes have few ticks."""

import io
import zlib

import numpy as np
import pytest

from local_llm.selection.drawings import MOVING_FRAMES, animated_png, film, png, shrink, ticks


def decode(data: bytes) -> np.ndarray:
    """Reads a PNG that has one IDAT chunk and only rows of filter 2."""
    width, height = (int.from_bytes(data[at : at + 4], "big") for at in (16, 20))
    start = data.index(b"IDAT") + 4
    length = int.from_bytes(data[start - 8 : start - 4], "big")
    rows = np.frombuffer(zlib.decompress(data[start : start + length]), np.uint8).reshape(height, 1 + 3 * width)
    assert (rows[:, 0] == 2).all()
    return np.cumsum(rows[:, 1:], axis=0, dtype=np.uint8).reshape(height, width, 3)


class TestImages:
    def test_a_png_decodes_to_its_image(self):
        image = np.random.default_rng(0).integers(0, 256, (7, 5, 3), dtype=np.uint8)
        np.testing.assert_array_equal(decode(png(image)), image)

    def test_a_moving_picture_is_its_images_one_after_the_other(self):
        """As Pillow reads it, which knows animations; five of the eight bits of a colour are kept."""
        Image = pytest.importorskip("PIL.Image")
        images = np.random.default_rng(0).integers(0, 256, (3, 7, 5, 3), dtype=np.uint8)
        images[0, 0, 0], images[0, 0, 1] = 255, 0
        with Image.open(io.BytesIO(animated_png(list(images), milliseconds=80))) as picture:
            assert (picture.n_frames, picture.info["loop"], picture.info["duration"]) == (3, 0, 80)
            for index, image in enumerate(images):
                picture.seek(index)
                seen = np.asarray(picture.convert("RGB"))
                np.testing.assert_array_equal(seen >> 3, image >> 3)
                assert index or seen[0, :2].tolist() == [[255] * 3, [0] * 3]

    def test_a_film_moves_as_fast_as_its_environment(self):
        """Pendulum renders 30 steps a second: of the first 142, each third is shown for a tenth of a second."""
        stills, frames, milliseconds = film("Pendulum-v1", lambda obs: [2.0], steps=200, seed=0, moving=True)
        assert (len(frames), milliseconds) == (MOVING_FRAMES, 100)
        np.testing.assert_array_equal(frames[0], stills[0][1])
        assert any((frame != frames[0]).any() for frame in frames)

    def test_shrinking_averages(self):
        image = np.zeros((8, 9, 3), np.uint8)
        image[:2, :2] = [[[0], [100]], [[200], [100]]]
        small = shrink(image, height=4)
        assert small.shape == (4, 4, 3)
        assert small[0, 0].tolist() == [100, 100, 100]
        assert small[1:].max() == 0
        np.testing.assert_array_equal(shrink(image, height=160), image)

    def test_frames_are_spread_over_the_episode(self):
        captions = [caption for caption, _ in film("Pendulum-v1", lambda obs: [0.0], steps=200, seed=0)[0]]
        assert captions == [f"step {t}" for t in (1, 29, 58, 86, 115, 143, 172, 200)]
        strip, beginning, _ = film("Pendulum-v1", lambda obs: [0.0], steps=3, seed=0)
        assert (len(strip), len(beginning)) == (3, 0)


@pytest.mark.parametrize(("low", "high"), [(-1600.0, -120.0), (0.0, 1.0), (-0.003, 0.02), (3.0, 3.0), (0.0, 0.0), (-5, 1e6)])
def test_ticks_are_few_and_inside(low, high):
    values = ticks(low, high)
    assert len(values) <= 6
    assert all(low <= value <= high for value in values) or low == high
