import numpy as np
import math


def policy(obs):
    x = float(obs[0])        # cart position
    theta = float(obs[1])    # pole angle, > 0 leans towards +x
    x_dot = float(obs[2])    # cart velocity
    theta_dot = float(obs[3])  # pole angular velocity

    # true lean of the centre of mass (the pole geom is slightly tilted)
    lean = theta + 0.001 / 0.6

    # limit the position error so that centring never demands a large lean
    x_err = max(-0.8, min(0.8, x))

    u = 10.6 * lean + 1.71 * theta_dot + 1.44 * x_err + 1.89 * x_dot

    return np.clip(np.array([u], dtype=np.float64), -3.0, 3.0)
