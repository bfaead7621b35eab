//! The runtime below a world over HTTP: workers, actors by class, entities; and large plans by pages.
#![cfg(feature = "server")]

use serde_json::{json, Value};
use turnwheel::actors::entity::{EntityContext, Stored};
use turnwheel::actors::{Actor, Context, Entities, Entity, Handler, System};
use turnwheel::engine::{Action, ActionError, MemoryStore, Planner, World};
use turnwheel::http::{Access, Options};
use turnwheel::runtime::Group;

use crate::http_common::{with, world, Served};

/// Plans so many echoes.
struct Many;

impl Action for Many {
    const NAME: &'static str = "many";
    type Input = u32;
    type Output = ();
    type Phases = ();

    fn plan(&self, planner: &mut Planner<'_, Self>, many: u32) -> Result<(), ActionError> {
        for number in 0..many {
            let text = number.to_string();
            planner.plan_action::<crate::http_common::Echo>(crate::http_common::Text { text })?;
        }
        Ok(())
    }
}

/// Counts, and keeps the sum.
struct Account {
    sum: Option<Stored<u64>>,
}

impl Actor for Account {
    type Error = turnwheel::actors::entity::StoreError;
}

impl Entity for Account {
    type Key = String;
    const NAME: &'static str = "account";

    fn create(_: &String) -> Self {
        Self { sum: None }
    }

    async fn activate(&mut self, cx: EntityContext<Self>) -> Result<(), Self::Error> {
        self.sum = Some(Stored::load(&cx).await?);
        Ok(())
    }
}

struct Add(u64);

impl Handler<Add> for Account {
    type Reply = u64;

    fn handle(&mut self, Add(amount): Add, _: &mut Context<'_, Self>) -> u64 {
        amount
    }
}

fn with_entities() -> (Served, Entities, Group) {
    let world = world(MemoryStore::new());
    let group = Group::builder("host").workers(1).build().expect("a group");
    let entities = Entities::builder(&System::new(&group)).store(world.states()).build();
    let options = Options::new(Access::Loopback).group(&group).entities(&entities);
    (Served::with(world, options), entities, group)
}

#[test]
fn the_workers_and_their_actors_are_told() {
    let (served, _entities, group) = with_entities();
    let plan = served.start("echo", &json!({"text": "hello"}));
    served.ended(&plan);
    let runtime = served.get("/api/v1/runtime").json();
    let groups = runtime["groups"].as_array().unwrap();
    let names: Vec<_> = groups.iter().map(|group| group["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["plans", "journal", "host"]);
    for group in groups {
        assert!(!group["workers"].as_array().unwrap().is_empty());
        assert_eq!(group["running"], json!([]));
    }
    let turns = groups[0]["workers"].as_array().unwrap().iter();
    assert!(turns.map(|worker| worker["turns"].as_u64().unwrap()).sum::<u64>() > 0);
    let live: u64 = groups[0]["classes"].as_array().unwrap().iter().map(live_of).sum();
    assert_eq!(live, groups[0]["tasks"].as_u64().unwrap());
    drop(served);
    group.shutdown().unwrap();
}

fn live_of(class: &Value) -> u64 {
    class["tasks"].as_u64().expect("a number")
}

#[test]
fn entities_are_listed_and_looked_up() {
    let (served, entities, group) = with_entities();
    let plan = served.start("echo", &json!({"text": "hello"}));
    served.ended(&plan);
    let types = served.get("/api/v1/entities").json();
    assert_eq!(types["types"].as_array().unwrap().len(), 1);
    assert_eq!(types["types"][0]["is_plan"], true);
    assert!(types["types"][0]["activations"].as_u64() > Some(0));
    let unknown = served.get("/api/v1/entities/account/ann").is_problem(404, "entity-unknown");
    assert!(unknown["detail"].as_str().unwrap().contains("no type of entities «account»"));
    assert_eq!(entities.get::<Account>("ann/bob").ask(Add(5)).wait().unwrap(), 5);
    let types = served.get("/api/v1/entities").json();
    let account = &types["types"][1];
    assert_eq!((&account["name"], &account["active"]), (&json!("account"), &json!(1)));
    assert_eq!((&account["is_stored"], &account["is_plan"]), (&json!(true), &json!(false)));
    let ann = served.get("/api/v1/entities/account/ann%2Fbob").json();
    assert_eq!((&ann["state"], &ann["key"]), (&json!("active"), &json!("ann/bob")));
    assert_eq!(ann["stored"], Value::Null);
    let store = served.world.states();
    let saved = store.save("account", "eve", b"{\"sum\":7}".to_vec(), 0, 1);
    turnwheel::runtime::completion::block_on(saved).unwrap().unwrap();
    let eve = served.get("/api/v1/entities/account/eve").json();
    assert_eq!(eve["state"], "none");
    assert_eq!(eve["stored"], json!({"version": 1, "bytes": 9, "value": {"sum": 7}}));
    drop(served);
    group.shutdown().unwrap();
}

#[test]
fn a_large_tree_comes_by_pages_and_is_searched() {
    let world = with(World::builder()).action(Many).build(MemoryStore::new()).expect("a world");
    let served = Served::with(world, Options::new(Access::Loopback));
    let plan = served.start("many", &json!(25));
    served.ended(&plan);
    let path = format!("/api/v1/plans/{plan}/tree");
    let whole = served.get(&path).json();
    assert_eq!((&whole["total"], &whole["next"]), (&json!(26), &Value::Null));
    let mut seen = Vec::new();
    let mut page = served.get(&format!("{path}?limit=10")).json();
    loop {
        assert_eq!(page["from"], json!(seen.len()));
        seen.extend(page["nodes"].as_array().unwrap().iter().cloned());
        let Some(next) = page["next"].as_str() else { break };
        page = served.get(&format!("{path}?limit=10&cursor={next}")).json();
    }
    assert_eq!(json!(seen), whole["nodes"]);
    let failed = served.get(&format!("{path}?state=error")).json();
    assert_eq!((&failed["total"], &failed["nodes"]), (&json!(0), &json!([])));
    assert_eq!(served.get(&format!("{path}?state=success&text=ECHO")).json()["total"], 25);
    let step = whole["nodes"][7]["steps"][1]["id"].as_u64().unwrap();
    let one = served.get(&format!("{path}?text={step}")).json();
    assert_eq!((&one["total"], &one["nodes"][0]), (&json!(1), &whole["nodes"][7]));
    served.get(&format!("{path}?state=happy")).is_problem(400, "query-invalid");
    served.get(&format!("{path}?limit=5001")).is_problem(400, "query-invalid");
    served.get(&format!("{path}?cursor=00")).is_problem(400, "cursor-invalid");
}
