"""What the learners are made of: networks, their updates, what they learn from."""
