"""Making what the models are fed with from raw text: vectors, subwords, a language model."""
