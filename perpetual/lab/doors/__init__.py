"""Departments with their crossing deeds attached: what `lab.runs.launch(...)` and its like are.

A department alone does not know the others; the doors are connected by `Lab` and hand such a deed to its flow.
"""
