//! The executor `kafka`: one record to a topic, acknowledged by all replicas in step.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use rskafka::chrono::DateTime;
use rskafka::client::partition::{Compression, UnknownTopicHandling};
use rskafka::client::{Client, ClientBuilder, Credentials, SaslConfig};
use rskafka::record::Record;
use rustls::crypto::ring::default_provider;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::CertificateDer;
use rustls::{ClientConfig, RootCertStore};
use turnwheel_jobs::{Call, Executor, Settings, Verdict, Work};

use super::only;
use super::reach::{allow, is_on, text, within};
use crate::io::HostIo;

/// Settings that the executor knows: those of Dkron, and the file of authorities.
const KNOWN: [&str; 11] = [
    "brokerAddress",
    "topic",
    "key",
    "message",
    "tlsEnable",
    "tlsInsecureSkipVerify",
    "tlsRootCAsFile",
    "saslUsername",
    "saslPassword",
    "saslMechanism",
    "debug",
];

/// Header by which a consumer recognises a record that comes again.
const KEY: &str = "idempotency-key";

/// The longest name of a topic.
const TOPIC_BYTES_MAX: usize = 249;

/// Largest answer of a broker that is read.
const ANSWER_BYTES_MAX: usize = 16 << 20;

/// Sends records.
#[derive(Clone, Debug)]
pub(super) struct Kafka {
    pub(super) io: HostIo,
}

/// Settings, understood.
struct Parsed {
    /// Hosts with their ports.
    brokers: Vec<(String, u16)>,
    sasl: Option<SaslConfig>,
    is_encrypted: bool,
}

fn parse(config: &Settings) -> Result<Parsed, String> {
    only("kafka", config, &KNOWN)?;
    let parts = text(config, "brokerAddress").split(',').map(str::trim);
    let brokers: Result<Vec<(String, u16)>, String> =
        parts.filter(|part| !part.is_empty()).map(broker).collect();
    let brokers = brokers?;
    if brokers.is_empty() {
        return Err("brokerAddress: it is empty: give one such as host:9092".to_owned());
    }
    let topic = text(config, "topic");
    let is_of_topics =
        |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    if topic.is_empty() || topic.len() > TOPIC_BYTES_MAX || !topic.bytes().all(is_of_topics) {
        return Err(format!(
            "topic: «{topic}» is no topic: give 1 to {TOPIC_BYTES_MAX} letters, digits, «.», «_» and «-»"
        ));
    }
    if is_on(config, "tlsInsecureSkipVerify")? {
        return Err("tlsInsecureSkipVerify: certificates are always checked here: name the \
            authority of the brokers by tlsRootCAsFile"
            .to_owned());
    }
    let is_encrypted = is_on(config, "tlsEnable")?;
    if !is_encrypted && !text(config, "tlsRootCAsFile").is_empty() {
        return Err("tlsRootCAsFile: it is of no use without tlsEnable".to_owned());
    }
    Ok(Parsed { brokers, sasl: sasl(config)?, is_encrypted })
}

fn broker(part: &str) -> Result<(String, u16), String> {
    let wrong = || format!("brokerAddress: «{part}» is no broker: write it as host:9092");
    let (host, port) = part.rsplit_once(':').ok_or_else(wrong)?;
    let host = host.trim_start_matches('[').trim_end_matches(']');
    match port.parse() {
        Ok(port) if !host.is_empty() && !host.contains('/') => Ok((host.to_owned(), port)),
        _ => Err(wrong()),
    }
}

fn sasl(config: &Settings) -> Result<Option<SaslConfig>, String> {
    let (user, mechanism) = (text(config, "saslUsername"), text(config, "saslMechanism"));
    if user.is_empty() {
        return match mechanism {
            "" => Ok(None),
            _ => Err("saslUsername: it is empty, and saslMechanism is given".to_owned()),
        };
    }
    let password = config.get("saslPassword").cloned().unwrap_or_default();
    let credentials = Credentials::new(user.to_owned(), password);
    match mechanism.to_ascii_uppercase().as_str() {
        "" | "PLAIN" => Ok(Some(SaslConfig::Plain(credentials))),
        "SCRAM-SHA-256" => Ok(Some(SaslConfig::ScramSha256(credentials))),
        "SCRAM-SHA-512" => Ok(Some(SaslConfig::ScramSha512(credentials))),
        _ => Err(format!(
            "saslMechanism: «{mechanism}» is not known: PLAIN, SCRAM-SHA-256 and SCRAM-SHA-512 are"
        )),
    }
}

impl Executor for Kafka {
    fn check(&self, config: &Settings) -> Result<(), String> {
        parse(config).map(drop)
    }

    fn execute(&self, work: &Work, call: &Call<'_>) -> Verdict {
        within(work, call, self.send(work))
    }
}

impl Kafka {
    async fn send(&self, work: &Work) -> Result<String, String> {
        let Parsed { brokers, sasl, is_encrypted } = parse(&work.config)?;
        for (host, port) in &brokers {
            allow(&self.io, host, *port).await?;
        }
        let brokers = brokers.iter().map(|(host, port)| match host.contains(':') {
            true => format!("[{host}]:{port}"),
            false => format!("{host}:{port}"),
        });
        let client = ClientBuilder::new(brokers.collect()).client_id("turnwheel");
        let client = client.max_message_size(ANSWER_BYTES_MAX);
        let client = match sasl {
            Some(sasl) => client.sasl_config(sasl),
            None => client,
        };
        let client = match is_encrypted {
            true => client.tls_config(self.tls(text(&work.config, "tlsRootCAsFile"))?),
            false => client,
        };
        let client = client.build().await.map_err(failed)?;
        send_to(&client, work).await
    }

    /// The authorities of the file, else those that browsers know.
    fn tls(&self, file: &str) -> Result<Arc<ClientConfig>, String> {
        let mut roots = RootCertStore::empty();
        if file.is_empty() {
            roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
        } else {
            if let Err(error) = self.io.may_run() {
                return Err(format!("files of certificates are not read here: {}", error.message));
            }
            let wrong = |problem: &dyn Display| format!("tlsRootCAsFile: {file}: {problem}");
            for found in CertificateDer::pem_file_iter(file).map_err(|error| wrong(&error))? {
                let found = found.map_err(|error| wrong(&error))?;
                roots.add(found).map_err(|error| wrong(&error))?;
            }
            if roots.is_empty() {
                return Err(wrong(&"it has no certificate in PEM"));
            }
        }
        let config = ClientConfig::builder_with_provider(Arc::new(default_provider()));
        let config = config.with_safe_default_protocol_versions();
        let config = config.map_err(|error| format!("TLS cannot be used: {error}"))?;
        Ok(Arc::new(config.with_root_certificates(roots).with_no_client_auth()))
    }
}

async fn send_to(client: &Client, work: &Work) -> Result<String, String> {
    let (config, topic) = (&work.config, text(&work.config, "topic"));
    let topics = client.list_topics().await.map_err(failed)?;
    let partitions = topics.into_iter().find(|it| it.name == topic).map(|it| it.partitions);
    let partitions: Vec<i32> = partitions.unwrap_or_default().into_iter().collect();
    let key = config.get("key").filter(|key| !key.is_empty());
    let placed = murmur2(key.map_or(work.key.as_bytes(), |key| key.as_bytes()));
    let partition = placed.checked_rem(partitions.len()).and_then(|nth| partitions.get(nth));
    let Some(partition) = partition.copied() else {
        return Err(format!("Kafka: there is no topic «{topic}»: create it, it is not made here"));
    };
    let to = client.partition_client(topic, partition, UnknownTopicHandling::Error).await;
    let to = to.map_err(failed)?;
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let now = i64::try_from(since.as_millis()).ok().and_then(DateTime::from_timestamp_millis);
    let now = now.ok_or("the clock of this host is wrong by more than records can say")?;
    let record = Record {
        key: key.map(|key| key.clone().into_bytes()),
        value: Some(config.get("message").cloned().unwrap_or_default().into_bytes()),
        headers: BTreeMap::from([(KEY.to_owned(), work.key.clone().into_bytes())]),
        timestamp: now,
    };
    let places = to.produce(vec![record], Compression::NoCompression).await.map_err(failed)?;
    let place = places.first().copied().unwrap_or_default();
    Ok(format!("sent to {topic}, partition {partition}, offset {place}"))
}

fn failed(error: impl Display) -> String {
    format!("Kafka: {error}")
}

/// The hash by which Kafka's own clients choose a partition, without its sign: MurmurHash2 of 32
/// bits (Austin Appleby), with their seed. Equal keys meet those of other producers.
fn murmur2(key: &[u8]) -> usize {
    const M: u32 = 0x5bd1_e995;
    let little =
        |bytes: &[u8]| bytes.iter().rev().fold(0, |word, byte| (word << 8) | u32::from(*byte));
    #[expect(clippy::cast_possible_truncation, reason = "the hash takes 32 bits of the length")]
    let mut hash = 0x9747_b28c ^ key.len() as u32;
    let words = key.chunks_exact(4);
    let rest = words.remainder();
    for word in words {
        let word = little(word).wrapping_mul(M);
        hash = hash.wrapping_mul(M) ^ (word ^ (word >> 24)).wrapping_mul(M);
    }
    if !rest.is_empty() {
        hash = (hash ^ little(rest)).wrapping_mul(M);
    }
    hash = (hash ^ (hash >> 13)).wrapping_mul(M);
    ((hash ^ (hash >> 15)) & 0x7fff_ffff) as usize
}

#[cfg(test)]
mod tests {
    use super::murmur2;

    /// Values of the tests of Kafka's own Java client, with the sign bit taken away.
    #[test]
    fn partitions_are_those_of_the_clients_of_kafka() {
        for (key, hash) in [
            ("21", -973_932_308_i32),
            ("foobar", -790_332_482),
            ("a-little-bit-long-string", -985_981_536),
            ("a-little-bit-longer-string", -1_486_304_829),
            ("lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58_897_971),
            ("abc", 479_470_107),
        ] {
            assert_eq!(murmur2(key.as_bytes()), (hash & 0x7fff_ffff) as usize, "{key}");
        }
    }
}
