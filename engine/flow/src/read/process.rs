//! Processes: shell commands, scripts, containers, other flows.

use super::fields::{field, Fields};
use super::Reader;
use crate::definition::{Need, Needed};
use crate::expr::{has_expression, Template};
use crate::io::{PullPolicy, ScriptLanguage};
use crate::model::{Code, Command, CommandProgram, ContainerRun, Kind, Lifetime, Returns, SubFlow};
use crate::scope::Stage;
use crate::text::{Content, Node, Place};

impl Reader<'_> {
    pub(super) fn run(&mut self, node: &Node, stage: Stage) -> Option<Kind> {
        let known = ["container", "script", "shell", "workflow", "await", "return"];
        let fields = self.object(node, "«run»", &known, &[]);
        let is_awaited = field(fields, "await").is_none_or(|n| self.boolean(n, "«run.await»"));
        let returns = [
            ("stdout", Returns::Stdout),
            ("stderr", Returns::Stderr),
            ("code", Returns::Code),
            ("all", Returns::All),
            ("none", Returns::None),
        ];
        let returns =
            field(fields, "return").and_then(|n| self.choice(n, "«run.return»", &returns));
        let ways: Vec<_> = fields
            .iter()
            .filter(|(name, _, _)| !matches!(name.as_str(), "await" | "return"))
            .collect();
        let [(way, at, body)] = ways.as_slice() else {
            if matches!(node.content, Content::Map(_)) {
                self.wrong(
                    node,
                    "«run» must have one of «container», «script», «shell» and «workflow»",
                );
            }
            return None;
        };
        match way.as_str() {
            "container" => {
                let returns = returns.unwrap_or_default();
                self.needs(Needed::Container, *at);
                let container = self.container(body, stage, is_awaited, returns);
                container.map(|container| Kind::Container(Box::new(container)))
            }
            "workflow" => {
                let has_output = match returns {
                    None | Some(Returns::Stdout) => true,
                    Some(Returns::None) => false,
                    Some(_) => {
                        let at = field(fields, "return").unwrap_or(node);
                        let hint = "it gives its output, or «none»";
                        self.wrong_so(at, "a workflow has no exit code and no stderr", hint);
                        true
                    }
                };
                self.sub_flow(body, is_awaited, has_output)
            }
            "shell" | "script" => {
                let command =
                    self.command(way, body, stage, is_awaited, returns.unwrap_or_default());
                command.map(|command| Kind::Process(Box::new(command)))
            }
            _ => None,
        }
    }

    fn command(
        &mut self,
        way: &str,
        node: &Node,
        stage: Stage,
        is_awaited: bool,
        returns: Returns,
    ) -> Option<Command> {
        let what = format!("«run.{way}»");
        let (own, required): (&[&str], &[&str]) = match way {
            "shell" => (&["command"], &["command"]),
            _ => (&["language", "code", "source"], &["language"]),
        };
        let known: Vec<&str> =
            own.iter().copied().chain(["stdin", "arguments", "environment"]).collect();
        let fields = self.object(node, &what, &known, required);
        let stdin = field(fields, "stdin").map(|n| self.template(n, "«stdin»", stage));
        self.is_fed(fields, is_awaited);
        let arguments = field(fields, "arguments");
        let arguments = arguments.map(|n| self.arguments(n, way == "shell", stage));
        let environment = field(fields, "environment");
        let environment = environment.map(|n| self.object_template(n, "«environment»", stage));
        let program = if way == "shell" {
            let command = field(fields, "command")?;
            self.needs(Needed::Shell, command.at);
            CommandProgram::Shell(self.text_template(command, "«command»", stage))
        } else {
            self.script(node, fields)?
        };
        Some(Command { program, stdin, arguments, environment, is_awaited, returns })
    }

    fn container(
        &mut self,
        node: &Node,
        stage: Stage,
        is_awaited: bool,
        returns: Returns,
    ) -> Option<ContainerRun> {
        let known = [
            "image",
            "name",
            "command",
            "ports",
            "volumes",
            "environment",
            "stdin",
            "arguments",
            "lifetime",
            "pullPolicy",
        ];
        let fields = self.object(node, "«run.container»", &known, &["image"]);
        let mut text = |name: &str| {
            let node = field(fields, name)?;
            Some(self.text_template(node, &format!("«{name}»"), stage))
        };
        let (image, name, command) = (text("image"), text("name"), text("command"));
        let mut object = |name: &str| {
            let node = field(fields, name)?;
            Some(self.object_template(node, &format!("«{name}»"), stage))
        };
        let (ports, volumes) = (object("ports"), object("volumes"));
        let environment = object("environment");
        let stdin = field(fields, "stdin").map(|n| self.template(n, "«stdin»", stage));
        self.is_fed(fields, is_awaited);
        let arguments = field(fields, "arguments").map(|n| self.arguments(n, false, stage));
        let lifetime = field(fields, "lifetime").and_then(|n| self.lifetime(n, stage));
        let pulls = [
            ("ifNotPresent", PullPolicy::IfNotPresent),
            ("always", PullPolicy::Always),
            ("never", PullPolicy::Never),
        ];
        let pull = field(fields, "pullPolicy").and_then(|n| self.choice(n, "«pullPolicy»", &pulls));
        Some(ContainerRun {
            image: image?,
            name,
            command,
            arguments,
            ports,
            volumes,
            environment,
            stdin,
            pull: pull.unwrap_or_default(),
            lifetime: lifetime.unwrap_or_default(),
            is_awaited,
            returns,
        })
    }

    /// `{ cleanup: eventually, after: … }`.
    fn lifetime(&mut self, node: &Node, stage: Stage) -> Option<Lifetime> {
        let fields = self.object(node, "«lifetime»", &["cleanup", "after"], &["cleanup"]);
        let ways = [("always", false), ("eventually", true), ("never", false)];
        let cleanup = field(fields, "cleanup")?;
        let is_later = self.choice(cleanup, "«cleanup»", &ways)?;
        let after = field(fields, "after");
        match (is_later, after) {
            (true, Some(after)) => self.span(after, "«after»", stage).map(Lifetime::Eventually),
            (true, None) => {
                self.wrong(
                    node,
                    "«lifetime» must have the field «after» if it cleans up eventually",
                );
                None
            }
            (false, Some(after)) => {
                let hint = "remove it, or write «cleanup: eventually»";
                self.wrong_so(after, "«after» is only for the cleanup «eventually»", hint);
                None
            }
            (false, None) => {
                let is_never = matches!(&cleanup.content, Content::Text(text) if text == "never");
                Some(if is_never { Lifetime::Never } else { Lifetime::Always })
            }
        }
    }

    pub(super) fn needs(&mut self, what: Needed, at: Place) {
        let place = self.problems.problem(at, "", None);
        self.needs.push(Need { what, place });
    }

    /// Refuses input for a process that is not awaited, since no caller stays to write it.
    fn is_fed(&mut self, fields: Fields<'_>, is_awaited: bool) {
        if let (Some(stdin), false) = (field(fields, "stdin"), is_awaited) {
            let hint = "await it, or give what it needs as arguments or environment";
            self.wrong_so(stdin, "«stdin» is not for what nobody awaits", hint);
        }
    }

    /// A list; for commands also an object of options, as the first versions of the DSL had it.
    fn arguments(&mut self, node: &Node, is_shell: bool, stage: Stage) -> Template {
        let Content::Map(options) = &node.content else {
            return self.list_template(node, "«arguments»", stage);
        };
        if !is_shell {
            let hint = "the arguments of a script are a list, its variables «environment»";
            self.wrong_so(node, "«arguments» must be a list and is an object", hint);
        }
        let mut list = Vec::new();
        for (name, at, value) in options {
            let name = Node { at: *at, content: Content::Text(name.clone()) };
            list.push(self.template(&name, "«arguments»", stage));
            if !value.is_nothing() {
                list.push(self.template(value, "«arguments»", stage));
            }
        }
        Template::List(list)
    }

    fn script(&mut self, node: &Node, fields: Fields<'_>) -> Option<CommandProgram> {
        let language = field(fields, "language")?;
        let name = self.text(language, "«language»")?;
        let Some(known) = ScriptLanguage::from_name(&name) else {
            let what = format!("the script language «{name}»");
            self.unsupported(language, &what, "use «js» or «python», or «run.shell»");
            return None;
        };
        self.needs(Needed::Script(known), language.at);
        let code = match (field(fields, "code"), field(fields, "source")) {
            (Some(code), None) => Code::Text(self.text(code, "«code»")?),
            (None, Some(source)) => Code::Source(self.resource(source, "«source»")?),
            _ => {
                self.wrong(node, "a script must have one of «code» and «source»");
                return None;
            }
        };
        Some(CommandProgram::Script { language: known, code })
    }

    fn sub_flow(&mut self, node: &Node, is_awaited: bool, has_output: bool) -> Option<Kind> {
        let known = ["namespace", "name", "version", "input"];
        let required = ["namespace", "name"];
        let fields = self.object(node, "«run.workflow»", &known, &required);
        let stage = Stage::Definition { is_effect: false };
        let input = field(fields, "input").map(|n| self.template(n, "«input»", stage));
        let mut text = |name: &str| {
            let node = field(fields, name)?;
            let text = self.text(node, &format!("«{name}»"))?;
            if has_expression(&text) {
                self.wrong(node, format!("«{name}» of a workflow cannot be an expression"));
            }
            Some(text)
        };
        let (namespace, name) = (text("namespace")?, text("name")?);
        let version = text("version").unwrap_or_else(|| "latest".to_owned());
        let flow = SubFlow { namespace, name, version, input, is_awaited, has_output };
        Some(Kind::Flow(Box::new(flow)))
    }
}
