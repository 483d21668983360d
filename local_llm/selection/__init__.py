"""Which candidate helps: episodes, trainings, and a page that shows them."""
