"""What moto 5.2.5 lacks, one module a service: each says what it replaces in moto, and why."""
