"""What a verification rule does to the speed and quality of speculative decoding."""

__version__ = "0.1.0"
