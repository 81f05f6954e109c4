"""Models with latent variables: topics of documents, and factors of a matrix."""
