# ruff: noqa
"""Forms of masked TD3 tried side by side, one short run each: python benchmarks/forms.py --name N --env-id E and the form's options.

An experiment, not a part of the toolkit: what won is in td3_camel.py, what lost is in the log of results.
"""

import csv, itertools, math, sys, time, warnings
from dataclasses import dataclass
from pathlib import Path
import gymnasium as gym, numpy as np, torch, tyro

sys.path.insert(0, str(Path(__file__).parents[1] / "cleanrl_scripts"))
from td3_camel import MLP, Adam, Actor, choose_matmul
from llmwrappers.priors import load_prior
from llmwrappers.discounted_returns import DiscountedReturns, difference


@dataclass
class Args:
    out: str = "out"
    name: str = "x"
    env_id: str = "Hopper-v4"
    seed: int = 1
    candidate: int | None = None
    total: int = 60_000
    mask_steps: int = 25_000
    starts: int = 5_000
    clone_steps: int = 10_000  # until here the actor only clones
    radius: float = 0.3
    pull: float = 2.0  # weight of mean(((pi-prior)/radius)^2) against Q/mean|Q|
    pull_end: float = 2.0  # linear from mask_steps*pull_from to pull_until
    pull_until: float = 1.0  # fraction of total
    norm: bool = True
    critics: int = 2
    target: str = "min"  # min over all | mean
    qfilter: bool = False
    ibrl: bool = False  # act and bootstrap by the argmax over actor and prior
    adaptive: str = "none"
    gate: str = "episode"
    prior: bool = True
    noise: float = 0.1
    utd: int = 1
    eval_every: int = 5000
    eval_episodes: int = 5
    actor_mean: bool = False  # actor ascends the mean of all critics
    policy_noise: float = 0.2
    ckpt: bool = False
    lr: float = 3e-4
    keep: float = 0.0  # probability of a masked episode after the mask faded
    nstep: int = 1
    tau: float = 1500.0
    prior_pull: float = 0.0
    factor: float = 0.0
    bad: str = ""
    clone_updates: int = 1
    trials: int = 5
    rollback: bool = False
    pull_from: float = -1.0
    batch: int = 128
    safe: float = 0.97
    mode_target: bool = False


def main():
    args = tyro.cli(Args)
    warnings.filterwarnings("ignore")
    torch.set_grad_enabled(False)
    torch.set_flush_denormal(True)
    torch.set_num_threads(1)
    choose_matmul("float32")
    rng = np.random.default_rng(args.seed)
    env, eval_env = (
        gym.make(args.env_id, disable_env_checker=True),
        gym.make(args.env_id, disable_env_checker=True),
    )
    O, A = env.observation_space.shape[0], env.action_space.shape[0]
    scale = float(env.action_space.high[0])
    P = (
        load_prior(str(Path(__file__).parent / "bad_priors" / f"{args.bad}.py"))
        if args.bad
        else load_prior(args.env_id, args.candidate)
        if args.prior
        else None
    )
    ALL = (
        [load_prior(args.env_id, k) for k in (1, 2, 3, 4, 5)]
        if args.gate == "disagree"
        else []
    )
    gate_n = [0, 1]

    def prior(obs):
        return (
            np.clip(np.asarray(P(obs.copy()), dtype=np.float32) / scale, -1, 1)
            if P
            else np.zeros(A, np.float32)
        )

    B, dev = args.batch, torch.device("cpu")
    actor = MLP(1, [O, 256, 256, A], B, dev)
    tactor = MLP(1, [O, 256, 256, A], B, dev)
    N = args.critics
    critic = MLP(N, [O + A, 256, 256, 1], B, dev, args.norm)
    tcritic = MLP(N, [O + A, 256, 256, 1], B, dev, args.norm)
    for a, b in ((actor, tactor), (critic, tcritic)):
        a.initialize(rng)
        b.flat.copy_(a.flat)
    first = critic if args.actor_mean else critic.first()
    oa, oc = Adam(actor, args.lr), Adam(critic, args.lr)
    act = Actor(actor)
    champ = MLP(1, [O, 256, 256, A], B, dev)
    has_champ = [False]
    trial = [DiscountedReturns()]
    best = [None]
    accepted = [0]
    rejected = [0]
    wp = [args.prior_pull]
    champ_act = Actor(champ)
    # obs act next_obs prior next_prior reward notdone halfwidth next_halfwidth
    widths = [O, A, O, A, A, 1, 1, 1, 1]
    ends = np.cumsum([0] + widths)
    F = [slice(a, b) for a, b in itertools.pairwise(ends)]
    rows = np.zeros((args.total + 10, ends[-1]), np.float32)
    T = torch.from_numpy(rows)
    batch = torch.empty(B, ends[-1])
    added = 0
    frozen = [None]
    pull_now = args.pull
    log = []

    def evaluate(step):
        res = {}
        for masked in ((False, True) if P else (False,)) + (
            ("champ",) if has_champ[0] else ()
        ):
            rets = []
            for e in range(args.eval_episodes):
                obs, _ = eval_env.reset(seed=10000 + args.seed + e)
                R = 0
                done = False
                while not done:
                    o32 = obs.astype(np.float32)
                    x = champ_act(o32) if masked == "champ" else act(o32)
                    if masked is True:
                        c = prior(obs)
                        x = np.clip(x, c - args.radius, c + args.radius)
                        x = np.clip(x, -1, 1)
                    obs, r, te, tr, _ = eval_env.step(x * scale)
                    R += r
                    done = te or tr
                rets.append(R)
            res[masked] = np.mean(rets)
        log.append((step, res[False], res.get(True, np.nan)))
        print(
            f"{args.name} {args.env_id} {step}: {res[False]:.0f} unmasked {res.get(True, np.nan):.0f} masked  champion {res.get('champ', np.nan):.0f} pull {pull_now:.2f} Q {stats.get('q', 0):.1f} qp {stats.get('qp', 0):.1f} qpi {stats.get('qpi', 0):.1f} err {stats.get('bc', 0):.3f} gate {gate_n[0] / gate_n[1]:.2f} t {time.time() - t0:.0f}s",
            flush=True,
        )

    stats = {}
    t0 = time.time()
    asl = slice(O, O + A)

    def update(step):
        nonlocal pull_now
        idx = torch.from_numpy(rng.integers(0, added, B))
        torch.index_select(T, 0, idx, out=batch)
        cols = batch.T
        obs, a, nobs, c, nc, rew, nd, hw, nhw = (cols[f] for f in F)
        nx = tactor.forward(nobs)[0].tanh_()
        noise = (
            torch.from_numpy(rng.standard_normal((A, B), dtype=np.float32))
            .mul_(args.policy_noise)
            .clamp_(-0.5, 0.5)
        )
        nx = (nx + noise).clamp_(-1, 1)
        if args.mode_target:
            nx = torch.minimum(torch.maximum(nx, nc - nhw), nc + nhw).clamp_(-1, 1)
        q = tcritic.forward(torch.cat([nobs, nx]))
        q = q.amin(0) if args.target == "min" else q.mean(0)
        if args.ibrl:
            q2 = tcritic.forward(torch.cat([nobs, nc])).amin(0)
            q = torch.maximum(q, q2)
        y = rew + 0.99 * nd * q
        inp = torch.cat([obs, a])
        v = critic.forward(inp)
        err = v - y
        stats["q"] = v.mean().item() if step % 100 == 0 else stats.get("q", 0)
        critic.backward(inp, err.mul_(2.0 / B))
        oc.step()
        if step <= args.clone_steps and P and args.clone_updates > 1:
            for _ in range(args.clone_updates):
                idx = torch.from_numpy(rng.integers(0, added, B))
                cb = T[idx].T
                cobs, cc = cb[F[0]], cb[F[3]]
                x = actor.forward(cobs)[0].tanh_()
                e = x - cc
                stats["bc"] = (
                    e.square().mean().sqrt().item()
                    if step % 100 == 0
                    else stats.get("bc", 0)
                )
                delta = e * (2 * 2.0 / (args.radius**2) / A / B) * (1 - x.square())
                actor.backward(cobs, delta.unsqueeze(0))
                oa.step()
            tactor.flat.lerp_(actor.flat, 0.005)
            tcritic.flat.lerp_(critic.flat, 0.005)
        elif step % 2 == 0:
            x = actor.forward(obs)[0].tanh_()
            e = x - (champ.forward(obs)[0].tanh_() if has_champ[0] else c)
            if has_champ[0] and wp[0] > 0:
                e = e + (wp[0] / pull_now) * (x - c)
            if step > args.clone_steps or not P:
                if args.qfilter:
                    qp = first.forward(torch.cat([obs, c]))[0].clone()
                vals = first.forward(torch.cat([obs, x]))
                n = vals.shape[0]
                k = 1.0 / vals.abs().mean().item()
                delta = first.input_gradient(torch.full((n, 1, B), -k / B / n), asl)
                delta = delta.sum(0)
                w = pull_now if P or has_champ[0] else 0.0
                pullv = e * (2 * w / (args.radius**2) / A / B)
                if args.qfilter:
                    pullv = pullv * (qp > vals[0]).float()
                    stats["qp"] = qp.mean().item()
                delta = delta + pullv
                stats["qpi"] = (
                    vals.mean().item() if step % 100 == 0 else stats.get("qpi", 0)
                )
            else:
                delta = e * (2 * 2.0 / (args.radius**2) / A / B)
            stats["bc"] = (
                e.square().mean().sqrt().item()
                if step % 100 == 0
                else stats.get("bc", 0)
            )
            delta = delta * (1 - x.square())
            actor.backward(obs, delta.unsqueeze(0))
            oa.step()
            tactor.flat.lerp_(actor.flat, 0.005)
            tcritic.flat.lerp_(critic.flat, 0.005)

    args.mode_target = False
    rec = {True: DiscountedReturns(0.9), False: DiscountedReturns(0.8)}
    step = 0
    returns = {True: [], False: []}
    while step < args.total:
        obs, _ = env.reset(seed=int(rng.integers(2**31)))
        done = False
        eps = max(1 - step / args.mask_steps, args.keep) if P else 0.0
        masked = rng.random() < eps
        R = 0.0
        c = prior(obs)
        ep_start = step
        while not done and step < args.total:
            if args.gate == "step":
                masked = rng.random() < (
                    max(1 - step / args.mask_steps, args.keep) if P else 0
                )
            o32 = obs.astype(np.float32)
            hw = args.radius if masked else 2.0
            if args.gate == "width":
                hw = min(args.radius + (2 - args.radius) * step / args.mask_steps, 2.0)
            if args.gate == "disagree" and masked:
                hw = np.clip(
                    np.std(
                        [
                            np.clip(np.asarray(p(obs.copy()), dtype=np.float32), -1, 1)
                            for p in ALL
                        ],
                        axis=0,
                    ),
                    0.1,
                    1.0,
                )
            if step < args.starts:
                x = rng.uniform(-1, 1, A).astype(np.float32)
                if P:
                    x = c + 0.5 * args.radius * x
            elif step < args.clone_steps and P:
                x = c + 0.5 * args.radius * rng.uniform(-1, 1, A).astype(np.float32)
            else:
                x = act(o32)
                if args.ibrl and P:
                    cand = torch.from_numpy(
                        np.stack(
                            [np.concatenate([o32, x]), np.concatenate([o32, c])], 1
                        )
                    )
                    qs = small_forward(critic, cand)
                    x = x if qs[0] >= qs[1] else c
                x = x + args.noise * rng.standard_normal(A, dtype=np.float32)
            if (
                args.gate == "critic"
                and step >= args.clone_steps
                and step < args.mask_steps * 2
            ):
                cand = torch.from_numpy(
                    np.stack(
                        [
                            np.concatenate([o32, np.clip(x, -1, 1).astype(np.float32)]),
                            np.concatenate([o32, c]),
                        ],
                        1,
                    )
                )
                qs = small_forward(critic, cand)
                masked = qs[1] > qs[0]
                hw = args.radius if masked else 2.0
                gate_n[0] += masked
                gate_n[1] += 1
            if masked or args.gate == "width":
                x = np.clip(x, c - hw, c + hw)
            x = np.clip(x, -1, 1)
            nobs, r, te, tr, _ = env.step(x * scale)
            nc = prior(nobs)
            R += r
            row = rows[added]
            for f, val in zip(F, (o32, x, nobs, c, nc, r, not te, 0, 0)):
                row[f] = val
            added += 1
            step += 1
            obs, c = nobs, nc
            done = te or tr
            if step > args.starts:
                for _ in range(args.utd):
                    update(step)
            fr = min(
                max(step - args.mask_steps * 0.5, 0)
                / max(args.pull_until * args.total - args.mask_steps * 0.5, 1),
                1.0,
            )
            if args.adaptive == "none":
                pull_now = (
                    args.pull * (args.pull_end / args.pull) ** fr
                    if args.pull > 0
                    else 0.0
                )
            if step % args.eval_every == 0:
                evaluate(step)

        if step > args.clone_steps:
            rec[masked].add(R)
        if args.adaptive == "champ" and step > args.clone_steps and done:
            if not masked and ep_start >= args.clone_steps:
                trial[0].add(R)
                if trial[0].count >= args.trials - 1e-9:
                    t, trial[0] = trial[0], DiscountedReturns()
                    b = best[0] or (rec[True] if rec[True].count > 0 else None)
                    ok = b is None or difference(t, b, 0.3)[2] >= 0
                    if ok:
                        if best[0] is None or t.mean > best[0].mean:
                            best[0] = t
                        champ.flat.copy_(actor.flat)
                        has_champ[0] = True
                        accepted[0] += 1
                    elif has_champ[0] and args.rollback:
                        actor.flat.copy_(champ.flat)
                        tactor.flat.copy_(champ.flat)
                        oa.mean.zero_()
                        oa.square.zero_()
                        oa.steps.zero_()
                        rejected[0] += 1
                    if args.factor:
                        wp[0] = (
                            max(wp[0] * args.factor, 1e-4)
                            if ok
                            else min(wp[0] / args.factor, 2.0)
                        )
                    print(
                        f"   wp {wp[0]:.4f} {args.name} {args.env_id} {step} trial {t.mean:.0f} best {best[0].mean if best[0] else 0:.0f} {'ok' if ok else 'no'} acc {accepted[0]} rej {rejected[0]}",
                        flush=True,
                    )
            if args.factor:
                pull_now = args.pull_end if has_champ[0] else wp[0]
            else:
                pull_now = (
                    args.pull
                    if step < args.mask_steps * 0.5
                    else max(
                        args.pull
                        * math.exp(-(step - args.mask_steps * 0.5) / args.tau),
                        args.pull_end,
                    )
                )
        if args.adaptive == "guard" and step > args.clone_steps and done:
            length = step - ep_start
            behind = difference(rec[False], rec[True], 0.1)[2] < 0
            pull_now = (
                min(pull_now * 1.5, 2.0)
                if behind
                else max(pull_now * math.exp(-length / args.tau), 0.001)
            )
    Path(args.out).mkdir(exist_ok=True)
    with open(
        f"{args.out}/{args.name}-{args.env_id}-{args.seed}.csv", "w", newline=""
    ) as f:
        csv.writer(f).writerows(log)


def small_forward(net, cand):
    h = cand.expand(net.n, -1, -1)
    for i, (w, b) in enumerate(zip(net.weights, net.biases)):
        h = torch.baddbmm(b, w, h)
        if i < len(net.weights) - 1:
            if net.norm:
                var, mean = torch.var_mean(h, 1, correction=0, keepdim=True)
                h = (h - mean) * (var + 1e-5).rsqrt()
            h = h.relu()
    return h.amin(0)[0].tolist()


main()
