//! Settings of the environment, by the names that OpenTelemetry gives them.

use std::time::Duration;

/// Settings of the variables `OTEL_*`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Environment {
    /// The address for spans: `OTEL_EXPORTER_OTLP_TRACES_ENDPOINT`, else
    /// `OTEL_EXPORTER_OTLP_ENDPOINT` with `/v1/traces`; nothing if `OTEL_SDK_DISABLED` is `true`.
    pub endpoint: Option<String>,
    /// Headers of each request: `OTEL_EXPORTER_OTLP_TRACES_HEADERS`, else
    /// `OTEL_EXPORTER_OTLP_HEADERS`.
    pub headers: Vec<(String, String)>,
    /// Attributes of the process: `OTEL_RESOURCE_ATTRIBUTES`, and `OTEL_SERVICE_NAME` as
    /// `service.name`.
    pub resource: Vec<(String, String)>,
    /// Time limit of a collector's answer: `OTEL_EXPORTER_OTLP_TIMEOUT`, in milliseconds.
    pub timeout: Option<Duration>,
}

impl Environment {
    /// Reads the variables of this process.
    pub fn read() -> Self {
        Self::of(|name| std::env::var(name).ok())
    }

    fn of(variable: impl Fn(&str) -> Option<String>) -> Self {
        let text = |name: &str| variable(name).filter(|text| !text.trim().is_empty());
        let of_traces = |end: &str| {
            let own = text(&format!("OTEL_EXPORTER_OTLP_TRACES_{end}"));
            own.or_else(|| text(&format!("OTEL_EXPORTER_OTLP_{end}")))
        };
        let whole = text("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT");
        let base = text("OTEL_EXPORTER_OTLP_ENDPOINT");
        let base = base.map(|base| format!("{}/v1/traces", base.trim_end_matches('/')));
        let is_off = text("OTEL_SDK_DISABLED").is_some_and(|it| it.eq_ignore_ascii_case("true"));
        let mut resource = pairs(text("OTEL_RESOURCE_ATTRIBUTES"));
        if let Some(name) = text("OTEL_SERVICE_NAME") {
            resource.retain(|(known, _)| known != "service.name");
            resource.push(("service.name".to_owned(), name));
        }
        let timeout = of_traces("TIMEOUT").and_then(|ms| ms.trim().parse().ok());
        Self {
            endpoint: whole.or(base).filter(|_| !is_off),
            headers: pairs(of_traces("HEADERS")),
            resource,
            timeout: timeout.map(Duration::from_millis),
        }
    }
}

/// A list such as `a=1,b=two%20words`; parts without a name are left out.
fn pairs(text: Option<String>) -> Vec<(String, String)> {
    let text = text.unwrap_or_default();
    let pair = |part: &str| {
        let (name, value) = part.split_once('=')?;
        let name = name.trim();
        (!name.is_empty()).then(|| (name.to_owned(), decoded(value.trim())))
    };
    text.split(',').filter_map(pair).collect()
}

/// A text without its percent encoding; a percent sign that begins none stays.
fn decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let code = after.get(..2).and_then(|two| std::str::from_utf8(two).ok());
        let code = code.filter(|_| *first == b'%').and_then(|two| u8::from_str_radix(two, 16).ok());
        bytes.push(code.unwrap_or(*first));
        rest = if code.is_some() { &after[2..] } else { after };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(variables: &[(&str, &str)]) -> Environment {
        let find = |name: &str| variables.iter().find(|(known, _)| *known == name);
        Environment::of(|name| find(name).map(|(_, value)| (*value).to_owned()))
    }

    #[test]
    fn settings_are_read_as_opentelemetry_says() {
        assert_eq!(of(&[]), Environment::default());
        let base = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://c:4318/in/");
        assert_eq!(of(&[base]).endpoint.as_deref(), Some("http://c:4318/in/v1/traces"));
        let own = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://t/x");
        assert_eq!(of(&[base, own]).endpoint.as_deref(), Some("http://t/x"));
        assert_eq!(of(&[base, ("OTEL_SDK_DISABLED", "TRUE")]).endpoint, None);
        let all = of(&[
            ("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Basic%20eDp5, x-a = 1,=,bad"),
            ("OTEL_RESOURCE_ATTRIBUTES", "service.name=old,deployment.environment=50%,a=%C3%A9"),
            ("OTEL_SERVICE_NAME", "shop"),
            ("OTEL_EXPORTER_OTLP_TIMEOUT", "1500"),
        ]);
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!(all.headers, [pair("authorization", "Basic eDp5"), pair("x-a", "1")]);
        let resource =
            [pair("deployment.environment", "50%"), pair("a", "é"), pair("service.name", "shop")];
        assert_eq!(all.resource, resource);
        assert_eq!(all.timeout, Some(Duration::from_millis(1_500)));
        assert_eq!(of(&[("OTEL_EXPORTER_OTLP_TIMEOUT", "soon")]).timeout, None);
    }
}
