"""Alerts: rules over what SQL knows of the mirror, evaluated by services, told to channels."""
