// The laboratory.
