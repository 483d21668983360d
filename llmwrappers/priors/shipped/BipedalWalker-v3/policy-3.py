import numpy as np
import math


def policy(obs):
    s = np.asarray(obs, dtype=float)
    L = 34.0 / 30.0

    th = float(s[0])              # hull angle, + leans back
    om = float(s[1])              # hull rate, unit 25 rad/s
    v = float(s[2]) * 8.333       # forward speed, m/s
    vz = float(s[3]) * 12.5       # vertical speed, m/s

    hip = [float(s[4]), float(s[9])]
    hipv = [float(s[5]), float(s[10])]
    knee = [float(s[6]), float(s[11])]
    kneev = [float(s[7]), float(s[12])]
    con = [s[8] > 0.5, s[13] > 0.5]

    def clip(x, lo, hi):
        return max(lo, min(hi, x))

    # foot position relative to the hip, world axes (x forward, y down)
    fx = [0.0, 0.0]
    fy = [0.0, 0.0]
    for i in range(2):
        a1 = th + hip[i]
        a2 = a1 + knee[i] - 1.0
        fx[i] = L * (math.sin(a1) + math.sin(a2))
        fy[i] = L * (math.cos(a1) + math.cos(a2))

    def ik(x, y):
        r = clip(math.hypot(x, y), 1.6, 2.25)
        half = math.acos(clip(r / (2.0 * L), -1.0, 1.0))
        thigh = math.atan2(x, y) + half
        return clip(thigh - th, -0.7, 1.05), clip(1.0 - 2.0 * half, -0.55, 0.88)

    def track(i, x, y):
        # light leg in the air: bring the foot to (x, y)
        ht, kt = ik(x, y)
        ah = 1.0 * (ht - hip[i]) - 0.30 * hipv[i]
        ak = 0.8 * (kt - knee[i]) - 0.15 * kneev[i]
        return ah, ak

    def hold(i, kt):
        # loaded knee: stiff, feed-forward for the weight, vertical damping
        return 2.0 * (kt - knee[i]) - 0.15 * kneev[i] + 0.15 - 0.4 * vz

    # hull attitude through the loaded hip(s)
    hp = clip(1.0 * (th + 0.05) + 6.0 * om, -0.8, 0.8)

    # roles
    if con[0] and not con[1]:
        st = 0
    elif con[1] and not con[0]:
        st = 1
    else:
        sc0 = fx[0] + 0.4 * knee[0]
        sc1 = fx[1] + 0.4 * knee[1]
        st = 0 if sc0 >= sc1 else 1
    sw = 1 - st

    both = con[0] and con[1]
    none = (not con[0]) and (not con[1])

    x_st = fx[st]
    y_st = clip(fy[st], 1.8, 2.25)

    # foot placement from the (shortly predicted) speed
    v_eff = v if none else v - 1.0 * clip(x_st, -0.6, 0.6)
    x_des = float(np.interp(v_eff,
                            [-0.5, 0.0, 0.5, 1.0, 2.0, 3.0],
                            [-0.60, -0.45, -0.15, 0.10, 0.42, 0.70]))

    act = [0.0, 0.0, 0.0, 0.0]

    if none:
        # flight: front leg prepares the landing, rear leg stays folded
        ah, ak = track(st, x_des, 2.15)
        bh, bk = track(sw, -0.1, 1.75)
        act[2 * st] = ah
        act[2 * st + 1] = ak
        act[2 * sw] = bh
        act[2 * sw + 1] = bk
    else:
        drive = clip((2.4 - v) / 0.8, 0.0, 1.0)
        late = clip((-0.2 - x_st) / 0.3, 0.0, 1.0)
        k_st = 0.45 + 0.4 * drive * late

        pushing = False
        if both:
            spread = fx[st] - fx[sw]
            x_lift = 0.4 * (v - 1.0)
            pushing = (spread > 0.3) and (x_st > x_lift)

        if pushing:
            # double support: rear knee extends, a slow front knee yields
            k_front = 0.45 - 0.5 * clip((0.8 - v) / 0.8, 0.0, 1.0)
            act[2 * st] = 0.5 * hp
            act[2 * st + 1] = hold(st, k_front)
            act[2 * sw] = 0.5 * hp
            ak = 2.0 * (0.95 - knee[sw]) - 0.10 * kneev[sw] - 0.4 * vz
            act[2 * sw + 1] = clip(ak, -0.2, 0.6)
        else:
            # single support (or the rear leg just lifting off)
            act[2 * st] = hp
            act[2 * st + 1] = hold(st, k_st)

            if both:
                g = 0.0
            else:
                near = clip(1.0 - (abs(fx[sw] - x_des) - 0.12) / 0.2, 0.0, 1.0)
                x_td = float(np.interp(v, [0.5, 1.0, 2.0, 3.0],
                                       [-0.10, -0.10, -0.05, 0.10]))
                due = clip((x_td + 0.1 - x_st) / 0.15, 0.0, 1.0)
                slow = clip((0.6 - v) / 0.2, 0.0, 1.0)
                g = near * max(due, slow)

            y_des = y_st - 0.40 + 0.47 * g
            bh, bk = track(sw, x_des, y_des)
            act[2 * sw] = bh
            act[2 * sw + 1] = bk

    return np.clip(np.array(act, dtype=float), -1.0, 1.0)
