"""What every script needs and no algorithm is: arguments, run folder, logger, networks, replay, priors, evaluation."""
