import numpy as np
import math


def policy(obs):
    o = np.nan_to_num(np.asarray(obs, dtype=float).ravel())
    act = np.zeros(17)

    # ---------------- torso orientation ----------------
    qw, qx, qy, qz = float(o[1]), float(o[2]), float(o[3]), float(o[4])
    n = math.sqrt(qw * qw + qx * qx + qy * qy + qz * qz) + 1e-9
    qw, qx, qy, qz = qw / n, qx / n, qy / n, qz / n
    r00 = 1.0 - 2.0 * (qy * qy + qz * qz)
    r10 = 2.0 * (qx * qy + qw * qz)
    ux = 2.0 * (qx * qz + qw * qy)
    uy = 2.0 * (qy * qz - qw * qx)
    uz = 1.0 - 2.0 * (qx * qx + qy * qy)
    psi = math.atan2(r10, r00) + float(o[5])      # heading of the pelvis
    c, s = math.cos(psi), math.sin(psi)
    pitch = math.atan2(c * ux + s * uy, uz)       # > 0: leaning forward
    roll = -math.atan2(-s * ux + c * uy, uz)      # > 0: leaning right
    wx, wy = float(o[25]), float(o[26])
    p_pitch = pitch + float(o[6])
    p_roll = roll + float(o[7])
    p_wy = wy + float(o[29])
    p_wx = wx + float(o[30])

    # ---------------- positions relative to the COM, COM velocity ----------------
    C = o[45:185].reshape(14, 10)
    V = o[185:269].reshape(14, 6)
    m = np.maximum(C[1:, 9], 1e-6)
    rel = C[1:, 6:9] / m[:, None]
    vb = V[1:, 3:6] + np.cross(V[1:, 0:3], rel)
    vcom = (m[:, None] * vb).sum(axis=0) / m.sum()
    P = np.zeros((13, 3))
    P[:, 0] = c * rel[:, 0] + s * rel[:, 1]
    P[:, 1] = -s * rel[:, 0] + c * rel[:, 1]
    P[:, 2] = rel[:, 2]
    vx = float(c * vcom[0] + s * vcom[1])
    vy = float(-s * vcom[0] + c * vcom[1])
    com_z = float(o[0]) + 0.0347 * uz - float(P[0, 2])

    # legs: 0 = right (bodies 4, 5, 6), 1 = left (bodies 7, 8, 9)
    hips = []
    feet = []
    hgt = []
    for i in range(2):
        th = P[3 + 3 * i]
        sh = P[4 + 3 * i]
        ft = P[5 + 3 * i]
        kn = sh + (sh - ft) * 0.85
        hp = th + (th - kn) * (0.17 / 0.213)
        hips.append(hp)
        feet.append(ft)
        hgt.append(com_z + float(ft[2]) - 0.075)

    # ---------------- foot placement targets (relative to the COM) ----------------
    W0 = 3.4
    L1, L2 = 0.383, 0.37
    R0 = 0.725          # hip height above the foot centre at mid-stance
    RMAX = 0.747
    H = 0.07
    B = 0.12
    xi_y = vy / W0
    x_t = 1.1 * vx / W0 - B * max(0.0, c)
    x_t = min(max(x_t, -0.28), 0.34)
    y_shift = min(max(0.4 * B * s, -0.04), 0.04)

    # ---------------- which leg swings ----------------
    mid_y = 0.5 * float(feet[0][1] + feet[1][1])
    xi_rel = xi_y - mid_y
    score = (hgt[0] - hgt[1]) + 0.15 * float(feet[1][0] - feet[0][0]) + 0.5 * xi_rel
    sw = 0 if score > 0.0 else 1
    st = 1 - sw
    u = xi_rel if sw == 0 else -xi_rel            # > 0: capture point on the stance side
    fy = min(max((u + 0.07) / 0.06, 0.0), 1.0)
    e_sw = x_t - float(feet[sw][0])

    ground = []
    for i in range(2):
        ground.append(min(max((0.035 - hgt[i]) / 0.025, 0.0), 1.0))
    lift_f = min(max((e_sw - 0.02) / 0.05, 0.0), 1.0) * min(1.0, 3.0 * fy)
    lift_b = min(max((-e_sw - 0.16) / 0.05, 0.0), 1.0) * min(1.0, 3.0 * fy)
    in_air = min(max(hgt[sw] / 0.03, 0.0), 1.0)
    lam = ground[st] * max(in_air, lift_f, lift_b)

    w = [0.0, 0.0]                                # stance weight of each leg
    w[st] = ground[st]
    w[sw] = (1.0 - lam) * ground[sw]
    wsum = max(w[0] + w[1], 1.0)

    both_air = min(hgt[0], hgt[1]) > 0.04
    lo = -0.03 if both_air else -0.12

    # ---------------- swing / landing command of each leg ----------------
    hipx_sw = [0.0, 0.0]
    hipy_sw = [0.0, 0.0]
    knee_sw = [0.0, 0.0]
    for i in range(2):
        sg = -1.0 if i == 0 else 1.0
        rs = -sg
        j = 8 + 4 * i
        k = 31 + 4 * i
        e = x_t - float(feet[i][0])
        if i == sw:
            fx = max(min(max(e / 0.10, 0.0), 1.0),
                     min(max((-e - 0.10) / 0.10, 0.0), 1.0))
            f = min(fx, fy)
        else:
            f = 0.0
        h_d = -0.02 + (H + 0.02) * f
        x_cmd = float(feet[i][0]) + min(max(e, lo), 0.16)
        y_cmd = sg * min(max(sg * (xi_y + y_shift) + 0.06, 0.08), 0.35)
        dx = x_cmd - float(hips[i][0])
        dy = y_cmd - float(hips[i][1])
        dz = max(com_z + float(hips[i][2]) - 0.075 - h_d, 0.3)
        r = math.sqrt(dx * dx + dy * dy + dz * dz)
        rc = min(max(r, 0.45), RMAX)
        ck = (rc * rc - L1 * L1 - L2 * L2) / (2.0 * L1 * L2)
        kap = math.acos(min(max(ck, -1.0), 1.0))
        beta = math.atan2(L2 * math.sin(kap), L1 + L2 * math.cos(kap))
        alpha = math.atan2(dx, dz)
        theta = math.asin(min(max(dy / max(r, 0.1), -0.6), 0.6))
        q_hy = min(max(-(alpha + beta) - p_pitch, -1.6), 0.33)
        q_hx = min(max(rs * (theta - p_roll), -0.40), 0.07)
        a_hx = 1.5 * (q_hx - float(o[j])) - 0.15 * float(o[k])
        a_hy = (1.0 * (q_hy - float(o[j + 2])) - 0.10 * float(o[k + 2])
                + 0.067 * float(o[j + 2]))
        a_kn = 0.8 * (-kap - float(o[j + 3])) - 0.05 * float(o[k + 3])
        hipx_sw[i] = min(max(a_hx, -0.4), 0.4)
        hipy_sw[i] = min(max(a_hy, -0.4), 0.4)
        knee_sw[i] = min(max(a_kn, -0.4), 0.4)

    # ---------------- stance command and blending ----------------
    pitch_err = 0.5 * (pitch + p_pitch) - 0.05
    pitch_rate = 0.5 * (wy + p_wy)
    t_pitch = 1.2 * pitch_err + 0.15 * pitch_rate
    react = (1.0 - w[0]) * hipy_sw[0] + (1.0 - w[1]) * hipy_sw[1]
    t_pitch = t_pitch - 0.5 * react
    t_roll = 1.5 * p_roll + 0.15 * p_wx

    for i in range(2):
        sg = -1.0 if i == 0 else 1.0
        rs = -sg
        j = 8 + 4 * i
        k = 31 + 4 * i
        a0 = 3 + 4 * i
        other = w[1 - i]
        share = w[i] / wsum

        # knee: keep the hip height, carry the weight
        dx = float(feet[i][0] - hips[i][0])
        r_d = min(math.sqrt(R0 * R0 + dx * dx), RMAX)
        ck = (r_d * r_d - L1 * L1 - L2 * L2) / (2.0 * L1 * L2)
        kap_d = math.acos(min(max(ck, -1.0), 1.0))
        kap = min(max(-float(o[j + 3]), 0.0), 1.2)
        beta = math.atan2(L2 * math.sin(kap), L1 + L2 * math.cos(kap))
        ff = share * 400.0 * L1 * math.sin(beta) / 200.0
        a_kn = (1.0 * (-kap_d - float(o[j + 3])) - 0.06 * float(o[k + 3])
                + 0.9 * ff)
        a_kn = min(max(a_kn, -0.4), 0.4)

        # hip y: torso pitch;  hip x: pelvis roll
        frac = 1.0 / max(1.0 + other, 1.0)
        a_hy = min(max(t_pitch * frac, -0.4), 0.4)
        a_hx = (rs * t_roll * frac
                - 0.22 * (1.0 - other)
                + other * (0.5 * (-0.04 - float(o[j])) - 0.05 * float(o[k])))
        a_hx = min(max(a_hx, -0.4), 0.4)

        act[a0] = w[i] * a_hx + (1.0 - w[i]) * hipx_sw[i]
        act[a0 + 1] = -0.4 * float(o[j + 1]) - 0.02 * float(o[k + 1])
        act[a0 + 2] = w[i] * a_hy + (1.0 - w[i]) * hipy_sw[i]
        act[a0 + 3] = w[i] * a_kn + (1.0 - w[i]) * knee_sw[i]

    # ---------------- abdomen: straight, torso upright ----------------
    act[0] = (-1.0 * float(o[6]) - 0.08 * float(o[29])
              + 0.5 * (pitch - 0.05) + 0.05 * wy)
    act[1] = -0.8 * float(o[5]) - 0.06 * float(o[28])
    act[2] = (-1.0 * float(o[7]) - 0.08 * float(o[30])
              + 0.5 * roll + 0.05 * wx)

    # ---------------- arms: hold the initial pose ----------------
    for i in range(6):
        elbow = (i == 2 or i == 5)
        kp = 0.4 if elbow else 0.6
        kd = 0.02 if elbow else 0.04
        act[11 + i] = -kp * float(o[16 + i]) - kd * float(o[39 + i])

    return np.clip(np.nan_to_num(act), -0.4, 0.4)
