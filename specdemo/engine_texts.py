"""What engine_settings says in words, by key: what an engine lacks, what its K counts, what it reports."""

SENTENCES = {
    # What the number under `k_name` counts.
    "k_drafts": "It is K: the draft tokens of a round, without the token that the target adds.",
    "k_window": "It is K + 1: the drafts and the token in front of them, which the target reads in the same pass.",
    "k_cache": "K cannot be set: a round drafts at most eight tokens.",
    "k_layers": "K cannot be set: a round drafts one token for each prediction layer of the model.",
    # What the reported acceptance is a ratio of.
    "counts_vLLM": (
        "The acceptance rate is accepted drafts over drafted tokens, the acceptance rate of this program. The mean "
        "acceptance length is 1 + accepted drafts per round, which is tokens per round here; rounds without a "
        "draft are left out of it."
    ),
    "counts_SGLang": (
        "spec_accept_rate is accepted drafts over K in every round, so that a shorter draft counts as if it were K "
        "long. spec_accept_length is answer tokens over verified rounds, which is tokens per round here."
    ),
    "counts_llama.cpp": (
        "The draft acceptance is accepted over generated draft tokens, the acceptance rate of this program; a response "
        "carries both numbers as draft_n_accepted and draft_n. The target's own token counts in neither."
    ),
    "counts_transformers": (
        "generate reports no acceptance. Count the target's passes to learn it: new tokens over passes is tokens per "
        "round here."
    ),
    # Families that no engine has, or only some.
    "no_ngram:static": "It has no table of n-grams made beforehand; the settings of ngram come nearest.",
    "no_ngram:hashed": "It has no n-grams in a hash table; the settings of ngram come nearest.",
    "no_ngram:map": "It drafts from n-grams even where the text is ambiguous; the settings of ngram come nearest.",
    "no_universal": "It does not translate between vocabularies: the drafter must have the target's own.",
    "no_medusa": "It does not run Medusa heads.",
    "no_early-exit": "It cannot leave the target after its first layers.",
    "no_hybrid": "It runs one drafter at a time, so n-grams and a model do not take turns.",
    "no_eagle3": "It does not run EAGLE-3 drafters.",
    "no_dspark": "It does not run DSpark drafters.",
    "no_vLLM_medusa": "It does not run Medusa heads any more; earlier versions have the method medusa.",
    "no_dflash": (
        "It drafts a block only with an assistant model of Muse Glimmer; DFlash drafters as they are published do not "
        "load."
    ),
    # What differs where there are lines.
    "vLLM_ngram": "The earliest occurrence of the longest match is copied; here it is the most recent one.",
    "vLLM_ngram:map": (
        "Suffix decoding comes nearest: it too drafts only what followed often enough, and no more than the match is "
        "long. It needs the package arctic-inference."
    ),
    "vLLM_universal": "Tokens that both vocabularies have are drafted, always the likeliest one.",
    "vLLM_mtp": (
        "The prediction layers are part of the target's files. Where K is larger than their number, it must be a "
        "multiple of it."
    ),
    "chain_for_tree": "It drafts chains: K drafts one behind the other where here they branch.",
    "vLLM_draws": (
        "Without draft_sample_method the likeliest token is drafted; with it drafts are drawn as here, which takes "
        "memory for their probabilities."
    ),
    "SGLang_ngram": "All requests share one tree of n-grams, so that one answer can help another, unlike here.",
    "SGLang_ngram:map": (
        "The most frequent continuation is drafted, however small its lead; all requests share one tree of n-grams."
    ),
    "SGLang_ngram:static": (
        "CORPUS.jsonl holds text that the target wrote; half of the drafts come from it, the others from the requests."
    ),
    "SGLang_quantized": "METHOD is the method of the four-bit files, for example awq or gptq.",
    "SGLang_mtp": "The prediction layers are part of the target's files; else add --speculative-draft-model-path.",
    "SGLang_dflash": "It runs on CUDA, NPU and XPU only.",
    "SGLang_dspark": "It runs on CUDA, NPU and XPU only.",
    "SGLang_cpu": "On a CPU it verifies greedily whatever the temperature; elsewhere it samples.",
    "llama.cpp_ngram": (
        "A match has one length, at most K. Versions before pull request 22397 call the two numbers "
        "--spec-ngram-size-n and --spec-ngram-size-m, and cut the draft at --draft-max."
    ),
    "llama.cpp_ngram:hashed": "One table is shared by all requests; llama.cpp advises long n-grams, 16 tokens or more.",
    "llama.cpp_ngram:map": (
        "A key has one length and a continuation K tokens; the most frequent one needs three times the others' count."
    ),
    "llama.cpp_ngram:static": "STATIC_CACHE_FILE is made from the target's own text by llama-lookup-create.",
    "llama.cpp_hybrid": "N-grams are asked first and the model where they find nothing.",
    "llama.cpp_draws": (
        "The likeliest token is drafted, and it is accepted where the target draws the same one; here drafts are drawn "
        "too, so the acceptance will differ."
    ),
    "transformers_ngram": "The earliest occurrence of the longest match is copied; here it is the most recent one.",
    "transformers_universal": (
        "At temperature 0 the drafted text is translated; above it only tokens of both vocabularies are drafted, and "
        "the assistant model is changed in place."
    ),
    "transformers_early-exit": (
        "The number is how many layers draft. The way out is the target's own norm and head, not a trained one, and "
        "the first layers are computed again in the target's pass."
    ),
    "transformers_mtp": "Only models whose configuration says num_mtp_layers have it.",
}
