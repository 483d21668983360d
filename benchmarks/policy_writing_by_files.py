"""PolicyWriting for an agent that reads and writes files, such as a coding agent.

    python benchmarks/policy_writing_by_files.py --env-id HalfCheetah-v5 --folder policies/HalfCheetah-v5-by-files

Writes prompt.txt. Whenever the agent has written reply-N.md (N from 1 on), the policy in it plays, and report-N.txt says what
became of it. After the last one result.json has the return of every policy, and that of the chosen one in held-out episodes. In
a folder with replies it plays them again. An empty reply counts as refused. A reply is read as soon as it is there: write it
under another name, then rename it.
"""

import argparse
import json
import sys
import time
from pathlib import Path

import gymnasium as gym

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from llmwrappers.files import write_atomically


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--env-id", required=True)
    parser.add_argument("--env-kwargs", type=json.loads, default={}, metavar="JSON")
    parser.add_argument("--attempts", type=int, default=16)
    parser.add_argument("--folder", type=Path, required=True)
    args = parser.parse_args()
    env = gym.make("llmwrappers/PolicyWriting-v0", env_id=args.env_id, env_kwargs=args.env_kwargs, attempts=args.attempts)
    args.folder.mkdir(parents=True, exist_ok=True)
    prompt, info = env.reset()
    write_atomically(args.folder / "prompt.txt", prompt)
    returns, terminated = [], False
    while not terminated:
        number = len(returns) + 1
        reply = args.folder / f"reply-{number}.md"
        while not reply.exists():
            time.sleep(0.2)
        report, _, terminated, _, info = env.step(reply.read_text("utf-8"))
        returns.append(info.get("mean_return"))
        write_atomically(args.folder / f"report-{number}.txt", report + "\n")
        print(f"reply {number} of {args.attempts}: {returns[-1]}", flush=True)
    kept = ("random_return", "refused", "chosen", "held_out_return", "held_out_faults")
    result = {"env_id": args.env_id, "returns": returns, **{name: info.get(name) for name in kept}}
    write_atomically(args.folder / "result.json", json.dumps(result, indent=1) + "\n")
    print(json.dumps(result))


if __name__ == "__main__":
    main()
