//! Models, and what agents use besides.

use crate::alphabet::{ALNUM, HEX, LOWER, URL64, UUID, WORD};
use crate::rule::{Piece, Rule, rule, run};

pub(super) const RULES: &[Rule] = &[
    rule("openai key", "sk-proj-", URL64, 40, 300),
    rule("openai key", "sk-svcacct-", URL64, 40, 300),
    rule("openai key", "sk-admin-", URL64, 40, 300),
    rule("openai key", "sess-", ALNUM, 40, 40),
    // Also of DeepSeek, Moonshot and others that took over the format.
    rule("openai key", "sk-", ALNUM, 32, 64),
    rule("anthropic key", "sk-ant-", URL64, 24, 200),
    rule("openrouter key", "sk-or-", URL64, 40, 100),
    rule("langfuse key", "sk-lf-", UUID, 36, 36),
    rule("helicone key", "sk-helicone-", URL64, 20, 80),
    rule("hugging face token", "hf_", ALNUM, 30, 40),
    rule("hugging face token", "api_org_", ALNUM, 30, 40),
    rule("replicate token", "r8_", ALNUM, 37, 40),
    rule("groq key", "gsk_", ALNUM, 48, 60),
    rule("xai key", "xai-", ALNUM, 70, 90),
    rule("perplexity key", "pplx-", ALNUM, 40, 64),
    rule("tavily key", "tvly-", URL64, 28, 64),
    rule("fireworks key", "fw_", ALNUM, 20, 40),
    rule("nvidia key", "nvapi-", URL64, 60, 80),
    rule("cerebras key", "csk-", LOWER, 40, 60),
    rule("jina key", "jina_", URL64, 40, 80),
    rule("voyage key", "pa-", URL64, 43, 43),
    rule("firecrawl key", "fc-", HEX, 32, 32),
    rule("brave key", "BSA", URL64, 27, 28),
    rule("langsmith key", "lsv2_pt_", HEX, 32, 32)
        .then(&[Piece::Text("_"), Piece::Run(run(HEX, 10, 10))]),
    rule("langsmith key", "lsv2_sk_", HEX, 32, 32)
        .then(&[Piece::Text("_"), Piece::Run(run(HEX, 10, 10))]),
    rule("weights and biases key", "wandb_v1_", WORD, 40, 120),
    rule("pinecone key", "pcsk_", WORD, 50, 90),
    rule("runpod key", "rpa_", ALNUM, 40, 60),
    rule("e2b key", "e2b_", HEX, 40, 40),
    rule("browserbase key", "bb_live_", URL64, 24, 40),
    rule("elevenlabs key", "sk_", HEX, 48, 48),
    rule("together key", "tgp_v1_", URL64, 40, 60),
    rule("anyscale key", "esecret_", ALNUM, 24, 40),
    rule("friendli token", "flp_", ALNUM, 40, 60),
    rule("cursor key", "key_", HEX, 64, 64),
    rule("cursor key", "crsr_", HEX, 64, 64),
    rule("mem0 key", "m0-", ALNUM, 40, 40),
    rule("apify token", "apify_api_", ALNUM, 30, 40),
    rule("llamacloud key", "llx-", ALNUM, 44, 56),
    rule("context7 key", "ctx7sk-", UUID, 36, 36),
];
