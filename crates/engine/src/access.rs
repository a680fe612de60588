//! Network credentials: tokens, and single-use login links that are exchanged for them.

use jiff::{SignedDuration, Timestamp};
use rethread_domain::access::{Pass, Role, Token, TokenId, check_name};
use rethread_domain::id;

use crate::{Engine, Error, Result};

/// Secrets have this prefix, so that they are recognised where they do not belong.
const PREFIX: &str = "rtk_";
/// 256 bits.
const BYTES: usize = 32;
/// How often the use of a token is recorded at most.
const NOTED_EVERY: SignedDuration = SignedDuration::from_mins(1);
/// The name of the token that a login link is exchanged for.
const BROWSER: &str = "browser";

/// A token to issue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewToken {
    pub name: String,
    pub role: Role,
    pub user: String,
    pub pass: Pass,
    /// By default it is valid until revoked.
    pub lasts: Option<SignedDuration>,
    /// It ends no later than this token.
    pub parent: Option<TokenId>,
}

impl Engine {
    /// Issues a token and its secret, which is never shown again.
    pub async fn issue(&self, new: NewToken) -> Result<(Token, String)> {
        check_name(&new.name)?;
        id::check_user(&new.user)?;
        let now = self.clock.now();
        let token = Token {
            id: TokenId::generate(),
            name: new.name,
            role: new.role,
            user: new.user,
            pass: new.pass,
            created_at: now,
            expires_at: new.lasts.map(|lasts| after(now, lasts)),
            revoked_at: None,
            used_at: None,
            parent: new.parent,
        };
        let secret = secret()?;
        Ok((self.store.create_token(token, &secret).await?, secret))
    }

    /// The token of a secret, if it is valid. A login link is not a token.
    pub async fn admit(&self, secret: &str) -> Result<Option<Token>> {
        if !is_secret(secret) {
            return Ok(None);
        }
        let now = self.clock.now();
        let found = self.store.token_by_secret(secret).await?;
        Ok(found.filter(|token| token.pass != Pass::Link && token.is_valid(now)))
    }

    /// Exchanges a login link for a browser's token and its secret. Works once.
    pub async fn redeem(
        &self,
        link: &str,
        lasts: SignedDuration,
    ) -> Result<Option<(Token, String)>> {
        if !is_secret(link) {
            return Ok(None);
        }
        let now = self.clock.now();
        let new = Token {
            id: TokenId::generate(),
            name: BROWSER.to_owned(),
            // The link determines the next three.
            role: Role::Read,
            user: String::new(),
            parent: None,
            pass: Pass::Browser,
            created_at: now,
            expires_at: Some(after(now, lasts)),
            revoked_at: None,
            used_at: None,
        };
        let secret = secret()?;
        let redeemed = self.store.redeem(link, new, &secret, now).await?;
        Ok(redeemed.map(|token| (token, secret)))
    }

    /// All stored tokens, newest first; expired ones are kept for 30 days.
    pub async fn tokens(&self) -> Result<Vec<Token>> {
        Ok(self.store.tokens().await?)
    }

    /// Revokes a token, and all that were created with it.
    pub async fn revoke(&self, id: &TokenId) -> Result<Token> {
        Ok(self.store.revoke_token(id, self.clock.now()).await?)
    }

    /// Whether a use of a token is to be recorded: at most once a minute.
    pub fn is_use_new(&self, token: &Token) -> bool {
        token.used_at.is_none_or(|used| self.clock.now().duration_since(used) >= NOTED_EVERY)
    }

    /// Records the use of a token.
    pub async fn note_use(&self, id: &TokenId) -> Result<()> {
        Ok(self.store.touch_token(id, self.clock.now()).await?)
    }
}

fn after(now: Timestamp, lasts: SignedDuration) -> Timestamp {
    now.saturating_add(lasts).unwrap_or(Timestamp::MAX)
}

/// Whether a text has the form of a secret; nothing else is looked up.
fn is_secret(text: &str) -> bool {
    let digits = text.strip_prefix(PREFIX).unwrap_or_default();
    let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    digits.len() == 2 * BYTES && digits.bytes().all(is_digit)
}

fn secret() -> Result<String> {
    Ok(format!("{PREFIX}{}", random_digits()?))
}

/// 256 random bits as hexadecimal digits.
pub fn random_digits() -> Result<String> {
    let mut random = [0; BYTES];
    getrandom::fill(&mut random)
        .map_err(|error| Error::Settings(format!("the system gives no randomness: {error}")))?;
    Ok(random.iter().fold(String::new(), |digits, byte| digits + &format!("{byte:02x}")))
}
