"""Looking without touching: verify, salvage, explain, what-if."""
