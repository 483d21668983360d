import numpy as np
import math


def policy(obs):
    o = np.asarray(obs, dtype=float)

    def clip(v, lo, hi):
        return max(lo, min(hi, v))

    # ---------- torso orientation ----------
    qw, qx, qy, qz = o[1], o[2], o[3], o[4]
    n = math.sqrt(qw * qw + qx * qx + qy * qy + qz * qz) + 1e-9
    qw, qx, qy, qz = qw / n, qx / n, qy / n, qz / n
    xa0 = 1.0 - 2.0 * (qy * qy + qz * qz)
    xa1 = 2.0 * (qx * qy + qw * qz)
    za0 = 2.0 * (qx * qz + qw * qy)
    za1 = 2.0 * (qy * qz - qw * qx)
    za2 = 1.0 - 2.0 * (qx * qx + qy * qy)
    yaw = math.atan2(xa1, xa0)
    c, s = math.cos(yaw), math.sin(yaw)
    pitch = math.atan2(c * za0 + s * za1, za2)       # > 0: leaning forward
    roll = math.atan2(-(-s * za0 + c * za1), za2)    # > 0: leaning right
    roll_rate, pitch_rate, yaw_rate = o[25], o[26], o[27]

    # ---------- centre of mass and feet ----------
    ci = o[45:185].reshape(14, 10)
    cv = o[185:269].reshape(14, 6)
    mass = ci[:, 9]
    total = max(float(mass.sum()), 1e-6)
    mr = ci[:, 6:9]
    vcom = (mass[:, None] * cv[:, 3:6] + np.cross(cv[:, 0:3], mr)).sum(axis=0) / total
    vx = c * vcom[0] + s * vcom[1]
    vy = -s * vcom[0] + c * vcom[1]
    vz = vcom[2]

    foot_r = mr[6] / max(mass[6], 1e-6)
    foot_l = mr[9] / max(mass[9], 1e-6)
    rx = c * foot_r[0] + s * foot_r[1]
    ry = -s * foot_r[0] + c * foot_r[1]
    lx = c * foot_l[0] + s * foot_l[1]
    ly = -s * foot_l[0] + c * foot_l[1]
    com_z = o[0] + 0.035 * za2 - mr[1][2] / max(mass[1], 1e-6)
    rh = com_z + foot_r[2]      # height of the foot centres (0.075 on the ground)
    lh = com_z + foot_l[2]

    # ---------- foot targets relative to the COM ----------
    xt = clip(0.29 * vx - 0.10, -0.35, 0.45)
    vyd = -0.6 * clip(math.sin(yaw), -0.5, 0.5)
    ycap = 0.30 * vy - 0.08 * vyd
    yt_r = -clip(-ycap + 0.05, 0.04, 0.35)
    yt_l = clip(ycap + 0.05, 0.04, 0.35)

    # ---------- which leg swings ----------
    score = abs(xt - rx) - abs(xt - lx)
    score += 30.0 * (foot_r[2] - foot_l[2])
    score += 0.30 * vy - 0.5 * (ry + ly)
    p = 1.0 / (1.0 + math.exp(-clip(score / 0.012, -30.0, 30.0)))  # 1: right swings
    g_r = clip((0.12 - rh) / 0.03, 0.0, 1.0)     # 1: on the ground
    g_l = clip((0.12 - lh) / 0.03, 0.0, 1.0)
    sink = clip((-vz - 0.40) / 0.30, 0.0, 1.0)   # hard landing: use both legs
    w_r = p * (1.0 - sink) * g_l
    w_l = (1.0 - p) * (1.0 - sink) * g_r

    # ---------- torso errors ----------
    lean = 0.05 + clip(0.08 * (0.8 - vx), -0.04, 0.08)
    pe = pitch + 0.5 * o[6] - lean
    pr = pitch_rate + 0.5 * o[29]
    re = roll + 0.5 * o[7]
    rr = roll_rate + 0.5 * o[30]
    hip_torso = 1.2 * pe + 0.13 * pr
    roll_torso = 2.0 * re + 0.20 * rr
    yaw_fix = clip(0.2 * yaw + 0.04 * yaw_rate, -0.15, 0.15)

    def swing_hip(fx, dhy, dkn):
        return clip(-1.1 * (xt - fx) / 0.8 - 0.10 * (dhy - 0.3 * dkn), -0.4, 0.4)

    sw_r = swing_hip(rx, o[33], o[34])
    sw_l = swing_hip(lx, o[37], o[38])

    def leg(sgn, fx, fy, yt, i, w, w_other, g, sw, sw_other):
        hx, hz, kn = o[i], o[i + 1], o[i + 3]
        dhx, dhz, dkn = o[i + 23], o[i + 24], o[i + 26]
        # swing
        flex = 0.20 + clip(4.5 * (abs(xt - fx) - 0.03), 0.0, 1.0)
        kn_sw = 0.5 * (-flex - kn) - 0.04 * dkn
        hx_sw = sgn * 1.9 * (yt - fy) - 0.12 * dhx
        # stance
        ks = -(0.13 + clip(0.8 * fx, -0.07, 0.15))
        kn_st = 2.0 * (ks - kn) - 0.10 * dkn
        hy_st = hip_torso - 0.5 * w_other * sw_other
        hx_st = sgn * roll_torso - 0.25 * w_other
        # a leg in the air follows the foot target instead of the torso
        hy_st = g * hy_st + (1.0 - g) * sw
        hx_st = g * hx_st + (1.0 - g) * hx_sw
        hz_a = -0.5 * hz - 0.03 * dhz + sgn * g * (1.0 - w) * yaw_fix
        kn_st = clip(kn_st, -0.4, 0.4)
        kn_sw = clip(kn_sw, -0.4, 0.4)
        hx_st = clip(hx_st, -0.4, 0.4)
        hx_sw = clip(hx_sw, -0.4, 0.4)
        hy_st = clip(hy_st, -0.4, 0.4)
        return (w * hx_sw + (1.0 - w) * hx_st,
                hz_a,
                w * sw + (1.0 - w) * hy_st,
                w * kn_sw + (1.0 - w) * kn_st)

    right = leg(1.0, rx, ry, yt_r, 8, w_r, w_l, g_r, sw_r, sw_l)
    left = leg(-1.0, lx, ly, yt_l, 12, w_l, w_r, g_l, sw_l, sw_r)

    a = np.zeros(17)
    # abdomen: y, z, x
    a[0] = 0.8 * (pitch - lean) + 0.08 * pitch_rate - 1.0 * o[6] - 0.05 * o[29]
    a[1] = -1.0 * o[5] - 0.05 * o[28]
    a[2] = 0.8 * roll + 0.08 * roll_rate - 1.0 * o[7] - 0.05 * o[30]
    # legs: hip x, hip z, hip y, knee
    a[3], a[4], a[5], a[6] = right
    a[7], a[8], a[9], a[10] = left
    # arms: hold the initial pose
    for k in range(6):
        a[11 + k] = -1.0 * o[16 + k] - 0.05 * o[39 + k]

    a = np.nan_to_num(a)
    return np.clip(a, -0.4, 0.4)
