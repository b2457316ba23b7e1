"""The whole system on one machine: moto, the API under uvicorn, workers as child processes."""
