//! Authentication of calls.

use base64::engine::general_purpose::STANDARD;
use base64::Engine;
use serde_json::{json, Map, Value};

use super::effect::{content, fault_of, Effect};
use super::http::form;
use super::uri;
use crate::expr::as_text;
use crate::fault::Fault;
use crate::io::HttpRequest;
use crate::model::{Authentication, Properties, Scheme};

/// Adds what a policy asks for to a request.
pub(super) fn authenticate(
    effect: &mut Effect<'_, '_>,
    policy: &Authentication,
    request: &mut HttpRequest,
) -> Result<(), Fault> {
    let properties = properties(effect, policy)?;
    let text = |name: &str| {
        let value = properties.get(name).filter(|value| !value.is_null());
        value
            .map(as_text)
            .ok_or_else(|| Fault::authentication(format!("the authentication has no «{name}»")))
    };
    let (scheme, parameter) = match policy.scheme {
        Scheme::Basic => {
            let pair = format!("{}:{}", text("username")?, text("password")?);
            ("Basic", STANDARD.encode(pair))
        }
        Scheme::Bearer => ("Bearer", text("token")?),
        Scheme::Digest => {
            request.digest = Some((text("username")?, text("password")?));
            effect.hide(&properties["password"]);
            return Ok(());
        }
        Scheme::OAuth2 | Scheme::Oidc => ("Bearer", token(effect, policy.scheme, &properties)?),
    };
    if parameter.contains(['\r', '\n', '\0']) {
        return Err(Fault::authentication("the credentials cannot be sent in a header"));
    }
    effect.hide(&Value::String(parameter.clone()));
    effect.env.authorization = json!({ "scheme": scheme, "parameter": parameter });
    request.headers.push(("Authorization".to_owned(), format!("{scheme} {parameter}")));
    Ok(())
}

fn properties(
    effect: &mut Effect<'_, '_>,
    policy: &Authentication,
) -> Result<Map<String, Value>, Fault> {
    let properties = match &policy.properties {
        Properties::Written(template) => effect.env.fill_own(template)?,
        Properties::Secret(name) => match (effect.secret(name)?, policy.scheme) {
            (Value::String(token), Scheme::Bearer) => json!({ "token": token }),
            (secret, _) => secret,
        },
    };
    match properties {
        Value::Object(fields) => Ok(fields),
        _ => Err(Fault::authentication("the secret of an authentication must be an object")),
    }
}

/// Gets a token of OAuth 2 or OpenID Connect.
#[expect(clippy::too_many_lines, reason = "the steps of one exchange with an authority, in order")]
fn token(
    effect: &mut Effect<'_, '_>,
    scheme: Scheme,
    properties: &Map<String, Value>,
) -> Result<String, Fault> {
    let text = |value: Option<&Value>| value.filter(|value| !value.is_null()).map(as_text);
    let authority = text(properties.get("authority"));
    let authority =
        authority.ok_or_else(|| Fault::authentication("the authentication has no «authority»"))?;
    let expanded = super::uri::expand(&authority, &effect.env.input)?;
    let authority = super::uri::without_dots(expanded, &authority)?;
    let uri = endpoint(effect, scheme, &authority, properties)?;
    let mut fields = Map::new();
    for name in ["username", "password", "refresh_token"] {
        if let Some(value) = properties.get(name) {
            fields.insert(name.to_owned(), value.clone());
        }
    }
    if let Some(grant) = properties.get("grant") {
        fields.insert("grant_type".to_owned(), grant.clone());
    }
    let list = |value: Option<&Value>| match value {
        Some(Value::Array(all)) => Some(all.iter().map(as_text).collect::<Vec<_>>().join(" ")),
        other => text(other),
    };
    for (from, to) in [("scopes", "scope"), ("audiences", "audience")] {
        if let Some(value) = list(properties.get(from)) {
            fields.insert(to.to_owned(), Value::String(value));
        }
    }
    for party in ["subject", "actor"] {
        let Some(token) = properties.get(party) else { continue };
        for (from, to) in [("token", "token"), ("type", "token_type")] {
            if let Some(value) = token.get(from) {
                fields.insert(format!("{party}_{to}"), value.clone());
            }
        }
    }
    let mut request = HttpRequest {
        method: "POST".to_owned(),
        uri,
        headers: vec![("Accept".to_owned(), "application/json".to_owned())],
        body: None,
        follows_redirects: false,
        digest: None,
    };
    let empty = Value::Object(Map::new());
    let client = properties.get("client").unwrap_or(&empty);
    add_client(client, &mut fields, &mut request)?;
    for name in ["password", "client_secret", "client_assertion", "subject_token", "refresh_token"]
    {
        if let Some(secret) = fields.get(name).cloned() {
            effect.hide(&secret);
        }
    }
    let encoding = properties.get("request").and_then(|request| request.get("encoding"));
    let (kind, body) = match encoding.and_then(Value::as_str) {
        Some("application/json") => ("application/json", Value::Object(fields).to_string()),
        _ => ("application/x-www-form-urlencoded", form(&fields)),
    };
    request.headers.push(("Content-Type".to_owned(), kind.to_owned()));
    request.body = Some(body.into_bytes());
    let response = effect
        .io
        .http(&request, &effect.call)
        .map_err(|error| Fault::authentication(format!("the token of {authority}: {error}")))?;
    if !(200..300).contains(&response.status) {
        let problem =
            format!("{} answered {} instead of a token", uri::shown(&request.uri), response.status);
        return Err(Fault::authentication(problem));
    }
    let answer = content(Some("application/json"), &response.body)?;
    let token = answer.get("access_token").and_then(Value::as_str);
    let token = token.ok_or_else(|| {
        Fault::authentication(format!("{} gave no token", uri::shown(&request.uri)))
    })?;
    check_issuer(properties, token)?;
    effect.hide(&Value::String(token.to_owned()));
    Ok(token.to_owned())
}

/// The endpoint for tokens.
fn endpoint(
    effect: &Effect<'_, '_>,
    scheme: Scheme,
    authority: &str,
    properties: &Map<String, Value>,
) -> Result<String, Fault> {
    let base = authority.trim_end_matches('/');
    let own = properties.get("endpoints").and_then(|endpoints| endpoints.get("token"));
    if scheme == Scheme::OAuth2 && !base.ends_with("/.well-known/openid-configuration") {
        let path = own.map_or_else(|| "/oauth2/token".to_owned(), as_text);
        return Ok(if path.contains("://") {
            path
        } else {
            format!("{base}/{}", path.trim_start_matches('/'))
        });
    }
    let known = "/.well-known/openid-configuration";
    let uri = if base.ends_with(known) { base.to_owned() } else { format!("{base}{known}") };
    let request = HttpRequest {
        method: "GET".to_owned(),
        uri: uri.clone(),
        headers: vec![("Accept".to_owned(), "application/json".to_owned())],
        body: None,
        follows_redirects: true,
        digest: None,
    };
    let response = effect.io.http(&request, &effect.call).map_err(fault_of)?;
    let settings = content(Some("application/json"), &response.body)?;
    let endpoint = settings.get("token_endpoint").and_then(Value::as_str);
    let none = || Fault::authentication(format!("{} names no token endpoint", uri::shown(&uri)));
    endpoint.map(str::to_owned).ok_or_else(none)
}

/// Adds the authentication of the client.
fn add_client(
    client: &Value,
    fields: &mut Map<String, Value>,
    request: &mut HttpRequest,
) -> Result<(), Fault> {
    let text = |name: &str| client.get(name).filter(|value| !value.is_null()).map(as_text);
    let missing = |name: &str| Fault::authentication(format!("the client has no «{name}»"));
    match text("authentication").as_deref().unwrap_or("client_secret_post") {
        "client_secret_basic" => {
            let id = text("id").ok_or_else(|| missing("id"))?;
            let secret = text("secret").ok_or_else(|| missing("secret"))?;
            let pair = STANDARD.encode(format!("{id}:{secret}"));
            request.headers.push(("Authorization".to_owned(), format!("Basic {pair}")));
        }
        "private_key_jwt" => {
            let assertion = text("assertion").ok_or_else(|| missing("assertion"))?;
            let kind = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";
            fields.insert("client_assertion_type".to_owned(), json!(kind));
            fields.insert("client_assertion".to_owned(), json!(assertion));
            fields.extend(text("id").map(|id| ("client_id".to_owned(), json!(id))));
        }
        "none" => fields.extend(text("id").map(|id| ("client_id".to_owned(), json!(id)))),
        _ => {
            fields.extend(text("id").map(|id| ("client_id".to_owned(), json!(id))));
            fields.extend(text("secret").map(|secret| ("client_secret".to_owned(), json!(secret))));
        }
    }
    Ok(())
}

/// A token that says who gave it must be from one of the issuers, if those are named.
fn check_issuer(properties: &Map<String, Value>, token: &str) -> Result<(), Fault> {
    let Some(Value::Array(issuers)) = properties.get("issuers") else { return Ok(()) };
    let claims = token.split('.').nth(1);
    let engine = base64::engine::general_purpose::URL_SAFE_NO_PAD;
    let claims = claims.and_then(|claims| engine.decode(claims).ok());
    let claims: Option<Value> = claims.and_then(|claims| serde_json::from_slice(&claims).ok());
    let issuer = claims.as_ref().and_then(|claims| claims.get("iss"));
    if issuer.is_some_and(|issuer| issuers.contains(issuer)) {
        return Ok(());
    }
    Err(Fault::authentication("the token is from none of the «issuers»"))
}
