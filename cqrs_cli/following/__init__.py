"""Subscriptions, which process each event once: process managers, projections, and the gateway's replicas."""
