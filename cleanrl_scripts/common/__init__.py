"""What every script needs and no algorithm is: arguments, environments, run folder, logger, evaluation, films."""
