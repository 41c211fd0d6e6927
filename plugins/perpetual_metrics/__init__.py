"""Readers of metrics, analysers and proposers."""
