"""Quintet: five Kubernetes operators in one product. Start reading at ARCHITECTURE.md."""

__version__ = "0.1.0"
