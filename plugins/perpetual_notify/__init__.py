"""Notifications: sends what a person is to know of the loop to the notifiers that they chose."""
