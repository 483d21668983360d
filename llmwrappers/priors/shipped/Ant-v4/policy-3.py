import numpy as np
import math


def policy(obs):
    obs = np.asarray(obs, dtype=float)

    W = 10.5
    DT = 0.05
    C = 0.56        # hip stroke scale (0.40 rad per leg at yaw 0)
    B = 0.21        # ankle alternation
    E0 = 0.85
    KP = 0.60
    KD = 0.12

    hip_o = [5, 7, 9, 11]
    ank_o = [6, 8, 10, 12]
    hip_v = [19, 21, 23, 25]
    ank_v = [20, 22, 24, 26]
    hip_a = [2, 4, 6, 0]
    ank_a = [3, 5, 7, 1]

    az = np.array([0.25, 0.75, 1.25, 1.75]) * math.pi
    ca = np.cos(az)
    sa = np.sin(az)
    es = np.array([1.0, -1.0, -1.0, 1.0])
    s = np.array([1.0, -1.0, 1.0, -1.0])

    # ---- torso orientation -------------------------------------------------
    quat = obs[1:5]
    quat = quat / (math.sqrt(float(np.dot(quat, quat))) + 1e-9)
    w, x, y, z = quat
    r00 = 1.0 - 2.0 * (y * y + z * z)
    r01 = 2.0 * (x * y - w * z)
    r10 = 2.0 * (x * y + w * z)
    ux = 2.0 * (x * z - w * y)
    uy = 2.0 * (y * z + w * x)
    uz = 1.0 - 2.0 * (x * x + y * y)
    wx, wy, wz = obs[16], obs[17], obs[18]
    height = obs[0]

    # world +x seen from the body
    dn = math.sqrt(r00 * r00 + r01 * r01) + 1e-6
    dx = r00 / dn
    dy = r01 / dn

    # ---- stroke of each hip for that direction --------------------------------
    g = -(-sa * dx + ca * dy)
    yaw = math.atan2(r10, r00)
    psi4 = math.atan2(math.sin(4.0 * yaw), math.cos(4.0 * yaw)) / 4.0
    turn = float(np.clip(0.25 * psi4 + 0.03 * wz, -0.12, 0.12))
    calm = float(np.clip((uz - 0.2) / 0.5, 0.2, 1.0))
    G = np.clip(C * g + turn, -0.47, 0.47) * calm

    # ---- joints ----------------------------------------------------------------
    q = obs[hip_o]
    dq = obs[hip_v]
    e = es * obs[ank_o]
    de = es * obs[ank_v]

    lift = B * float(np.clip((0.90 - height) / 0.20, 0.25, 1.0)) * calm

    # ---- phase from all joints ---------------------------------------------------
    sin_a = float(np.mean(s * e)) / lift
    cos_a = float(np.mean(s * de)) / (lift * W)
    gg = float(np.dot(G, G)) + 1e-6
    cos_h = -float(np.dot(s * G, q)) / gg
    sin_h = float(np.dot(s * G, dq)) / (gg * W)
    p = math.atan2(0.5 * sin_a + 0.5 * sin_h, 0.5 * cos_a + 0.5 * cos_h)
    p1 = p + W * DT

    # ---- targets -------------------------------------------------------------------
    q_now = -s * G * math.cos(p)
    dq_next = s * G * W * math.sin(p1)

    el = ux * ca + uy * sa
    d_el = -wy * ca + wx * sa
    corr = np.clip(-0.4 * el - 0.04 * d_el, -0.2, 0.2)
    e_now = np.clip(E0 + s * lift * math.sin(p) + corr, 0.56, 1.18)
    de_next = s * lift * W * math.cos(p1)

    # ---- tracking --------------------------------------------------------------------
    uh = KP * (q_now - q) + KD * (dq_next - dq) + dq_next / 150.0
    ue = KP * (e_now - e) + KD * (de_next - de) + 0.007

    act = np.zeros(8)
    act[hip_a] = uh
    act[ank_a] = es * ue
    return np.clip(act, -1.0, 1.0)
