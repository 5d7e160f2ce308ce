"""FedSVD: exact federated matrix factorisation.

Only public names live here. What is not reachable through ``__all__`` is private.
"""

__version__ = "0.1.0"

__all__ = ["__version__"]
