//! `turnwheel context`: servers with names.

use serde_json::{json, Value};

use super::exit::Exit;
use super::format::{Listing, Output};
use super::paint::{print, tell};
use super::settings::context::{Context, Contexts};
use super::settings::Flags;

const AFTER_HELP: &str = "\
A context is a server with its token. The one that is in use is asked by every verb, unless --server,
--store or --context says otherwise. Contexts are kept in ~/.config/turnwheel/contexts.json, which only
this user may read.

Examples:
  turnwheel context add production --server https://wheel.example.org --token \"$TOKEN\"
  turnwheel context use production
  turnwheel list                                   asks that server
  turnwheel list --store wheel.db                  looks at a file all the same
  turnwheel context use                            no context: the store again

Exit codes: 0 done; 1 it failed; 2 wrong usage; 3 there is no such context.";

/// Name servers, and choose the one that verbs ask.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    /// Make a context of --server and --token, or change the one with its name.
    Add {
        /// Name of the context.
        name: String,
        /// A file with the certificates (PEM) to trust.
        #[arg(long, value_name = "FILE")]
        certificates: Option<String>,
    },
    /// Use a context from now on; without a name, use the store again.
    Use {
        /// Name of the context.
        name: Option<String>,
    },
    /// List all contexts, by name.
    List(Output),
    /// Remove a context.
    #[command(alias = "remove")]
    Rm {
        /// Name of the context.
        name: String,
    },
}

pub(crate) fn run(flags: &Flags, arguments: &Arguments) -> Result<(), Exit> {
    let mut contexts = Contexts::load()?;
    match &arguments.what {
        What::List(output) => return list(flags, &contexts, output),
        What::Add { name, certificates } => {
            let server = flags.server.clone().ok_or_else(|| {
                Exit::usage("a context needs the address of its server")
                    .advice("turnwheel context add NAME --server URL")
            })?;
            let (token, certificates) = (flags.token.clone(), certificates.clone());
            let context = Context { server, token, certificates };
            let before = contexts.contexts.insert(name.clone(), context);
            contexts.save()?;
            match before {
                Some(Context { server, .. }) => {
                    print(&format!("{name} is changed: it was {server}\n"))?;
                    tell!("its token and certificates are those of this command now");
                }
                None => print(&format!("{name} is added\n"))?,
            }
            tell!("turnwheel context use {name} lets every verb ask it");
        }
        What::Use { name } => {
            name.as_deref().map(|name| contexts.find(name)).transpose()?;
            contexts.current.clone_from(name);
            contexts.save()?;
            match name {
                Some(name) => print(&format!("verbs ask {name} from now on\n"))?,
                None => print("verbs use the store again\n")?,
            }
        }
        What::Rm { name } => {
            contexts.find(name)?;
            contexts.contexts.remove(name);
            contexts.current.take_if(|current| current == name);
            contexts.save()?;
            print(&format!("{name} is removed\n"))?;
        }
    }
    Ok(())
}

fn list(flags: &Flags, contexts: &Contexts, output: &Output) -> Result<(), Exit> {
    let is_current = |name: &str| contexts.current.as_deref() == Some(name);
    let value = |(name, context): (&String, &Context)| {
        json!({
            "name": name, "server": context.server, "has_token": context.token.is_some(),
            "is_current": is_current(name),
        })
    };
    let row = |(name, context): (&String, &Context)| {
        let mark = if is_current(name) { "in use" } else { "" };
        vec![name.clone(), context.server.clone(), mark.to_owned()]
    };
    let all: Vec<Value> = contexts.contexts.iter().map(value).collect();
    let listing = Listing {
        value: json!({ "contexts": all }),
        headings: &["context", "server", ""],
        wide: 0,
        rows: contexts.contexts.iter().map(row).collect(),
        nothing: "there are no contexts",
    };
    let colour = flags.colour.as_deref().and_then(super::paint::Colour::from_name);
    output.list(colour.unwrap_or_default(), listing)
}
