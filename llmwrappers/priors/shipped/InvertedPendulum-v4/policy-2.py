import numpy as np


def policy(obs):
    x = float(obs[0])       # cart position
    theta = float(obs[1])   # pole angle, positive leans towards +x
    v = float(obs[2])       # cart velocity
    omega = float(obs[3])   # pole angular velocity

    # fast loop: drive the cart under the leaning pole
    balance = 10.5 * theta + 1.6 * omega

    # slow loop: lean the pole towards the middle so that the cart follows;
    # limited so that it never asks for more than about 0.134 rad of lean
    centre = 1.5 * x + 1.7 * v
    centre = min(max(centre, -1.2), 1.2)

    u = balance + centre
    return np.clip(np.array([u], dtype=np.float64), -3.0, 3.0)
