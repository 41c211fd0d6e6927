"""Templates that `perpetual init` fills in: one folder per harness, `common` for what they share. Data only.

A folder's `template.yaml` lists the files; the harness plugin reads it. Agents read what the texts say.
"""
