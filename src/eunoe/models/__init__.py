"""Who answers: providers, catalogue, token counting, and the scripted model."""
