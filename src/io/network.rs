//! Addresses and ports that requests of flows may reach, after their names are resolved.
//!
//! The check is part of the resolver: the client connects to the addresses that passed it and resolves
//! nothing again, so a name cannot lead elsewhere in between (DNS rebinding). Redirections and each
//! further connection take the same way.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ureq::config::Config;
use ureq::http::Uri;
use ureq::unversioned::resolver::{DefaultResolver, ResolvedSocketAddrs, Resolver};
use ureq::unversioned::transport::NextTimeout;

use super::options::IoOptions;

/// Addresses of clouds' metadata that are not link-local by their number: Alibaba, Azure, Oracle.
const METADATA: [[u8; 4]; 3] = [[100, 100, 100, 200], [168, 63, 129, 16], [192, 0, 0, 192]];

/// A kind of networks, by address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Network {
    /// Everything that is none of the others.
    Public,
    /// Addresses of private networks: `10.0.0.0/8`, `172.16.0.0/12`, `192.168.0.0/16`,
    /// `100.64.0.0/10`, `198.18.0.0/15`, `fc00::/7`, `fec0::/10`, `64:ff9b:1::/48`.
    Private,
    /// This host: `127.0.0.0/8`, `::1`, `0.0.0.0/8`, `::`.
    Loopback,
    /// Addresses without a router, where clouds have their metadata: `169.254.0.0/16`, `fe80::/10`,
    /// `fd00:ec2::/32`, `100.100.100.200`, `168.63.129.16`, `192.0.0.192`; also multicast and
    /// broadcast.
    LinkLocal,
}

impl Network {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Public, Self::Private, Self::Loopback, Self::LinkLocal];

    /// As in the settings.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Public => "public",
            Self::Private => "private",
            Self::Loopback => "loopback",
            Self::LinkLocal => "link-local",
        }
    }

    /// The one with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|network| network.name() == name)
    }

    /// The one that an address is of.
    pub fn of(address: IpAddr) -> Self {
        match address {
            IpAddr::V4(address) => Self::of_four(address),
            IpAddr::V6(address) => Self::of_six(address),
        }
    }

    fn of_four(address: Ipv4Addr) -> Self {
        let [first, second, third, fourth] = address.octets();
        let is_metadata = METADATA.contains(&[first, second, third, fourth]);
        if is_metadata || address.is_link_local() || address.is_multicast() || first >= 240 {
            Self::LinkLocal
        } else if address.is_loopback() || first == 0 {
            Self::Loopback
        } else if address.is_private()
            || (first == 100 && (64..128).contains(&second))
            || (first == 198 && matches!(second, 18 | 19))
        {
            Self::Private
        } else {
            Self::Public
        }
    }

    fn of_six(address: Ipv6Addr) -> Self {
        let parts = address.segments();
        if address.is_loopback() || address.is_unspecified() {
            return Self::Loopback;
        }
        // An address of IPv4 in other clothes: mapped, translated, compatible, NAT64, 6to4, Teredo.
        let inner = |high: u16, low: u16| {
            let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
            Self::of_four(Ipv4Addr::new(a, b, c, d))
        };
        match parts {
            [0, 0, 0, 0, 0, 0xffff | 0, high, low]
            | [0, 0, 0, 0, 0xffff, 0, high, low]
            | [0x64, 0xff9b, 0, 0, 0, 0, high, low] => inner(high, low),
            // The same of one network (RFC 8215), which is no public one.
            [0x64, 0xff9b, 1, .., high, low] => match inner(high, low) {
                Self::Public => Self::Private,
                other => other,
            },
            [0x2001, 0, .., high, low] => inner(!high, !low),
            [0x2002, high, low, ..] => inner(high, low),
            // Where clouds have their metadata: Amazon, Google, Oracle, Scaleway.
            [0xfd00, 0x0ec2, ..]
            | [0xfd20, 0x00ce, 0, 0, 0, 0, 0, 0x0254]
            | [0xfd00, 0x00c1, 0, 0, 0, 0, 0xa9fe, 0xa9fe]
            | [0xfd00, 0x0042, 0, 0, 0, 0, 0, 0x0042] => Self::LinkLocal,
            [first, ..] if first & 0xffc0 == 0xfe80 || first >= 0xff00 => Self::LinkLocal,
            [first, ..] if first & 0xfe00 == 0xfc00 || first & 0xffc0 == 0xfec0 => Self::Private,
            _ => Self::Public,
        }
    }
}

/// Why an address may not be reached; inside an error of the client.
#[derive(Debug)]
pub(super) struct Closed(String);

impl fmt::Display for Closed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Closed {}

/// Refuses an address whose network is closed.
pub(super) fn refuse(options: &IoOptions, host: &str, address: IpAddr) -> Result<(), Closed> {
    let network = Network::of(address);
    if options.http_networks.contains(&network) {
        return Ok(());
    }
    let name = network.name();
    Err(Closed(format!(
        "the host «{host}» has the address {address}, which is {name}, and requests to such \
         addresses are closed: add «{name}» to the setting io.http-networks to open them"
    )))
}

/// Resolves names to addresses that may be reached.
#[derive(Debug)]
pub(super) struct Checked {
    inner: DefaultResolver,
    options: IoOptions,
}

impl Checked {
    pub(super) fn new(options: &IoOptions) -> Self {
        Self { inner: DefaultResolver::default(), options: options.clone() }
    }
}

impl Resolver for Checked {
    fn resolve(
        &self,
        uri: &Uri,
        config: &Config,
        timeout: NextTimeout,
    ) -> Result<ResolvedSocketAddrs, ureq::Error> {
        let found = self.inner.resolve(uri, config, timeout)?;
        // The operator has named the proxy; it resolves the names of others.
        if config.proxy().is_some_and(|proxy| proxy.uri().authority() == uri.authority()) {
            return Ok(found);
        }
        let (mut allowed, mut closed) = (self.empty(), None);
        for address in found.iter() {
            match refuse(&self.options, uri.host().unwrap_or_default(), address.ip()) {
                Ok(()) => allowed.push(*address),
                Err(problem) => closed = Some(problem),
            }
        }
        match closed {
            Some(problem) if allowed.is_empty() => {
                let kind = std::io::ErrorKind::PermissionDenied;
                Err(ureq::Error::Io(std::io::Error::new(kind, problem)))
            }
            _ => Ok(allowed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_address_is_of_one_network_whatever_it_is_written_as() {
        for (address, network) in [
            ("93.184.216.34", Network::Public),
            ("2606:2800:220:1::1", Network::Public),
            ("10.1.2.3", Network::Private),
            ("172.31.0.1", Network::Private),
            ("172.32.0.1", Network::Public),
            ("192.168.0.1", Network::Private),
            ("100.64.0.1", Network::Private),
            ("fd12::1", Network::Private),
            ("127.8.9.1", Network::Loopback),
            ("0.0.0.0", Network::Loopback),
            ("::1", Network::Loopback),
            ("::", Network::Loopback),
            ("::ffff:127.0.0.1", Network::Loopback),
            ("169.254.169.254", Network::LinkLocal),
            ("100.100.100.200", Network::LinkLocal),
            ("168.63.129.16", Network::LinkLocal),
            ("168.63.129.17", Network::Public),
            ("192.0.0.192", Network::LinkLocal),
            ("::ffff:168.63.129.16", Network::LinkLocal),
            ("fd00:ec2::254", Network::LinkLocal),
            ("fe80::1", Network::LinkLocal),
            ("::ffff:169.254.169.254", Network::LinkLocal),
            ("::169.254.169.254", Network::LinkLocal),
            ("64:ff9b::a9fe:a9fe", Network::LinkLocal),
            ("2002:a9fe:a9fe::1", Network::LinkLocal),
            ("224.0.0.1", Network::LinkLocal),
            ("255.255.255.255", Network::LinkLocal),
            ("ff02::1", Network::LinkLocal),
            ("198.19.0.1", Network::Private),
            ("198.20.0.1", Network::Public),
            ("fec0::1", Network::Private),
            ("::ffff:0:127.0.0.1", Network::Loopback),
            ("64:ff9b:1::7f00:1", Network::Loopback),
            ("64:ff9b:1::a9fe:a9fe", Network::LinkLocal),
            ("64:ff9b:1::5db8:d822", Network::Private),
            ("2001::80ff:fffe", Network::Loopback),
            ("2001:db8::80ff:fffe", Network::Public),
        ] {
            let parsed = address.parse().expect(address);
            assert_eq!(Network::of(parsed), network, "{address}");
        }
    }
}
