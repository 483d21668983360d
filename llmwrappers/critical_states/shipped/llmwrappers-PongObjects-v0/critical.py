import numpy as np
import math


def critical(obs):
    UP, DOWN, NOOP = 2, 3, 0
    play = float(obs[0])
    x = float(obs[1])
    y = float(obs[2])
    vx = float(obs[3])
    vy = float(obs[4])
    py = float(obs[5])
    pv = float(obs[6])

    # the ball is about to reach the column of the own paddle
    if play < 0.5 or vx < 1.0 or x < 50.0 or x >= 71.0:
        return False, 0, 0.0
    tau = (71.5 - x) / vx
    if tau < 0.35 or tau > 2.6:
        return False, 0, 0.0

    # height of the ball when it is hit, with bounces off the walls
    target = y + vy * tau
    if target < 0.0:
        target = -target
    if target > 80.0:
        target = 160.0 - target

    gap = target - py          # > 0: the paddle is too high, move down
    dist = abs(gap)
    if dist > 17.0:
        return False, 0, 0.0   # out of reach
    if tau > 2.0 and dist <= 2.0 and abs(pv) <= 2.0:
        return False, 0, 0.0   # well placed with time to spare

    towards = DOWN if gap > 0 else UP
    speed = abs(pv)

    if speed >= 6.0:
        # fast paddle: coast, brake or press on
        same = DOWN if pv > 0 else UP
        opposite = UP if pv > 0 else DOWN
        along = gap if pv > 0 else -gap
        low = 0.35 * speed
        high = 0.5 * (0.7 * speed + 11.0)
        if tau > 1.3:
            high += 4.0 * min(1.0, tau - 1.0)
        if along < low:
            action = opposite
        elif along <= high:
            action = NOOP
        else:
            action = same
    else:
        # slow paddle: correct towards the ball
        threshold = 4.0 if tau > 2.0 else 1.3
        if dist <= threshold:
            action = NOOP
        else:
            action = towards

    # how good it is to be here
    if action == NOOP:
        reward = 0.5 - 0.01 * max(0.0, dist - 3.0)
    elif dist <= 3.0 and speed < 6.0:
        reward = 0.4
    else:
        away = -pv if gap > 0 else pv      # > 0: moving away from the ball
        reward = 0.35 - 0.04 * max(0.0, dist - 5.0)
        if away > 0:
            reward -= 0.06 * away
            if vx > 3.5:
                reward -= 0.5
        else:
            reward += 0.03 * min(-away, 8.0)
        if tau < 0.6:
            reward -= 0.4
        if (py >= 80.0 and gap < 0) or (py <= 0.0 and gap > 0):
            reward -= 0.2
    reward = max(-1.0, min(1.0, reward))
    return True, int(action), float(reward)
