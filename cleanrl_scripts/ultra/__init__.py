"""What ppo_ultra.py and its arms alone use."""
