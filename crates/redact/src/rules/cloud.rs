//! Clouds, databases, and what watches and guards them.

use crate::alphabet::{ALNUM, ANY_HEX, Alphabet, BASE64, DOTTED, HEX, LOWER, UPPER, URL64, UUID};
use crate::rule::{OPEN, Piece, Rule, rule, run};

const BASE32: Alphabet = Alphabet::new("A-Z2-7");
const TILDE: Alphabet = Alphabet::new("A-Za-z0-9_.~-");
const ENCODED: Alphabet = Alphabet::new("A-Za-z0-9%+/=_-");
const ANY64: Alphabet = Alphabet::new("A-Za-z0-9+/_-");
const PADDED_PAIR: Alphabet = Alphabet::new("A-Za-z0-9+/=_-");

pub(super) const RULES: &[Rule] = &[
    rule("aws access key", "AKIA", BASE32, 16, 16),
    rule("aws access key", "ASIA", BASE32, 16, 16),
    rule("aws access key", "ABIA", BASE32, 16, 16),
    rule("aws access key", "ACCA", BASE32, 16, 16),
    rule("aws bedrock key", "ABSK", BASE64, 100, 200),
    rule("google api key", "AIza", URL64, 35, 35),
    rule("google access token", "ya29.", DOTTED, 20, 2048),
    rule("google client secret", "GOCSPX-", URL64, 28, 28),
    rule("google refresh token", "1//0", URL64, 40, 200),
    rule("azure account key", "AccountKey=", BASE64, 42, 88).kept(),
    rule("azure access key", "SharedAccessKey=", BASE64, 43, 88).kept(),
    rule("azure signature", "sig=", ENCODED, 43, 200).kept(),
    rule("azure client secret", "Q~", TILDE, 31, 34).after(run(TILDE, 4, 4)),
    rule("azure devops token", "AZDO", ALNUM, 4, 8).after(run(ALNUM, 72, 76)),
    rule("digitalocean token", "dop_v1_", HEX, 64, 64),
    rule("digitalocean token", "doo_v1_", HEX, 64, 64),
    rule("digitalocean token", "dor_v1_", HEX, 64, 64),
    rule("doppler token", "dp.pt.", ALNUM, 40, 44),
    rule("doppler token", "dp.st.", DOTTED, 40, 80),
    rule("doppler token", "dp.ct.", ALNUM, 40, 44),
    rule("doppler token", "dp.sa.", ALNUM, 40, 44),
    rule("vault token", "hvs.", URL64, 24, 300),
    rule("vault token", "hvb.", URL64, 100, 500),
    rule("vault token", "hvr.", URL64, 24, 500),
    rule("alibaba access key", "LTAI", ALNUM, 16, 24),
    rule("tencent secret id", "AKID", ALNUM, 32, 32),
    rule("scaleway access key", "SCW", UPPER, 17, 17),
    rule("heroku key", "HRKU-", URL64, 36, 80),
    rule("fly token", "fo1_", URL64, 40, 50),
    rule("fly token", "fm2_", ANY64, 40, 4096),
    rule("fly token", "fm1r_", ANY64, 40, 4096),
    rule("fly token", "fm1a_", ANY64, 40, 4096),
    rule("render key", "rnd_", ALNUM, 24, 40),
    rule("planetscale token", "pscale_tkn_", DOTTED, 32, 64),
    rule("planetscale password", "pscale_pw_", DOTTED, 32, 64),
    rule("planetscale token", "pscale_oauth_", DOTTED, 32, 64),
    rule("neon key", "napi_", LOWER, 40, 80),
    rule("supabase token", "sbp_", HEX, 40, 40),
    rule("supabase key", "sb_secret_", URL64, 28, 60),
    rule("netlify token", "nfp_", ALNUM, 36, 60),
    rule("cloudflare origin key", "v1.0-", HEX, 24, 24)
        .then(&[Piece::Text("-"), Piece::Run(run(HEX, 146, 146))]),
    rule("databricks token", "dapi", HEX, 32, 32),
    rule("new relic key", "NRAK-", UPPER, 27, 27),
    rule("new relic key", "NRII-", URL64, 32, 32),
    rule("new relic license", "NRAL", HEX, 0, 0).after(run(HEX, 36, 36)),
    rule("grafana token", "glsa_", ALNUM, 32, 32)
        .then(&[Piece::Text("_"), Piece::Run(run(ANY_HEX, 8, 8))]),
    rule("grafana token", "glc_", BASE64, 32, 400),
    rule("sentry token", "sntrys_", PADDED_PAIR, 60, 400),
    rule("sentry token", "sntryu_", HEX, 64, 64),
    rule("honeycomb key", "hcaik_", LOWER, 58, 58),
    rule("honeycomb key", "hcbik_", LOWER, 58, 58),
    rule("dynatrace token", "dt0c01.", UPPER, 24, 24)
        .then(&[Piece::Text("."), Piece::Run(run(UPPER, 64, 64))]),
    rule("aiven password", "AVNS_", URL64, 19, 24),
    rule("mongodb secret", "mdb_sa_sk_", URL64, 40, 44),
    rule("1password token", "ops_eyJ", URL64, 200, OPEN),
    rule("age secret key", "AGE-SECRET-KEY-1", UPPER, 58, 58),
    rule("tailscale key", "tskey-", URL64, 20, 80),
    rule("launchdarkly key", "sdk-", UUID, 36, 36),
    rule("akamai token", "akab-", LOWER, 16, 16)
        .then(&[Piece::Text("-"), Piece::Run(run(LOWER, 16, 16))]),
];
