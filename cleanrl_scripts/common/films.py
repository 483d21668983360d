"""save_film: pictures as an mp4 or an endless gif."""

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np

MOST_FPS = 25  # a second of film needs no more pictures, and without a GPU each takes long to draw


def save_film(path: Path, frames: Sequence[np.ndarray], fps: float) -> None:
    """Writes pictures (height, width, 3), uint8, as NAME.mp4 or NAME.gif, which shows at most ``MOST_FPS`` of them a second.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     save_film(Path(folder) / "dark.gif", [np.zeros((8, 8, 3), np.uint8)] * 5, fps=5)
        ...     (Path(folder) / "dark.gif").read_bytes()[:3]
        b'GIF'
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix != ".gif":
        from moviepy import ImageSequenceClip

        ImageSequenceClip(list(frames), fps=fps).write_videofile(str(path), logger=None)
        return
    from PIL import Image

    every = math.ceil(fps / MOST_FPS)
    pictures = [Image.fromarray(frame) for frame in frames[::every]]
    # One palette for all frames, without dithering, so that still parts of the picture cost nothing.
    palette = pictures[len(pictures) // 2].quantize(64, dither=Image.Dither.NONE)
    first, *rest = (picture.quantize(palette=palette, dither=Image.Dither.NONE) for picture in pictures)
    first.save(path, save_all=True, append_images=rest, duration=round(1000 * every / fps), loop=0, optimize=True)
