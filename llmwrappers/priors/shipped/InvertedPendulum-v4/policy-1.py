import numpy as np

def policy(obs):
    x = float(obs[0])
    theta = float(obs[1]) + 0.00167   # the pole's geom is tilted by 0.001/0.6 rad
    v = float(obs[2])
    w = float(obs[3])

    # slow coordinates: a point on the pole that the force does not move directly
    L = 0.4256
    y = x + L * theta
    p = v + L * w

    # outer loop: asks for a bounded lean towards the middle of the rail
    y_c = min(max(y, -0.25), 0.25)
    slow = 5.25 * y_c + 4.35 * p
    slow = min(max(slow, -1.8), 1.8)

    # inner loop: drives the cart under the leaning pole
    fast = 15.7 * theta + 1.13 * w

    u = fast + slow
    return np.clip(np.array([u], dtype=np.float64), -3.0, 3.0)
