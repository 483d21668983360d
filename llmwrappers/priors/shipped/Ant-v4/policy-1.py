import numpy as np
import math


def policy(obs):
    obs = np.asarray(obs, dtype=float)

    # ---- constants -------------------------------------------------------
    W = 11.0        # gait frequency, rad/s
    DT = 0.05       # control step
    A = 0.40        # hip stroke, rad
    B = 0.20        # ankle lift, rad
    E0 = 0.85       # mean ankle extension, rad
    KP = 0.70
    KD = 0.12

    # legs in order 1, 2, 3, 4
    hip_o = [5, 7, 9, 11]
    ank_o = [6, 8, 10, 12]
    hip_v = [19, 21, 23, 25]
    ank_v = [20, 22, 24, 26]
    hip_a = [2, 4, 6, 0]
    ank_a = [3, 5, 7, 1]
    hs = np.array([-1.0, -1.0, 1.0, 1.0])     # h = hs*q : foot forward
    es = np.array([1.0, -1.0, -1.0, 1.0])     # e = es*q : foot down
    sig = np.array([1.0, -1.0, 1.0, -1.0])    # diagonal pairs
    side = np.array([1.0, 1.0, -1.0, -1.0])   # left +, right -
    r = math.sqrt(0.5)
    ca = np.array([r, -r, -r, r])             # leg direction, x
    sa = np.array([r, r, -r, -r])             # leg direction, y

    # ---- torso -----------------------------------------------------------
    height = obs[0]
    q = obs[1:5]
    n = math.sqrt(float(np.dot(q, q))) + 1e-9
    w, x, y, z = q / n
    yaw = math.atan2(2.0 * (w * z + x * y), 1.0 - 2.0 * (y * y + z * z))
    ux = 2.0 * (x * z - w * y)
    uy = 2.0 * (y * z + w * x)
    uz = 1.0 - 2.0 * (x * x + y * y)
    wx, wy, wz = obs[16], obs[17], obs[18]

    # ---- joints in leg coordinates ----------------------------------------
    h = hs * obs[hip_o]
    dh = hs * obs[hip_v]
    e = es * obs[ank_o]
    de = es * obs[ank_v]

    # ---- stroke of each leg (steering) -------------------------------------
    turn = float(np.clip(0.7 * yaw + 0.08 * wz, -0.6, 0.6))
    fade = float(np.clip((uz - 0.2) / 0.5, 0.15, 1.0))
    Ai = np.clip(A * (max(math.cos(yaw), 0.0) + turn * side), -0.48, 0.48) * fade

    # ---- phase from the hips (least-squares projection on the trot mode) ----
    den = float(np.dot(Ai, Ai)) + 1e-6
    c = float(np.dot(sig * Ai, h)) / den
    dc = float(np.dot(sig * Ai, dh)) / den
    phi = math.atan2(-dc / W, c)
    nxt = phi + W * DT

    # ---- hip targets -----------------------------------------------------
    h_now = sig * Ai * math.cos(phi)
    dh_next = -sig * Ai * W * math.sin(nxt)

    # ---- ankle targets -----------------------------------------------------
    el = ux * ca + uy * sa
    d_el = -wy * ca + wx * sa
    corr = np.clip(-0.4 * el - 0.04 * d_el, -0.2, 0.2)
    push = float(np.clip((0.90 - height) / 0.20, 0.2, 1.0))
    Bi = B * push
    e_now = np.clip(E0 + corr + Bi * sig * math.sin(phi), 0.56, 1.18)
    de_next = Bi * sig * W * math.cos(nxt)

    # ---- tracking ----------------------------------------------------------
    uh = KP * (h_now - h) + KD * (dh_next - dh) + dh_next / 150.0
    ue = KP * (e_now - e) + KD * (de_next - de) + 0.007

    act = np.zeros(8)
    act[hip_a] = hs * uh
    act[ank_a] = es * ue
    return np.clip(act, -1.0, 1.0)
