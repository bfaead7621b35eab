//! One connection, which is opened again when it is lost. It keeps no state on the server.

use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{AsyncMessage, Client, Config, Error, Row};
use turnwheel_engine::StoreError;
use uuid::Uuid;

use crate::cell::number;
use crate::driver::Driver;
use crate::error::{trouble, unconnected, Trouble};
use crate::seen::Seen;
use crate::settings::Settings;
use crate::tls::{self, Tls};
use crate::wait::{pause, wait};

/// Time of one statement of a migration, which may read all plans.
const MIGRATION_LIMIT: Duration = Duration::from_secs(6 * 3600);
/// A statement without an answer for so long is given up with its connection.
const ANSWER_LIMIT: Duration = Duration::from_secs(60);
/// As long as all servers of a URL may take.
const CONNECT_LIMIT: Duration = Duration::from_secs(30);
/// Pauses before a read is tried again: a restart of the server is bridged.
const READ_AGAIN_MS: [u64; 6] = [0, 50, 200, 500, 1_000, 2_000];
/// Pauses before a transaction that others have stopped is tried again.
const PASSING_AGAIN_MS: [u64; 6] = [1, 5, 20, 50, 100, 200];

/// PostgreSQL 14.
const VERSION_MIN: i32 = 140_000;

/// A parameter with its type.
pub(crate) type Value<'a> = (&'a (dyn ToSql + Sync), Type);

/// State that the ends of a store share.
pub(crate) struct Shared {
    pub(crate) settings: Settings,
    /// This store in this process.
    pub(crate) instance: Uuid,
    pub(crate) driver: Driver,
    pub(crate) seen: Seen,
    tls: Tls,
}

/// How a connection is made.
#[derive(Clone)]
pub(crate) struct Connecting {
    config: Config,
    tls: Tls,
}

impl Connecting {
    pub(crate) async fn connect(&self) -> Result<Client, Error> {
        let (client, connection) = self.config.connect(self.tls.0.clone()).await?;
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(%error, "a connection to PostgreSQL has ended");
            }
        });
        Ok(client)
    }

    /// Gives the payloads of a channel to `told` until the connection ends. `begun` is called when
    /// it listens.
    pub(crate) async fn listen(
        &self,
        channel: &str,
        told: impl Fn(&str) + Send + 'static,
        begun: impl FnOnce(),
    ) -> Result<(), Error> {
        let (client, mut connection) = self.config.connect(self.tls.0.clone()).await?;
        let driving = tokio::spawn(async move {
            while let Some(message) = poll_fn(|cx| connection.poll_message(cx)).await {
                if let AsyncMessage::Notification(note) = message? {
                    told(note.payload());
                }
            }
            Ok(())
        });
        client.batch_execute(&format!("LISTEN {channel}")).await?;
        begun();
        driving.await.unwrap_or(Ok(()))
    }
}

impl Shared {
    pub(crate) fn new(settings: Settings) -> Result<Self, StoreError> {
        let tls = tls::connector(&settings.check)?;
        let (instance, driver) = (Uuid::now_v7(), Driver::start()?);
        Ok(Self { settings, instance, driver, seen: Seen::default(), tls })
    }

    /// A statement with the schema of this store in place of `tw`.
    pub(crate) fn sql(&self, text: &str) -> String {
        text.replace("tw.", &format!("{}.", self.settings.schema))
    }

    pub(crate) fn connecting(&self) -> Connecting {
        Connecting { config: self.settings.config.clone(), tls: self.tls.clone() }
    }

    fn connect(&self, limit: Duration) -> Result<Client, Trouble> {
        let connecting = self.connecting();
        match self.driver.run(async move { connecting.connect().await }, limit) {
            Some(Ok(client)) => Ok(client),
            Some(Err(error)) => Err(unconnected(&error)),
            None => Err(Trouble::Lost(format!("no server answers within {limit:?}"))),
        }
    }
}

/// A connection of a writer or a reader.
pub(crate) struct Session {
    pub(crate) shared: Arc<Shared>,
    client: Option<Client>,
    answer_limit: Duration,
    connect_limit: Duration,
}

impl Session {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        let (answer_limit, connect_limit) = (ANSWER_LIMIT, CONNECT_LIMIT);
        Self { shared, client: None, answer_limit, connect_limit }
    }

    /// Gives up sooner than usual.
    pub(crate) fn limit_to(&mut self, limit: Duration) {
        // A lease of nothing is for tests.
        let limit = limit.max(Duration::from_secs(1));
        self.answer_limit = limit.min(ANSWER_LIMIT);
        self.connect_limit = limit.min(CONNECT_LIMIT);
    }

    /// Waits as long as a change of the tables takes, or as usual.
    pub(crate) fn wait_for_migration(&mut self, is_long: bool) {
        self.answer_limit = if is_long { MIGRATION_LIMIT } else { ANSWER_LIMIT };
    }

    pub(crate) fn name(&self) -> &str {
        &self.shared.settings.name
    }

    pub(crate) fn is_open(&self) -> bool {
        self.client.as_ref().is_some_and(|client| !client.is_closed())
    }

    /// Opens the connection anew.
    pub(crate) fn connect(&mut self) -> Result<(), Trouble> {
        self.client = None;
        self.client = Some(self.shared.connect(self.connect_limit)?);
        Ok(())
    }

    /// Opens the connection anew, to a server that can be used.
    pub(crate) fn open(&mut self) -> Result<(), Trouble> {
        if self.shared.seen.is_lost() {
            return Err(lost());
        }
        self.connect()?;
        // The timeline is the beginning of the name of the file of the log.
        let sql = "SELECT current_setting('server_version_num')::int4, pg_is_in_recovery(), \
            current_setting('server_encoding'), current_setting('server_version'), \
            CASE WHEN NOT pg_is_in_recovery() \
                THEN left(pg_walfile_name(pg_current_wal_lsn()), 8) END, \
            current_setting('turnwheel.session', true) = 'on'";
        let rows = self.ask(sql, &[])?;
        let Some(row) = rows.first() else { return Err(refuse("the server does not answer")) };
        let (version, is_standby, encoding, said): (i32, bool, String, String) =
            (row.get(0), row.get(1), row.get(2), row.get(3));
        if version < VERSION_MIN {
            return Err(refuse(&format!(
                "the server is PostgreSQL {said}, and 14 is the oldest that can be used: upgrade \
                 it, or name another one"
            )));
        }
        if is_standby {
            return Err(refuse(
                "the server is a standby, which takes no writes: name the primary in the URL, or \
                 all servers with target_session_attrs=read-write",
            ));
        }
        if encoding != "UTF8" {
            return Err(refuse(&format!(
                "the database has the encoding {encoding}: make one with ENCODING 'UTF8' TEMPLATE \
                 template0"
            )));
        }
        // A pooler may be told to ignore them, and then says nothing.
        let has_options = row.get::<_, Option<bool>>(5) == Some(true);
        if !self.shared.settings.is_pooled && !has_options {
            return Err(refuse(
                "the settings of the session did not arrive: a pooler is in between and ignores \
                 them; add pooler=transaction to the URL",
            ));
        }
        match row.get::<_, Option<String>>(4) {
            Some(timeline) if self.shared.seen.is_other(&timeline) => self.look_back(&timeline),
            _ => Ok(()),
        }
    }

    /// The server was a standby: whether it has what this process has seen.
    fn look_back(&mut self, timeline: &str) -> Result<(), Trouble> {
        let (worlds, entry) = self.shared.seen.newest();
        let sql = self.shared.sql(
            "SELECT value >= $1 AND ($2 = 0 OR EXISTS (SELECT FROM tw.journal WHERE seq = $2))
                FROM tw.meta WHERE name = 'worlds'",
        );
        let (worlds, entry) = (number(worlds), number(entry));
        let rows = self.ask(&sql, &[(&worlds, Type::INT8), (&entry, Type::INT8)])?;
        let store = self.name().to_owned();
        if rows.first().is_some_and(|row| row.get(0)) {
            tracing::warn!(store, timeline, "the database has failed over, and nothing is lost");
            self.shared.seen.is_on(timeline);
            return Ok(());
        }
        self.shared.seen.lose();
        self.client = None;
        tracing::error!(store, timeline, "the database has failed over and lacks the last commits");
        Err(lost())
    }

    /// One statement in one round trip: not prepared, so that it may go through a pooler.
    pub(crate) fn ask(&mut self, sql: &str, values: &[Value<'_>]) -> Result<Vec<Row>, Trouble> {
        let Some(client) = self.client.as_ref() else { return Err(closed()) };
        let answer = wait(client.query_typed(sql, values), self.answer_limit);
        self.answered(answer)
    }

    /// Statements without values.
    pub(crate) fn run(&mut self, sql: &str) -> Result<(), Trouble> {
        let Some(client) = self.client.as_ref() else { return Err(closed()) };
        let answer = wait(client.batch_execute(sql), self.answer_limit);
        self.answered(answer)
    }

    fn answered<T>(&mut self, answer: Option<Result<T, Error>>) -> Result<T, Trouble> {
        let trouble = match answer {
            Some(Ok(answer)) => return Ok(answer),
            Some(Err(error)) => trouble(&error),
            None => Trouble::Lost(format!("no answer within {:?}", self.answer_limit)),
        };
        if matches!(trouble, Trouble::Lost(_)) {
            self.client = None;
        }
        Err(trouble)
    }

    /// As [`ask`](Self::ask), and again after what passes: a deadlock, for example.
    pub(crate) fn ask_again(
        &mut self,
        sql: &str,
        values: &[Value<'_>],
    ) -> Result<Vec<Row>, Trouble> {
        let mut answer = self.ask(sql, values);
        for again in PASSING_AGAIN_MS {
            if !matches!(answer, Err(Trouble::Again(_))) {
                break;
            }
            pause(Duration::from_millis(again));
            answer = self.ask(sql, values);
        }
        answer
    }

    /// Reads, over a new connection if this one is lost.
    pub(crate) fn read(&mut self, sql: &str, values: &[Value<'_>]) -> Result<Vec<Row>, StoreError> {
        let sql = self.shared.sql(sql);
        let mut answer = Err(Trouble::Lost(String::new()));
        for again in READ_AGAIN_MS {
            pause(Duration::from_millis(again));
            answer = match self.is_open() {
                true => Ok(()),
                false => self.open(),
            }
            .and_then(|()| self.ask_again(&sql, values));
            if !matches!(answer, Err(Trouble::Lost(_))) {
                break;
            }
        }
        answer.map_err(|trouble| trouble.told(self.name(), 0))
    }
}

fn lost() -> Trouble {
    refuse(
        "the database has failed over to a server that lacks the last commits of this process, \
         which writes nothing any more: start it again, and it goes on with what is there. A \
         synchronous standby (synchronous_standby_names) loses nothing",
    )
}

fn closed() -> Trouble {
    Trouble::Lost("it is not open".to_owned())
}

fn refuse(problem: &str) -> Trouble {
    Trouble::Refused(StoreError::Failed(problem.to_owned()))
}
