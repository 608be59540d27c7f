"""What decides whether a draft token is accepted, and where that decision enters vLLM."""
