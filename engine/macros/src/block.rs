//! An action that is an impl block.

use proc_macro2::TokenStream;
use quote::{quote, ToTokens as _};
use syn::{ImplItem, ImplItemFn, ItemImpl, Type};

use crate::expand::{self, Parts};
use crate::options::Options;
use crate::signature::{self, Gives, Parameter, Role};

/// Methods of `Action`, which go there as they are.
const OF_ACTION: &[&str] = &[
    "plan",
    "queue",
    "priority",
    "concurrency",
    "singleton",
    "run_weight",
    "finalize_weight",
    "retry",
    "retry_finalize",
    "retry_revert",
    "reverts_failed",
    "limit",
    "heartbeat",
    "rescue",
    "rescue_of_planned",
    "takes_events",
    "check_event",
    "scheduled",
    "on_interrupt",
    "is_cancellable",
    "changed",
    "present",
    "migrate",
    "cleans_up_when_skipped",
];

/// Constants of `Action`.
const CONSTANTS: &[&str] = &["NAME", "VERSION", "HOOKS"];

/// Methods of `Polling` that go there as they are.
const OF_POLLING: &[&str] = &["polled", "pause", "failures_max"];

/// The parts of a block, sorted.
#[derive(Default)]
struct Block {
    /// Items of `impl Action`.
    action: TokenStream,
    /// Items of `impl Polling`.
    polling: TokenStream,
    has_name: bool,
    has_polled: bool,
    /// Items that stay.
    own: Vec<ImplItem>,
    plan_input: Option<Type>,
    run: Option<ImplItemFn>,
    start: Option<ImplItemFn>,
    poll: Option<ImplItemFn>,
    cancel: Option<ImplItemFn>,
    finalize: Option<ImplItemFn>,
    revert: Option<ImplItemFn>,
}

/// The block with what is its own, and the action made of the rest.
pub(crate) fn expand(options: &Options, block: ItemImpl) -> syn::Result<TokenStream> {
    if let Some((_, path, _)) = &block.trait_ {
        let text =
            "`#[action]` goes on a block without a trait: `impl Charge { fn run(&self, ..) }`";
        return Err(syn::Error::new_spanned(path, text));
    }
    let mut sorted = Block::default();
    for item in block.items.clone() {
        sorted.sort(item);
    }
    if let (Some(run), Some(_)) = (&sorted.run, &sorted.poll) {
        let text = "an action either runs or polls: `run`, or `start` and `poll`";
        return Err(syn::Error::new_spanned(&run.sig.ident, text));
    }
    if let (Some(poll), None) = (&sorted.poll, &sorted.start) {
        let text = "what is polled has to be started: add `fn start(&self, ..)`";
        return Err(syn::Error::new_spanned(&poll.sig.ident, text));
    }
    sorted.into_action(options, &block)
}

impl Block {
    fn sort(&mut self, item: ImplItem) {
        match &item {
            ImplItem::Const(constant) if is_one_of(&constant.ident, CONSTANTS) => {
                self.has_name |= constant.ident == "NAME";
                return self.action.extend(item.to_token_stream());
            }
            ImplItem::Fn(method) => {
                let name = &method.sig.ident;
                if is_one_of(name, OF_ACTION) {
                    if name == "plan" {
                        self.plan_input = plan_input(method);
                    }
                    return self.action.extend(item.to_token_stream());
                }
                if is_one_of(name, OF_POLLING) {
                    self.has_polled |= name == "polled";
                    return self.polling.extend(item.to_token_stream());
                }
                let place = match name.to_string().as_str() {
                    "run" => Some(&mut self.run),
                    "start" => Some(&mut self.start),
                    "poll" => Some(&mut self.poll),
                    "cancel" => Some(&mut self.cancel),
                    "finalize" => Some(&mut self.finalize),
                    "revert" => Some(&mut self.revert),
                    _ => None,
                };
                if let Some(place) = place {
                    *place = Some(method.clone());
                }
            }
            _ => {}
        }
        self.own.push(item);
    }

    fn into_action(self, options: &Options, block: &ItemImpl) -> syn::Result<TokenStream> {
        let (mut phases, mut traits) = (Vec::new(), Vec::new());
        let (mut input, mut output) = (self.plan_input.clone(), None);
        let target = &block.self_ty;
        let generics = &block.generics;
        if let Some(run) = &self.run {
            let parameters = signature::parameters(&run.sig, &[Role::Input])?;
            let gives = signature::gives(&run.sig);
            let is_async = run.sig.asyncness.is_some();
            input = signature::type_of(&parameters, Role::Input).or(input);
            output = expand::output(&gives);
            phases.push(if is_async { "RunsAsync" } else { "Runs" });
            let call = quote!(<#target>::run);
            traits.push(expand::run(
                options,
                &call,
                &[quote!(self)],
                &parameters,
                &gives,
                is_async,
            ));
        }
        if let (Some(start), Some(poll)) = (&self.start, &self.poll) {
            phases.push(if self.polls_async() { "PollsAsync" } else { "Polls" });
            let parameters = signature::parameters(&start.sig, &[Role::Input])?;
            input = signature::type_of(&parameters, Role::Input).or(input);
            let task = match signature::gives(&start.sig) {
                Gives::Value { output, .. } => *output,
                Gives::Next => signature::unit(),
            };
            let root = options.root();
            if !self.has_polled {
                output = Some(syn::parse_quote!(#root::Polled<#task>));
            }
            traits.push(self.polling(options, target, &task, (start, &parameters), poll)?);
        }
        let roles = [Role::Input, Role::Output];
        let names = [["Finalizes", "Finalize"], ["Reverts", "Revert"]];
        let names_async = [["FinalizesAsync", "FinalizeAsync"], ["RevertsAsync", "RevertAsync"]];
        for (method, at) in [(&self.finalize, 0), (&self.revert, 1)] {
            let Some(method) = method else { continue };
            let is_async = method.sig.asyncness.is_some();
            let [phase, name] = if is_async { names_async[at] } else { names[at] };
            let parameters = signature::parameters(&method.sig, &roles)?;
            input = input.or_else(|| signature::type_of(&parameters, Role::Input));
            phases.push(phase);
            traits.push(expand::plain(options, name, target, method, &parameters));
        }
        let own = ItemImpl { items: self.own, ..block.clone() };
        let action = expand::action_of(Parts {
            options,
            name: (!self.has_name).then(|| expand::name_of(target)),
            generics,
            type_name: target.to_token_stream(),
            input,
            output,
            phases,
            items: self.action,
            traits,
        });
        Ok(quote!(#own #action))
    }

    /// The items of `Polling` or `PollingAsync`.
    fn polling(
        &self,
        options: &Options,
        target: &Type,
        task: &Type,
        (start, parameters): (&ImplItemFn, &[Parameter]),
        poll: &ImplItemFn,
    ) -> syn::Result<expand::Trait> {
        let root = options.root();
        let (error, context) = (quote!(#root::ActionError), quote!(#root::StepContext<Self>));
        let roles = [Role::Task, Role::Input];
        let is_async = self.polls_async();
        let asyncness = is_async.then(|| quote!(async));
        let (before, arguments) = signature::arguments(parameters);
        let wait = expand::wait(start);
        let given = expand::given(
            &signature::gives(&start.sig),
            &quote! {
                <#target>::start(self, #(#arguments),*)#wait
            },
        );
        let mut items = self.polling.clone();
        if !self.has_polled {
            items.extend(quote! {
                fn polled(output: &mut Self::Output) -> &mut #root::Polled<#task> { output }
            });
        }
        items.extend(quote! {
            type Task = #task;
            #asyncness fn start(
                &self,
                step: &mut #context,
            ) -> ::core::result::Result<#task, #error> {
                #before
                let given = #given;
                ::core::result::Result::Ok(given)
            }
        });
        for (method, gives) in
            [(Some(poll), quote!(#root::Poll)), (self.cancel.as_ref(), quote!(()))]
        {
            let Some(method) = method else { continue };
            let (name, wait) = (&method.sig.ident, expand::wait(method));
            let (before, arguments) =
                signature::arguments(&signature::parameters(&method.sig, &roles)?);
            let given = expand::given(
                &signature::gives(&method.sig),
                &quote! {
                    <#target>::#name(self, #(#arguments),*)#wait
                },
            );
            items.extend(quote! {
                #asyncness fn #name(
                    &self,
                    task: &mut #task,
                    step: &mut #context,
                ) -> ::core::result::Result<#gives, #error> {
                    #before
                    let given = #given;
                    ::core::result::Result::Ok(given)
                }
            });
        }
        Ok(expand::Trait { name: if is_async { "PollingAsync" } else { "Polling" }, items })
    }

    /// Whether a method of the polling phase waits.
    fn polls_async(&self) -> bool {
        let mut methods = [&self.start, &self.poll, &self.cancel].into_iter().flatten();
        methods.any(|method| method.sig.asyncness.is_some())
    }
}

fn is_one_of(name: &syn::Ident, names: &[&str]) -> bool {
    names.iter().any(|one| name == one)
}

/// The input that `fn plan(&self, planner, input: T)` is given.
fn plan_input(method: &ImplItemFn) -> Option<Type> {
    match method.sig.inputs.iter().nth(2)? {
        syn::FnArg::Typed(typed) => Some((*typed.ty).clone()),
        syn::FnArg::Receiver(_) => None,
    }
}
