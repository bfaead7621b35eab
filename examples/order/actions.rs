//! What an order is made of: three actions, each with its compensation, and the one that plans them.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use turnwheel_engine::{
    output, Action, ActionError, Input, Next, Planner, Rescue, RetryPolicy, Revert, Reverts, Run,
    Runs, StepContext,
};
use turnwheel_runtime::Backoff;

use crate::books::{Request, ITEMS};
use crate::service::KEY;

/// How often a request is made before a person has to look at the order.
const ATTEMPTS: u32 = 4;
/// An answer takes milliseconds; beyond this something is broken.
const PATIENCE: Duration = Duration::from_secs(60);

/// Speaks HTTP with the service.
#[derive(Debug)]
pub(crate) struct Client {
    agent: ureq::Agent,
    address: SocketAddr,
}

impl Client {
    pub(crate) fn new(address: SocketAddr) -> Arc<Self> {
        let config = ureq::Agent::config_builder().timeout_global(Some(PATIENCE));
        // A proxy from the environment has nothing to do with loopback.
        let config = config.http_status_as_error(false).proxy(None);
        // `DELETE` says in its body what it is about.
        let agent = config.allow_non_standard_methods(true).build().new_agent();
        Arc::new(Self { agent, address })
    }

    /// Has it done under this key; the answer says under which number.
    fn act(&self, key: &str, request: Request) -> Result<String, ActionError> {
        let post = self.agent.post(self.url(request));
        Self::answer(post.header(KEY, key).send(serde_json::to_string(&request)?)?)
    }

    /// Has taken back what was done under this key, if anything was.
    fn take_back(&self, key: &str, request: Request) -> Result<(), ActionError> {
        let delete = self.agent.delete(self.url(request)).force_send_body();
        Self::answer(delete.header(KEY, key).send(serde_json::to_string(&request)?)?)?;
        Ok(())
    }

    fn url(&self, request: Request) -> String {
        format!("http://{}/{}", self.address, request.section())
    }

    fn answer(mut response: ureq::http::Response<ureq::Body>) -> Result<String, ActionError> {
        let text = response.body_mut().read_to_string()?;
        let status = response.status();
        if status.is_success() {
            return Ok(text);
        }
        let error = ActionError::new(format!("status {}", status.as_u16()), text);
        // 4xx is an answer: asking again gives the same one. 5xx is none.
        Err(if status.is_client_error() { error.and_final() } else { error })
    }
}

/// A service that does not answer is asked again soon, and then a bit later.
fn retry() -> RetryPolicy {
    let pauses = Backoff::exponential(Duration::from_millis(20), Duration::from_secs(1));
    RetryPolicy::attempts(ATTEMPTS).pauses(pauses.jitter_percent(50))
}

/// An order that the service refuses is taken back, as far as something was done for it. One that it does
/// not answer is not: somebody resumes the plan when the service is well again, and the customer gets the
/// parcel.
fn rescue(error: &ActionError) -> Rescue {
    if error.is_final {
        Rescue::Revert
    } else {
        Rescue::Pause
    }
}

/// What an order says.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Order {
    pub(crate) number: u64,
    pub(crate) item: u64,
    pub(crate) pieces: u64,
    pub(crate) cents: u64,
}

impl Order {
    /// An order by its number, always the same.
    pub(crate) fn by_number(number: u64) -> Self {
        let mixed = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20;
        let (item, pieces) = (mixed % ITEMS, mixed / ITEMS % 3 + 1);
        Self { number, item, pieces, cents: pieces * (item + 1) * 995 }
    }
}

/// What the service calls what it has done.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Receipt {
    pub(crate) number: String,
}

/// Charges the card.
pub(crate) struct Pay(pub(crate) Arc<Client>);

fn payment(order: &Order) -> Request {
    Request::Payment { order: order.number, cents: order.cents }
}

impl Action for Pay {
    const NAME: &'static str = "pay";
    type Input = Order;
    type Output = Receipt;
    type Phases = (Runs, Reverts);

    fn retry(&self) -> RetryPolicy {
        retry()
    }

    fn rescue(&self, error: &ActionError) -> Rescue {
        rescue(error)
    }
}

impl Run for Pay {
    fn run(&self, step: &mut StepContext<Self>) -> Result<Next, ActionError> {
        step.output.number = self.0.act(&step.idempotency_key(), payment(&step.input))?;
        Ok(Next::Done)
    }
}

impl Revert for Pay {
    fn revert(&self, step: &mut StepContext<Self>) -> Result<(), ActionError> {
        self.0.take_back(&step.idempotency_key(), payment(&step.input))
    }
}

/// Takes what was ordered from its shelf.
pub(crate) struct Reserve(pub(crate) Arc<Client>);

fn stock(order: &Order) -> Request {
    Request::Stock { order: order.number, item: order.item, pieces: order.pieces }
}

impl Action for Reserve {
    const NAME: &'static str = "reserve";
    type Input = Order;
    type Output = Receipt;
    type Phases = (Runs, Reverts);

    fn retry(&self) -> RetryPolicy {
        retry()
    }

    fn rescue(&self, error: &ActionError) -> Rescue {
        rescue(error)
    }
}

impl Run for Reserve {
    fn run(&self, step: &mut StepContext<Self>) -> Result<Next, ActionError> {
        step.output.number = self.0.act(&step.idempotency_key(), stock(&step.input))?;
        Ok(Next::Done)
    }
}

impl Revert for Reserve {
    fn revert(&self, step: &mut StepContext<Self>) -> Result<(), ActionError> {
        self.0.take_back(&step.idempotency_key(), stock(&step.input))
    }
}

/// What a parcel needs: it waits for the two receipts, since it has none before.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Parcel {
    pub(crate) order: u64,
    pub(crate) payment: Input<String>,
    pub(crate) stock: Input<String>,
}

/// Sends the parcel.
pub(crate) struct Ship(pub(crate) Arc<Client>);

impl Action for Ship {
    const NAME: &'static str = "ship";
    type Input = Parcel;
    type Output = Receipt;
    type Phases = (Runs, Reverts);

    fn retry(&self) -> RetryPolicy {
        retry()
    }

    fn rescue(&self, error: &ActionError) -> Rescue {
        rescue(error)
    }
}

impl Run for Ship {
    fn run(&self, step: &mut StepContext<Self>) -> Result<Next, ActionError> {
        let request = Request::Shipping { order: step.input.order };
        let number = self.0.act(&step.idempotency_key(), request)?;
        let (payment, stock) = (step.input.payment.get()?, step.input.stock.get()?);
        step.output.number = format!("{number}, for {payment} and {stock}");
        Ok(Next::Done)
    }
}

impl Revert for Ship {
    fn revert(&self, step: &mut StepContext<Self>) -> Result<(), ActionError> {
        let request = Request::Shipping { order: step.input.order };
        self.0.take_back(&step.idempotency_key(), request)
    }
}

/// An order: payment and stock at the same time, then shipping, which needs both.
pub(crate) struct PlaceOrder;

impl Action for PlaceOrder {
    const NAME: &'static str = "order";
    type Input = Order;
    type Output = ();
    type Phases = ();

    fn plan(&self, planner: &mut Planner<'_, Self>, order: Order) -> Result<(), ActionError> {
        planner.label(format!("order {}", order.number));
        let payment = planner.plan_action::<Pay>(order)?;
        let stock = planner.plan_action::<Reserve>(order)?;
        planner.plan_action::<Ship>(Parcel {
            order: order.number,
            payment: output!(payment => number)?.into(),
            stock: output!(stock => number)?.into(),
        })?;
        Ok(())
    }
}
