"""What tests share: small cases made by hand, plain versions of compiled code, ways to run commands."""
