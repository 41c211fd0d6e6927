"""A static, publishable logbook: the campaign, its claims, experiments and deeds as pages that need no server."""
