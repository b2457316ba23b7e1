"""The HTTP API: one FastAPI application, under Mangum in Lambda and under uvicorn elsewhere."""
