//! A connection that has been introduced: the tables are there, it is the store it was, the statements are known.

use core::fmt;
use core::future::Future;
use core::pin::Pin;
use core::time::Duration;

use tokio::time::timeout;
use tokio_postgres::tls::{MakeTlsConnect, TlsConnect};
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Config, Row, Socket, Statement};

use super::address::Address;
use super::fault::Fault;
use super::group::{Columns, Verdict};
use crate::store::{EntityId, PAGE_BYTES, StoreError};

/// The tables' version that this crate makes and knows.
const VERSION: i32 = 1;
const TABLES: &str = include_str!("schema.sql");
/// Whoever makes tables holds this lock.
const LOCK: &str = "pg_advisory_xact_lock(7563634, 1)";
/// The server's time limit comes first, so that it is known that nothing was written.
const GRACE: Duration = Duration::from_secs(2);

const PAGE: i64 = PAGE_BYTES as i64;

type BoxFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;
type Dialed = Result<(Client, BoxFuture<()>), tokio_postgres::Error>;

/// Connects, with or without TLS.
pub(super) trait Dial: Send + Sync {
    fn dial(&self, config: Config) -> BoxFuture<Dialed>;
}

pub(super) struct With<T>(pub(super) T);

impl<T> Dial for With<T>
where
    T: MakeTlsConnect<Socket> + Clone + Send + Sync + 'static,
    T::Stream: Send,
    T::TlsConnect: Send,
    <T::TlsConnect as TlsConnect<Socket>>::Future: Send,
{
    fn dial(&self, config: Config) -> BoxFuture<Dialed> {
        let tls = self.0.clone();
        Box::pin(async move {
            let (client, connection) = config.connect(tls).await?;
            let connection: BoxFuture<()> = Box::pin(async move {
                // Whoever waits for an answer is told; nobody else has to know.
                let _ = connection.await;
            });
            Ok((client, connection))
        })
    }
}

/// Everything that it takes to connect.
pub(super) struct Door {
    pub(super) address: Address,
    pub(super) dial: Box<dyn Dial>,
    pub(super) schema: String,
    /// The lock of the session that writes for this store.
    pub(super) turn: i64,
    pub(super) connect_timeout: Duration,
    pub(super) statement_timeout: Duration,
}

impl fmt::Debug for Door {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Door")
            .field("place", &self.address.place)
            .field("schema", &self.schema)
            .finish_non_exhaustive()
    }
}

#[derive(Debug)]
pub(super) struct Session {
    client: Client,
    limit: Duration,
    pub(super) store: u64,
    write: Statement,
    entity: Statement,
    events: Statement,
    ids: Statement,
}

/// What is read.
#[derive(Clone, Copy, Debug)]
pub(super) enum Ask<'a> {
    /// Fence, number, state and its number, senders: one row.
    Entity(i64),
    Events {
        entity: &'a EntityId,
        after: i64,
        limit: i64,
    },
    /// Fence and id: one row at least, whose id is null if there is none.
    Ids {
        key: i64,
        after: Option<&'a [u8]>,
        limit: i64,
    },
}

impl Door {
    /// Connects. `known`: the store that it has to be.
    pub(super) async fn open(&self, known: Option<u64>) -> Result<Session, StoreError> {
        let servers = self.address.config.get_hosts().len().max(1);
        let servers = u32::try_from(servers).unwrap_or(u32::MAX);
        let limit = self
            .connect_timeout
            .saturating_mul(servers)
            .saturating_add(self.statement_timeout);
        let opened = timeout(limit, self.try_open()).await;
        let session = match opened {
            Err(_) => return Err(self.unavailable(&format!("no answer within {limit:?}"))),
            Ok(Err(Opening::Store(error))) => return Err(error),
            Ok(Err(Opening::Fault(Fault::Refused { text, setting, .. }))) if setting => {
                return Err(StoreError::Setting(format!(
                    "{}: {text}",
                    self.address.place
                )));
            }
            Ok(Err(Opening::Fault(fault))) => return Err(self.unavailable(&fault.text())),
            Ok(Ok(session)) => session,
        };
        match known {
            Some(known) if known != session.store => Err(self.unavailable(&format!(
                "there is another store now: its id is {}, and was {known}",
                session.store
            ))),
            _ => Ok(session),
        }
    }

    /// Connects to write. No other session that this did for is going to write any more.
    pub(super) async fn open_to_write(&self, known: Option<u64>) -> Result<Session, StoreError> {
        let session = self.open(known).await?;
        let turn = session.take_turn(self.turn).await;
        turn.map_err(|fault| self.unavailable(&fault.text()))?;
        Ok(session)
    }

    fn unavailable(&self, what: &str) -> StoreError {
        StoreError::Unavailable(format!("{}: {what}", self.address.place).into())
    }

    async fn try_open(&self) -> Result<Session, Opening> {
        let dialing = self.dial.dial(self.address.config.clone());
        let (client, connection) = timeout(self.connect_timeout, dialing)
            .await
            .map_err(|_| Fault::Lost("cannot connect in time".to_owned()))??;
        tokio::spawn(connection);
        let milliseconds = self.statement_timeout.as_millis();
        client
            .batch_execute(&format!(
                "SET statement_timeout = {milliseconds}; SET lock_timeout = {}; SET client_min_messages = warning; \
                 SET idle_in_transaction_session_timeout = {milliseconds}; \
                 SET enable_seqscan = off; SET enable_bitmapscan = off; SET jit = off; \
                 SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL READ COMMITTED",
                milliseconds.div_ceil(2),
            ))
            .await?;
        let (store, version) = match self.identity(&client).await? {
            Some(found) => found,
            None => self.create(&client).await?,
        };
        if version > VERSION {
            return Err(Opening::Store(StoreError::Version {
                found: version.cast_unsigned(),
                known: VERSION.cast_unsigned(),
            }));
        }
        if version < 1 || store == 0 {
            return Err(Opening::Store(StoreError::Corrupt(format!(
                "version {version}, id {store}"
            ))));
        }
        let schema = &self.schema;
        let (write, entity, events, ids) = (
            format!(
                "SELECT verdict, key, seen, expected FROM \"{schema}\".write($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, \
                 $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21)"
            ),
            // Both arrays in the same order.
            format!(
                "SELECT f.epoch, f.seq, s.seq, s.state, \
                 ARRAY(SELECT n.sender FROM \"{schema}\".sender n WHERE n.fence = f.key ORDER BY n.heard), \
                 ARRAY(SELECT n.seq FROM \"{schema}\".sender n WHERE n.fence = f.key ORDER BY n.heard) \
                 FROM \"{schema}\".fence f LEFT JOIN \"{schema}\".state s ON s.fence = f.key WHERE f.key = $1"
            ),
            // A page ends after so many bytes: with the first item that goes beyond.
            format!(
                "SELECT seq, event FROM (SELECT e.seq, e.event, sum(length(e.event)) OVER (ORDER BY e.seq) \
                 - length(e.event) AS before FROM \"{schema}\".event e WHERE e.fence = (SELECT f.key FROM \
                 \"{schema}\".fence f WHERE f.space = 0 AND f.entity_type = \"{schema}\".name($1) \
                 AND f.id = \"{schema}\".name($2)) AND e.seq > $3 ORDER BY e.seq LIMIT $4) e \
                 WHERE before < $5 ORDER BY seq"
            ),
            format!(
                "SELECT f.epoch, coalesce(p.id, p.name) FROM \"{schema}\".fence f LEFT JOIN LATERAL \
                 (SELECT m.name, m.id, sum(length(coalesce(m.id, m.name))) \
                 OVER (ORDER BY m.name) - length(coalesce(m.id, m.name)) AS before FROM \"{schema}\".remembered m \
                 WHERE m.fence = f.key AND m.name >= CASE WHEN $2::bytea IS NULL THEN ''::bytea \
                 ELSE \"{schema}\".name($2) || '\\x00'::bytea END ORDER BY m.name LIMIT $3) p \
                 ON p.before < $4 WHERE f.key = $1 ORDER BY p.name"
            ),
        );
        let (write, entity, events, ids) = tokio::try_join!(
            client.prepare(&write),
            client.prepare(&entity),
            client.prepare(&events),
            client.prepare(&ids),
        )?;
        Ok(Session {
            client,
            limit: self.statement_timeout.saturating_add(GRACE),
            store,
            write,
            entity,
            events,
            ids,
        })
    }

    /// Id and version, if the tables are there.
    async fn identity(&self, client: &Client) -> Result<Option<(u64, i32)>, tokio_postgres::Error> {
        // In the tables, not by `to_regclass`: that may know from before the lock that there is nothing.
        let there = client
            .query_one(
                "SELECT EXISTS (SELECT FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace \
                 WHERE n.nspname = $1 AND c.relname = 'store')",
                &[&self.schema],
            )
            .await?;
        if !there.get::<_, bool>(0) {
            return Ok(None);
        }
        let found = client
            .query_one(
                &format!("SELECT id, version FROM \"{}\".store", self.schema),
                &[],
            )
            .await?;
        let id: i64 = found.get(0);
        Ok(Some((id.cast_unsigned(), found.get(1))))
    }

    /// Makes the tables, in one transaction. Of several that try at once the others wait, and find them made.
    async fn create(&self, client: &Client) -> Result<(u64, i32), Opening> {
        client
            .batch_execute(&format!("BEGIN; SELECT {LOCK}"))
            .await?;
        if self.identity(client).await?.is_none() {
            // Asking first, because `IF NOT EXISTS` wants the right to make one even where there is one.
            let there = client
                .query_opt(
                    "SELECT FROM pg_namespace WHERE nspname = $1",
                    &[&self.schema],
                )
                .await?;
            if there.is_none() {
                client
                    .batch_execute(&format!("CREATE SCHEMA \"{}\"", self.schema))
                    .await?;
            }
            let tables = TABLES
                .replace("{schema}", &format!("\"{}\"", self.schema))
                .replace("{version}", &VERSION.to_string());
            client.batch_execute(&tables).await?;
        }
        client.batch_execute("COMMIT").await?;
        let found = self.identity(client).await?;
        found.ok_or_else(|| Fault::Lost("the tables were dropped".to_owned()).into())
    }
}

enum Opening {
    Fault(Fault),
    Store(StoreError),
}

impl From<Fault> for Opening {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

impl From<tokio_postgres::Error> for Opening {
    fn from(error: tokio_postgres::Error) -> Self {
        Self::Fault(error.into())
    }
}

impl Session {
    pub(super) fn is_closed(&self) -> bool {
        self.client.is_closed()
    }

    /// Waits until the session that wrote before has ended, and sees to it that it does. The server may not know yet that
    /// its connection is lost, and have something left to do for it, late, over what is written from now on.
    async fn take_turn(&self, turn: i64) -> Result<(), Fault> {
        let asking = async {
            let free = self
                .client
                .query_one("SELECT pg_try_advisory_lock($1)", &[&turn])
                .await?;
            if !free.get::<_, bool>(0) {
                self.client
                    .query(
                        "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND granted \
                         AND database = (SELECT oid FROM pg_database WHERE datname = current_database()) \
                         AND objsubid = 1 AND (classid::bigint << 32) | objid::bigint = $1",
                        &[&turn],
                    )
                    .await?;
                self.client
                    .query("SELECT pg_advisory_lock($1)", &[&turn])
                    .await?;
            }
            Ok(())
        };
        match timeout(self.limit, asking).await {
            Ok(answer) => answer.map_err(|error: tokio_postgres::Error| error.into()),
            Err(_) => Err(Fault::Lost(format!("no answer within {:?}", self.limit))),
        }
    }

    /// Writes a group, in one transaction.
    pub(super) async fn write(&self, columns: &Columns<'_>) -> Result<Vec<Verdict>, Fault> {
        let store = self.store.cast_signed();
        let rows = self.query(&self.write, &columns.parameters(&store)).await?;
        Ok(rows.iter().map(verdict).collect())
    }

    pub(super) async fn read(&self, ask: &Ask<'_>) -> Result<Vec<Row>, Fault> {
        match ask {
            Ask::Entity(key) => self.query(&self.entity, &[key]).await,
            Ask::Events {
                entity,
                after,
                limit,
            } => {
                let (entity_type, id) = (entity.entity_type.as_bytes(), entity.id.as_bytes());
                self.query(&self.events, &[&entity_type, &id, after, limit, &PAGE])
                    .await
            }
            Ask::Ids { key, after, limit } => {
                self.query(&self.ids, &[key, after, limit, &PAGE]).await
            }
        }
    }

    async fn query(
        &self,
        statement: &Statement,
        parameters: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>, Fault> {
        match timeout(self.limit, self.client.query(statement, parameters)).await {
            Ok(answer) => answer.map_err(Fault::from),
            Err(_) => Err(Fault::Lost(format!("no answer within {:?}", self.limit))),
        }
    }
}

fn verdict(row: &Row) -> Verdict {
    let number = |at: usize| row.get::<_, i64>(at).cast_unsigned();
    Verdict {
        code: row.get(0),
        key: row.get(1),
        seen: number(2),
        expected: row.get::<_, Option<i64>>(3).unwrap_or(0).cast_unsigned(),
    }
}
