import numpy as np
import math


def policy(obs):
    obs = np.asarray(obs, dtype=float)

    # ---------------- parameters ----------------
    T = 0.05          # control step
    GEAR = 150.0      # joint acceleration per unit action (armature = 1)
    W = 13.0          # gait frequency, rad/s
    A = 0.40          # hip amplitude, rad
    GB = 15.0         # amplitude regulation
    KPH, KDH = 120.0, 16.0    # leg-to-mode synchronisation
    KPA, KDA = 150.0, 17.0    # ankle PD
    KS = 0.82         # stance ankle angle (down positive)
    LIFT = 0.22       # swing lift, rad
    C = 0.2           # early lift
    G_TILT, G_RATE = 1.0, 0.03
    K_YAW = 0.9

    # ---------------- signs (legs 1,2,3,4) ----------------
    s = np.array([1.0, 1.0, -1.0, -1.0])       # hip: + = foot moves back
    a = np.array([1.0, -1.0, -1.0, 1.0])       # ankle: + = foot down
    sig = np.array([1.0, -1.0, 1.0, -1.0])     # trot pairs (1,3) / (2,4)
    dx = np.array([1.0, -1.0, -1.0, 1.0]) * 0.7071
    dy = np.array([1.0, 1.0, -1.0, -1.0]) * 0.7071

    h = s * obs[[5, 7, 9, 11]]
    hv = s * obs[[19, 21, 23, 25]]
    k = a * obs[[6, 8, 10, 12]]
    kv = a * obs[[20, 22, 24, 26]]

    # ---------------- torso orientation ----------------
    q = obs[1:5]
    n = math.sqrt(float(np.dot(q, q)))
    if n < 1e-6:
        qw, qx, qy, qz = 1.0, 0.0, 0.0, 0.0
    else:
        qw, qx, qy, qz = [float(c) / n for c in q]
    yaw = math.atan2(2.0 * (qw * qz + qx * qy), 1.0 - 2.0 * (qy * qy + qz * qz))
    r31 = 2.0 * (qx * qz - qw * qy)
    r32 = 2.0 * (qy * qz + qw * qx)
    wx, wy = float(obs[16]), float(obs[17])

    # ---------------- steering: stride scale per leg ----------------
    e = min(max(K_YAW * yaw, -1.2), 1.2)
    left = min(max(1.0 + e, -0.5), 1.2)
    right = min(max(1.0 - e, -0.5), 1.2)
    sc = np.array([left, left, right, right])

    # ---------------- hip oscillator mode ----------------
    w = sig * sc
    den = float(np.dot(w, w)) + 1e-9
    H = float(np.dot(w, h)) / den
    V = float(np.dot(w, hv)) / den
    r = math.sqrt(H * H + (V / W) ** 2)
    if r < 1e-4:
        H = 1e-4
        r = 1e-4

    half = 0.5 * W * T
    ch, sh = math.cos(half), math.sin(half)
    Hm = H * ch + (V / W) * sh
    Vm = V * ch - W * H * sh

    boost = GB * (A - r) / max(r, 0.02)
    boost = min(max(boost, -15.0), 20.0)
    acc_mode = -W * W * Hm + boost * Vm

    acc_hip = w * acc_mode + KPH * (w * H - h) + KDH * (w * V - hv) + hv

    # ---------------- ankles from the phase ----------------
    theta = math.atan2(-V / W, H)
    th_m = theta + half

    lift = LIFT * min(1.0, r / (0.5 * A))
    nrm = (1.0 + C) ** 2

    # profile at the current phase
    S = -sig * math.sin(theta)
    Sd = -sig * W * math.cos(theta)
    p = np.maximum(0.0, C - S)
    k_d = KS - lift * p * p / nrm
    kv_d = lift * 2.0 * p / nrm * Sd

    # feedforward acceleration at mid step
    Sm = -sig * math.sin(th_m)
    Smd = -sig * W * math.cos(th_m)
    Smdd = -W * W * Sm
    pm = np.maximum(0.0, C - Sm)
    act_m = (pm > 0.0).astype(float)
    k_ff = -lift * (2.0 / nrm * act_m * Smd * Smd - 2.0 * pm / nrm * Smdd)

    # tilt correction: extend legs on the low side
    zi = r31 * dx + r32 * dy
    zr = wx * dy - wy * dx
    dk = np.clip(-G_TILT * zi - G_RATE * zr, -0.15, 0.22)
    k_d = np.clip(k_d + dk, 0.55, 1.15)

    acc_ank = k_ff + KPA * (k_d - k) + KDA * (kv_d - kv) + kv

    # ---------------- to actions ----------------
    u_h = s * acc_hip / GEAR
    u_a = a * acc_ank / GEAR

    act = np.zeros(8)
    act[2], act[3] = u_h[0], u_a[0]   # leg 1
    act[4], act[5] = u_h[1], u_a[1]   # leg 2
    act[6], act[7] = u_h[2], u_a[2]   # leg 3
    act[0], act[1] = u_h[3], u_a[3]   # leg 4

    act = np.nan_to_num(act, nan=0.0, posinf=1.0, neginf=-1.0)
    return np.clip(act, -1.0, 1.0)
