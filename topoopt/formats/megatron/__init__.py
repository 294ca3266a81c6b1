"""Arguments of Megatron-LM, and which GPU is which rank."""
