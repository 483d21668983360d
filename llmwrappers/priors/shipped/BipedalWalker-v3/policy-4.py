import numpy as np
import math


def policy(obs):
    L = 1.133
    s0 = float(obs[0])
    s1 = float(obs[1])
    v = float(obs[2])
    vy = float(obs[3])
    vms = 8.333 * v

    h = [float(obs[4]), float(obs[9])]
    hv = [float(obs[5]), float(obs[10])]
    k = [float(obs[6]), float(obs[11])]
    kv = [float(obs[7]), float(obs[12])]
    c = [float(obs[8]) > 0.5, float(obs[13]) > 0.5]

    # foot position ahead of the hip (world frame)
    xf = [0.0, 0.0]
    for i in range(2):
        t = s0 + h[i]
        xf[i] = L * (math.sin(t) + math.sin(t + k[i] - 1.0))

    rear = 0 if xf[0] <= xf[1] else 1
    front = 1 - rear

    # ---- phase from the observation ----
    # modes: 0 swing, 1 put down in front, 2 push off, 3 prop behind
    stuck = False
    if c[0] and c[1]:
        m = rear
        s = front
        can_lift = xf[front] < 0.45 * vms + 0.35
        want_lift = (k[rear] > 0.88 or v > 0.34 or hv[rear] > 0.25
                     or (k[rear] > 0.5 and kv[rear] < -0.3)
                     or xf[front] < 0.0)
        if want_lift and can_lift:
            mode = 0
        else:
            mode = 2
            stuck = want_lift and not can_lift
    elif c[0] or c[1]:
        s = 0 if c[0] else 1
        m = 1 - s
        if xf[s] > 0.45 * vms + 0.5:
            mode = 3
        elif h[s] + s0 < 0.10 and h[m] > 0.25:
            mode = 1
        else:
            mode = 0
    else:
        if hv[rear] > 0.1 or k[rear] < -0.2:
            m = rear
            s = front
            mode = 0
        else:
            m = front
            s = rear
            mode = 1

    hip = [0.0, 0.0]
    knee = [0.0, 0.0]
    carry = [True, True]  # knees that get the vertical damping

    # ---- supporting leg ----
    slow = min(max(0.29 - v, -0.2), 0.3)
    hip[s] = -0.3 * slow
    ks = 0.1
    if mode == 1:
        ks = 0.1 + 0.8 * min(max(-(h[s] + s0), 0.0), 0.6)
    if stuck:
        ks = -0.1
    # bend a straight leg only slowly
    ks = max(ks, k[s] - 0.08)
    knee[s] = 2.0 * (ks - k[s]) - 0.125 * kv[s]

    # ---- other leg ----
    if mode == 0:
        hip[m] = 0.5 * (1.1 - h[m]) - 0.125 * hv[m]
        knee[m] = 2.0 * (-0.6 - k[m]) - 0.125 * kv[m]
        carry[m] = False
    elif mode == 1:
        ht = 0.45 + 0.8 * (v - 0.29) - s0
        ht = min(max(ht, 0.25), 0.8)
        hip[m] = 0.7 * (ht - h[m]) - 0.15 * hv[m]
        knee[m] = 2.0 * (0.15 - k[m]) - 0.125 * kv[m]
    elif mode == 2:
        hip[m] = -0.2 * max(slow, 0.0)
        knee[m] = 2.0 * (1.0 - k[m]) - 0.125 * kv[m]
        if stuck:
            hip[m] -= 0.15
            hip[s] -= 0.25
    else:
        hip[m] = 0.7 * (-0.3 - s0 - h[m]) - 0.15 * hv[m]
        knee[m] = 2.0 * (0.6 - k[m]) - 0.125 * kv[m]

    # ---- keep the hull level, damp the vertical motion ----
    pitch = 0.7 * s0 + 3.0 * s1
    pitch = min(max(pitch, -0.8), 0.8)
    for i in range(2):
        hip[i] += pitch if c[i] and carry[i] else 0.2 * pitch
        if carry[i]:
            knee[i] -= 7.0 * vy

    a = np.array([hip[0], knee[0], hip[1], knee[1]], dtype=np.float32)
    return np.clip(a, -1.0, 1.0)
