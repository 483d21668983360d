"""save_film: pictures as an mp4 or an endless gif."""

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np

MOST_FPS = 25  # a second of film needs no more pictures, and without a GPU each takes long to draw


def save_film(path: Path, frames: Sequence[np.ndarray], fps: float) -> None:
    """Writes pictures (uint8; grey, RGB or RGBA) as NAME.mp4 or NAME.gif, which shows at most ``MOST_FPS`` of them a second.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     save_film(Path(folder) / "dark.gif", [np.zeros((8, 8, 3), np.uint8)] * 5, fps=5)
        ...     (Path(folder) / "dark.gif").read_bytes()[:3]
        b'GIF'
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    frames = [_rgb(frame) for frame in frames]
    if path.suffix != ".gif":
        from moviepy import ImageSequenceClip

        ImageSequenceClip(frames, fps=fps).write_videofile(str(path), logger=None)
        return
    from PIL import Image

    every = math.ceil(fps / MOST_FPS)
    pictures = [Image.fromarray(frame) for frame in frames[::every]]
    # One palette, of about eight frames, and no dithering, so that still parts of the picture cost nothing.
    sample = Image.fromarray(np.concatenate(frames[:: max(1, len(frames) // 8)]))
    palette = sample.quantize(64, dither=Image.Dither.NONE)
    first, *rest = (picture.quantize(palette=palette, dither=Image.Dither.NONE) for picture in pictures)
    first.save(path, save_all=True, append_images=rest, duration=round(1000 * every / fps), loop=0, optimize=True)


def _rgb(frame: np.ndarray) -> np.ndarray:
    """(height, width), or (height, width, 1, 3 or 4), as (height, width, 3)."""
    colours = np.atleast_3d(frame)[..., :3]
    return np.ascontiguousarray(np.broadcast_to(colours, (*colours.shape[:2], 3)))
