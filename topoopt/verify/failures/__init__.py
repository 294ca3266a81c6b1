"""Laws of what is done after a failure, and of networks rewired."""
