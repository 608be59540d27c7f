"""The phases: whole tasks through lm-eval (quality), timed prompts (speed)."""
