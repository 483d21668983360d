import numpy as np
import math


def policy(obs):
    s = [float(v) for v in obs]
    hull, hull_rate, v, vy = s[0], s[1], s[2], s[3]
    h = [s[4], s[9]]
    hv = [s[5], s[10]]
    k = [s[6], s[11]]
    kv = [s[7], s[12]]
    c = [s[8] > 0.5, s[13] > 0.5]

    # foot position relative to the hip, in segment lengths
    x = [0.0, 0.0]
    z = [0.0, 0.0]
    for i in range(2):
        t = hull + h[i]
        x[i] = math.sin(t) + math.sin(t + k[i] - 1.0)
        z[i] = math.cos(t) + math.cos(t + k[i] - 1.0)

    SPEED = 0.35
    KNEE = 0.1
    hip_switch = 0.1 + 0.5 * min(max(v - 0.30, 0.0), 0.3)

    front = 0 if x[0] >= x[1] else 1
    rear = 1 - front

    # ---- which leg supports, and is the rear leg in its push-off phase ----
    late = False
    if c[0] and c[1]:
        if k[front] < -0.3 and h[rear] > hip_switch:
            sup = rear            # the front leg is still swinging and scrapes
        else:
            sup = front
            late = True
    elif c[0] or c[1]:
        sup = 0 if c[0] else 1
        oth = 1 - sup
        if k[sup] > 0.4 and x[oth] > x[sup] + 0.1 and z[oth] > z[sup] - 0.4:
            sup = oth             # extended rear leg, front foot nearly down
            late = True
    else:
        if z[front] > z[rear] - 0.3:
            sup = front
        else:
            sup = rear
    mov = 1 - sup

    # ---- targets ----
    hip = [0.0, 0.0]
    knee = [0.0, 0.0]

    push = (late and k[mov] < 0.8 and k[mov] > -0.3
            and kv[mov] > -0.15 and v < SPEED)

    hip_target = None
    if push:
        knee_target = 1.0
    elif late or h[sup] > hip_switch:
        hip_target = 1.1
        knee_target = -0.6
    elif x[mov] < x[sup] and h[mov] < 0.3:
        hip_target = 1.1          # foot still behind: hurry forward first
        knee_target = -0.2
    else:
        hip_target = 0.15 + 1.0 * min(max(v - 0.25, 0.0), 0.3)
        knee_target = KNEE

    if hip_target is not None:
        hip[mov] = 0.9 * (hip_target - h[mov]) - 0.25 * hv[mov]
    knee[mov] = 4.0 * (knee_target - k[mov]) - 0.25 * kv[mov]

    # supporting leg: crouched knee, nearly free hip
    knee[sup] = 4.0 * (KNEE - k[sup]) - 0.25 * kv[sup]
    slow = min(max(0.25 - v, 0.0), 0.25) / 0.25
    if c[sup] and h[sup] > -0.3:
        hip[sup] -= 0.3 * slow

    # ---- torso and vertical damping ----
    hip[sup] += 1.2 * hull + 2.5 * hull_rate
    hip[mov] += 0.9 * hull + 1.5 * hull_rate
    knee[0] -= 15.0 * vy
    knee[1] -= 15.0 * vy

    a = 0.5 * np.array([hip[0], knee[0], hip[1], knee[1]], dtype=np.float64)
    return np.clip(a, -1.0, 1.0)
