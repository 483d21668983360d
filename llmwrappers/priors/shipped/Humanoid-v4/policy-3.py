import numpy as np
import math


def policy(obs):
    o = np.asarray(obs, dtype=np.float64)
    a = np.zeros(17)

    OM = 3.4          # pendulum rate sqrt(g/h)
    VD = 0.9          # desired forward speed

    # ---------- torso orientation ----------
    n = math.sqrt(float(np.sum(o[1:5] ** 2))) + 1e-9
    qw, qx, qy, qz = [float(v) / n for v in o[1:5]]
    fx = 1.0 - 2.0 * (qy * qy + qz * qz)
    fy = 2.0 * (qx * qy + qw * qz)
    upx = 2.0 * (qx * qz + qw * qy)
    upy = 2.0 * (qy * qz - qw * qx)
    upz = 1.0 - 2.0 * (qx * qx + qy * qy)
    yaw = math.atan2(fy, fx)
    cy, sy = math.cos(yaw), math.sin(yaw)
    pitch = math.asin(max(-1.0, min(1.0, upx * cy + upy * sy)))    # + forward
    roll = -math.asin(max(-1.0, min(1.0, -upx * sy + upy * cy)))   # + right
    roll_rate, pitch_rate, yaw_rate = float(o[25]), float(o[26]), float(o[27])
    pitch_p = pitch + float(o[6])
    pitch_p_rate = pitch_rate + float(o[29])
    roll_p = roll + float(o[7])
    roll_p_rate = roll_rate + float(o[30])

    # ---------- centre of mass and feet ----------
    ci = o[45:185].reshape(14, 10)
    cv = o[185:269].reshape(14, 6)
    m = ci[:, 9]
    md = ci[:, 6:9]
    M = max(float(np.sum(m)), 1.0)
    vcom = (np.sum(m[:, None] * cv[:, 3:6], axis=0)
            + np.sum(np.cross(cv[:, 0:3], md), axis=0)) / M
    vt = o[22:25]
    vcom = np.clip(vcom, vt - 0.6, vt + 0.6)
    vx = float(vcom[0] * cy + vcom[1] * sy)       # in the heading frame
    vy = float(-vcom[0] * sy + vcom[1] * cy)
    vx = max(-2.0, min(3.0, vx))
    vy = max(-1.5, min(1.5, vy))

    comz = float(o[0]) + 0.0347 * upz - float(md[1, 2]) / max(float(m[1]), 1e-3)
    px, py, hz = [], [], []                        # index 0 right, 1 left
    for b in (6, 9):
        d = md[b] / max(float(m[b]), 1e-3)
        px.append(float(d[0] * cy + d[1] * sy))
        py.append(float(-d[0] * sy + d[1] * cy))
        hz.append(comz + float(d[2]) - 0.075)

    knee_r, knee_l = float(o[11]), float(o[15])

    # ---------- which leg is stance ----------
    mid = 0.5 * (py[0] + py[1])
    half = max(0.5 * (py[1] - py[0]), 0.06)
    s = (vy / OM - mid) / half
    if abs(s) <= 1.1:
        g = max(-1.0, min(1.0, s))
    else:
        g = math.copysign(max(-1.0, 1.0 - 4.0 * (abs(s) - 1.1)), s)
    h_term = max(-3.0, min(3.0, (hz[0] - hz[1]) / 0.01))
    k_term = max(-1.0, min(1.0, 1.5 * (knee_l - knee_r)))
    score = g + h_term + k_term                    # > 0: left leg is stance

    st = 1 if score > 0.0 else 0
    sw = 1 - st
    sg_st = 1.0 if st == 1 else -1.0               # +1 left, -1 right
    sg_sw = -sg_st

    # stance contact: 1 on the floor, 0 in the air
    cs = max(0.0, min(1.0, (0.035 - hz[st]) / 0.02))

    # ---------- phase ----------
    off = max(-py[st] * sg_sw, 0.03)
    r = (vy * sg_sw) / (OM * off)
    dx = -px[st]
    u = max(r, dx / 0.3)
    c = max(0.0, min(1.0, (0.25 - u) / 0.35))
    c *= max(0.0, min(1.0, (r + 1.3) / 0.3))
    c *= cs

    # ---------- foot placement ----------
    vxd = VD * max(0.3, cy)
    vyd = max(-0.1, min(0.1, -VD * sy))
    x_des = 0.335 * vx - 0.16 * vxd
    x_des = max(-0.08 + 0.335 * min(vx, 0.0), min(0.42, x_des))
    y_des = 0.335 * vy + 0.035 * sg_sw - 0.16 * vyd
    out_des = max(0.08, min(0.32, y_des * sg_sw))

    # joint offsets: right leg obs 8.., action 3..; left leg obs 12.., action 7..
    q_sw, d_sw, a_sw = (12, 35, 7) if sw == 1 else (8, 31, 3)
    q_st, d_st, a_st = (12, 35, 7) if st == 1 else (8, 31, 3)

    # ---------- swing leg ----------
    out_now = py[sw] * sg_sw
    a[a_sw + 0] = -2.0 * (out_des - out_now) - 0.12 * o[d_sw + 0]
    a[a_sw + 1] = -0.3 * o[q_sw + 1] - 0.01 * o[d_sw + 1]
    hip_sw = -1.6 * (x_des - px[sw]) - 0.08 * o[d_sw + 2]
    hip_sw = max(-0.38, min(0.38, float(hip_sw)))
    a[a_sw + 2] = hip_sw
    knee_t = -0.12 - 0.95 * c
    a[a_sw + 3] = 0.7 * (knee_t - o[q_sw + 3]) - 0.035 * o[d_sw + 3]

    # ---------- stance leg ----------
    pd = max(0.03, min(0.10, 0.06 + 0.05 * (vxd - vx)))
    pm = 0.5 * (pitch + pitch_p) - pd
    pmr = 0.5 * (pitch_rate + pitch_p_rate)
    hip_y_c = 1.2 * pm + 0.13 * pmr - 0.5 * max(-0.3, min(0.3, hip_sw))
    x_air = max(-0.03, min(0.3, x_des))
    hip_y_air = -1.6 * (x_air - px[st]) - 0.08 * o[d_st + 2]
    a[a_st + 2] = cs * hip_y_c + (1.0 - cs) * hip_y_air

    ff = 0.28 * max(0.3, min(1.0, hz[sw] / 0.01))
    hip_x_c = -ff - sg_st * (2.5 * roll_p + 0.25 * roll_p_rate)
    hip_x_air = -1.0 * o[q_st + 0] - 0.10 * o[d_st + 0]
    a[a_st + 0] = cs * hip_x_c + (1.0 - cs) * hip_x_air

    yaw_c = max(-0.1, min(0.1, 0.2 * yaw + 0.04 * yaw_rate))
    a[a_st + 1] = -0.3 * o[q_st + 1] - 0.01 * o[d_st + 1] - sg_st * cs * yaw_c

    knee_st = -0.06 - 0.10 * (1.0 - cs)
    a[a_st + 3] = 1.2 * (knee_st - o[q_st + 3]) - 0.05 * o[d_st + 3]

    # ---------- abdomen: torso upright ----------
    a[0] = 1.2 * (pitch - pd) + 0.10 * pitch_rate - 0.3 * o[6] - 0.03 * o[29]
    a[1] = -0.8 * o[5] - 0.05 * o[28]
    a[2] = 1.2 * roll + 0.10 * roll_rate - 0.3 * o[7] - 0.03 * o[30]

    # ---------- arms: hold the initial pose ----------
    for i in range(6):
        kd = 0.02 if i in (2, 5) else 0.05
        a[11 + i] = -0.6 * o[16 + i] - kd * o[39 + i]

    a = np.nan_to_num(a)
    return np.clip(a, -0.4, 0.4)
