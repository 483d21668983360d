"""The command ``llmwrappers``: one name for what this package does; ``python -m llmwrappers`` is the same."""

import runpy
import shlex
import sys
import traceback
from pathlib import Path

# Words on the command line: the module that takes the rest, what it does, the extra of pip that it needs.
COMMANDS: dict[str, tuple[str, str, str]] = {
    "demo": ("cleanrl_scripts.demo", "train a walker for a minute and make a film of it", "train"),
    "watch": ("cleanrl_scripts.watch", "show a prior or the agent of a run, in a window or a film", "train"),
    "train ppo-camel": ("cleanrl_scripts.ppo_camel", "train PPO, warm-started from a prior", "train"),
    "train td3-camel": ("cleanrl_scripts.td3_camel", "train TD3 in a mask that fades (CAMEL)", "train"),
    "train ppo-ultra": ("cleanrl_scripts.ppo_ultra", "fine-tune a stuck agent with an LLM's guidance (ULTRA)", "train"),
    "compare": ("cleanrl_scripts.compare", "train several arms and seeds, write a table and figures", "train"),
    "priors": ("llmwrappers.priors.__main__", "measure priors, or record their episodes for Minari", ""),
    "prompt": ("local_llm.prompting.render", "print the prompt that asks a model for a policy", ""),
    "write-policy": ("local_llm.write_policy", "ask a model for policies, find out which one helps", "llm"),
    "find-critical-states": ("local_llm.find_critical_states", "ask a model where a stuck agent goes wrong", "llm"),
}
OURS = "llmwrappers", "local_llm", "cleanrl_scripts"
ROOT = Path(__file__).resolve().parents[1]
LISTED = "\n".join(f"  llmwrappers {name:22} {what}" for name, (_, what, _) in COMMANDS.items())
USAGE = f"""usage: llmwrappers COMMAND [arguments]; llmwrappers COMMAND --help says more

{LISTED}

example: llmwrappers train ppo-camel --env-id Walker2d-v4
"""


def main(argv: list[str] | None = None) -> int | None:
    """Runs a command as ``python -m`` would; the arguments are the command line's if ``argv`` is None."""
    words = sys.argv[1:] if argv is None else argv
    if not words or words[0] in ("-h", "--help"):
        print(USAGE)
        return 0
    name = next((name for name in COMMANDS if words[: len(name.split())] == name.split()), None)
    if name is None:
        given = " ".join(words[:2] if words[0] == "train" else words[:1])
        print(f"llmwrappers: error: no command {given!r}\n{USAGE}", file=sys.stderr)
        return 2
    module, _, extra = COMMANDS[name]
    sys.argv = [module, *words[len(name.split()) :]]
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        files = [frame.f_code.co_filename for frame, _ in traceback.walk_tb(error.__traceback__)]
        importer = [file for file in files if "importlib" not in file][-1]
        is_ours = any(Path(importer).is_relative_to(ROOT / package) for package in OURS)  # and not the environment's import
        if not extra or not is_ours or missing in ("", *OURS):
            raise
        print(f'llmwrappers {name}: error: it needs {missing}: pip install "llmwrappers[{extra}]"', file=sys.stderr)
        return 2
    except KeyboardInterrupt:  # torch takes seconds to be imported
        print(f"llmwrappers {name}: stopped", file=sys.stderr)
        return 130
    return 0


def program() -> str:
    """Returns the command that starts the running program again: one of these, or Python with a script's path."""
    module = getattr(sys.modules["__main__"].__spec__, "name", None)  # a script that is run by its path has none
    name = next((name for name, (of_command, *_) in COMMANDS.items() if of_command == module), None)
    return f"llmwrappers {name}" if name else shlex.join(["python", sys.argv[0]])


if __name__ == "__main__":
    sys.exit(main())
