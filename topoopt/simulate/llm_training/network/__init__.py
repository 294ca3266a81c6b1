"""Language models in training on a network: who sends to whom, what links carry, which rate each dimension gets."""
