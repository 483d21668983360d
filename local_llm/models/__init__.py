"""What asking a model means, and the models that can be asked, one backend a file."""
