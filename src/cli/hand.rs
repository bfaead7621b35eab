//! Orders for single plans: carried out here, or by the server of the store.

use turnwheel::engine::{PlanError, PlanId};
use turnwheel::{api, shape};

use super::exit::{Exit, NOT_FOUND};
use super::place::{Hands, Place};
use super::settings::Settings;

/// The process that carries out orders, and their author.
pub(super) struct Hand {
    hands: Hands,
    by: String,
}

impl Hand {
    pub(super) fn open(settings: &Settings) -> Result<Self, Exit> {
        Ok(Self { hands: Place::of(settings).hands(settings)?, by: settings.by() })
    }

    /// Gives an order to a plan.
    pub(super) fn order(&self, plan: PlanId, order: &api::Order) -> Result<(), Exit> {
        let world = match &self.hands {
            Hands::Own(world) => world,
            Hands::Server(server) => {
                let order = serde_json::to_value(order).map_err(Exit::failed)?;
                return server
                    .send("POST", &format!("/plans/{plan}/orders"), Some(&order))
                    .map(drop);
            }
        };
        let asked = shape::give(&world.plan(plan), order, &self.by).map_err(Exit::usage)?;
        let done = asked.wait().map_err(|error| Exit::failed(format!("plan {plan}: {error}")))?;
        done.map_err(|error| match &error {
            PlanError::State { problem, .. } if problem.contains("has no step") => {
                Exit::new(NOT_FOUND, error)
            }
            _ => error.into(),
        })
    }

    pub(super) fn close(self) -> Result<(), Exit> {
        match self.hands {
            Hands::Own(world) => Ok(world.shutdown()?),
            Hands::Server(_) => Ok(()),
        }
    }
}
