//! Payments, mail, chat, and the tools of offices and shops.

use crate::alphabet::{
    ALNUM, ANY_HEX, Alphabet, BASE64, DIGITS, DOTTED, HEX, LOWER, UPPER, URL64, UUID, WORD,
};
use crate::rule::{OPEN, Piece, Rule, rule, run};

const SLACK: Alphabet = Alphabet::new("A-Za-z0-9%.-");

/// Behind the workspace of a Slack webhook: the app, and the secret.
const SLACK_SERVICE: &[Piece] = &[
    Piece::Text("/"),
    Piece::Run(run(ALNUM, 8, 14)),
    Piece::Text("/"),
    Piece::Run(run(ALNUM, 20, 40)),
];

/// The same for a workflow, whose number stands in between.
const SLACK_WORKFLOW: &[Piece] = &[
    Piece::Text("/"),
    Piece::Run(run(ALNUM, 8, 14)),
    Piece::Text("/"),
    Piece::Run(run(DIGITS, 15, 20)),
    Piece::Text("/"),
    Piece::Run(run(ALNUM, 20, 40)),
];

/// Behind the workspace of a trigger: its number, and the secret.
const SLACK_TRIGGER: &[Piece] = &[
    Piece::Text("/"),
    Piece::Run(run(DIGITS, 10, 16)),
    Piece::Text("/"),
    Piece::Run(run(HEX, 32, 32)),
];

/// Behind the number of a Discord webhook.
const WEBHOOK: &[Piece] = &[Piece::Text("/"), Piece::Run(run(URL64, 60, 80))];

/// Behind the number of a Discord bot.
const BOT: &[Piece] = &[
    Piece::Text("."),
    Piece::Run(run(URL64, 6, 6)),
    Piece::Text("."),
    Piece::Run(run(URL64, 27, 40)),
];

/// A bot's token begins with its number in base64; `anchor` stands for the first digit.
const fn discord_bot(anchor: &'static str) -> Rule {
    rule("discord bot token", anchor, URL64, 20, 26).then(BOT)
}

pub(super) const RULES: &[Rule] = &[
    rule("stripe key", "sk_live_", ALNUM, 20, 250),
    rule("stripe key", "sk_test_", ALNUM, 20, 250),
    rule("stripe key", "rk_live_", ALNUM, 20, 250),
    rule("stripe key", "rk_test_", ALNUM, 20, 250),
    rule("webhook secret", "whsec_", BASE64, 24, 100),
    rule("slack token", "xoxb-", SLACK, 20, 300),
    rule("slack token", "xoxp-", SLACK, 20, 300),
    rule("slack token", "xoxa-", SLACK, 20, 300),
    rule("slack token", "xoxr-", SLACK, 20, 300),
    rule("slack token", "xoxs-", SLACK, 20, 300),
    rule("slack token", "xoxc-", SLACK, 20, 300),
    rule("slack token", "xoxd-", SLACK, 20, 300),
    rule("slack token", "xoxe", SLACK, 40, 300),
    rule("slack token", "xapp-", URL64, 40, 200),
    rule("slack webhook", "hooks.slack.com/services/", ALNUM, 8, 14).then(SLACK_SERVICE),
    rule("slack webhook", "hooks.slack.com/workflows/", ALNUM, 8, 14).then(SLACK_WORKFLOW),
    rule("slack webhook", "hooks.slack.com/triggers/", ALNUM, 8, 14).then(SLACK_TRIGGER),
    rule("discord webhook", "discord.com/api/webhooks/", DIGITS, 17, 20).then(WEBHOOK),
    rule("discord webhook", "discord.com/api/v9/webhooks/", DIGITS, 17, 20).then(WEBHOOK),
    rule("discord webhook", "discord.com/api/v10/webhooks/", DIGITS, 17, 20).then(WEBHOOK),
    rule("discord webhook", "discordapp.com/api/webhooks/", DIGITS, 17, 20).then(WEBHOOK),
    discord_bot("MT"),
    discord_bot("Mj"),
    discord_bot("Mz"),
    discord_bot("ND"),
    discord_bot("NT"),
    discord_bot("Nj"),
    discord_bot("Nz"),
    discord_bot("OD"),
    discord_bot("OT"),
    rule("telegram bot token", ":AA", URL64, 33, 33).after(run(DIGITS, 8, 10)),
    rule("twilio key", "SK", HEX, 32, 32),
    rule("sendgrid key", "SG.", URL64, 22, 22)
        .then(&[Piece::Text("."), Piece::Run(run(URL64, 43, 43))]),
    rule("mailgun key", "key-", HEX, 32, 32),
    rule("mailchimp key", "-us", DIGITS, 1, 2).after(run(HEX, 32, 32)),
    rule("mandrill key", "md-", URL64, 22, 22),
    rule("resend key", "re_", ALNUM, 8, 8)
        .then(&[Piece::Text("_"), Piece::Run(run(ALNUM, 20, 28))]),
    rule("brevo key", "xkeysib-", HEX, 64, 64)
        .then(&[Piece::Text("-"), Piece::Run(run(ALNUM, 16, 16))]),
    rule("brevo key", "xsmtpsib-", HEX, 64, 64)
        .then(&[Piece::Text("-"), Piece::Run(run(ALNUM, 16, 16))]),
    rule("linear key", "lin_api_", ALNUM, 40, 48),
    rule("linear token", "lin_oauth_", HEX, 64, 64),
    rule("notion token", "secret_", ALNUM, 43, 43),
    rule("notion token", "ntn_", ALNUM, 43, 50),
    rule("figma token", "figd_", URL64, 40, 48),
    rule("airtable token", "pat", ALNUM, 14, 14)
        .then(&[Piece::Text("."), Piece::Run(run(HEX, 64, 64))]),
    rule("asana token", "1/", DIGITS, 10, 20)
        .then(&[Piece::Text(":"), Piece::Run(run(HEX, 32, 32))]),
    rule("trello token", "ATTA", HEX, 64, 80),
    rule("clickup token", "pk_", DIGITS, 5, 12)
        .then(&[Piece::Text("_"), Piece::Run(run(UPPER, 32, 32))]),
    rule("shopify token", "shpat_", ANY_HEX, 32, 32),
    rule("shopify token", "shpca_", ANY_HEX, 32, 32),
    rule("shopify token", "shppa_", ANY_HEX, 32, 32),
    rule("shopify secret", "shpss_", ANY_HEX, 32, 32),
    rule("square token", "EAAA", URL64, 60, 60),
    rule("square token", "sq0atp-", URL64, 22, 22),
    rule("square secret", "sq0csp-", URL64, 43, 43),
    rule("braintree token", "access_token$production$", LOWER, 16, 16)
        .then(&[Piece::Text("$"), Piece::Run(run(HEX, 32, 32))]),
    rule("plaid token", "access-production-", UUID, 36, 36),
    rule("plaid token", "access-sandbox-", UUID, 36, 36),
    rule("razorpay key", "rzp_live_", ALNUM, 14, 24),
    rule("flutterwave key", "FLWSECK-", LOWER, 32, 32).then(&[Piece::Text("-X")]),
    rule("paddle key", "pdl_live_apikey_", WORD, 40, 80),
    rule("easypost key", "EZAK", ALNUM, 54, 54),
    rule("shippo token", "shippo_live_", HEX, 40, 40),
    rule("duffel token", "duffel_live_", URL64, 43, 43),
    rule("hubspot token", "pat-na1-", UUID, 36, 36),
    rule("hubspot token", "pat-eu1-", UUID, 36, 36),
    rule("intercom token", "dG9rO", BASE64, 40, 80),
    rule("facebook token", "EAA", ALNUM, 90, 300),
    rule("instagram token", "IGAA", ALNUM, 90, 300),
    rule("mapbox token", "sk.eyJ", URL64, 30, OPEN)
        .then(&[Piece::Text("."), Piece::Run(run(URL64, 20, 24))]),
    rule("dropbox token", "sl.", DOTTED, 100, 2000),
    rule("typeform token", "tfp_", DOTTED, 40, 64),
    rule("contentful token", "CFPAT-", URL64, 43, 43),
    rule("adafruit key", "aio_", ALNUM, 28, 28),
    rule("maxmind key", "_mmk", ALNUM, 0, 0).after(run(WORD, 36, 36)),
    rule("posthog key", "phx_", URL64, 40, 56),
    rule("yandex key", "AQVN", URL64, 35, 38),
    rule("yandex token", "y0_", URL64, 50, 80),
    rule("vk token", "vk1.a.", URL64, 80, 300),
];
