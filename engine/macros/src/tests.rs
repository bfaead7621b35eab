//! Errors of the macro, and what is stored under which name.

use quote::quote;

use crate::expanded as action;

fn error(item: proc_macro2::TokenStream) -> String {
    action(quote!(), item).expect_err("it is wrong").to_string()
}

#[test]
fn a_wrong_item_is_told_what_to_write() {
    assert!(error(quote!(
        struct Charge;
    ))
    .contains("goes on a function"));
    assert!(error(quote!(
        fn run(&self) {}
    ))
    .contains("impl block"));
    assert!(error(quote!(
        fn run<T>(_: T) {}
    ))
    .contains("no type parameters"));
    assert!(error(quote!(
        fn add(left: u64, right: u64) {}
    ))
    .contains("one input"));
    assert!(error(quote!(impl Clone for Charge {})).contains("without a trait"));
    let both = quote!(impl Charge { fn run(&self) {} fn poll(&self) {} });
    assert!(error(both).contains("either runs or polls"));
    assert!(error(quote!(impl Charge { fn poll(&self) {} })).contains("fn start"));
    let unknown = action(
        quote!(colour = "red"),
        quote!(
            fn run() {}
        ),
    )
    .expect_err("it is wrong");
    assert!(unknown.to_string().contains("there are `name"));
}

#[test]
fn name_and_type_follow_the_function() {
    let text = action(
        quote!(),
        quote!(
            fn charge_card(cents: u64) -> u64 {
                cents
            }
        ),
    );
    let text = text.expect("it is right").to_string();
    assert!(text.contains("struct ChargeCard"), "{text}");
    assert!(text.contains("= \"charge_card\""), "{text}");
    let own = quote!(impl Card { const NAME: &'static str = "own"; });
    let text = action(quote!(), own).expect("it is right").to_string();
    assert_eq!(text.matches("NAME").count(), 1, "{text}");
    let named = action(quote!(name = "charge"), quote!(impl Card { const X: u8 = 1; }));
    let text = named.expect("it is right").to_string();
    assert!(text.contains("= \"charge\"") && text.contains("type Phases = ()"), "{text}");
}

#[test]
fn methods_that_wait_make_the_traits_that_wait() {
    let block = quote!(impl Charge {
        fn start(&self) -> u32 { 1 }
        async fn poll(&self) -> Poll { Poll::Done }
        async fn finalize(&self) {}
        async fn revert(&self) {}
    });
    let text = action(quote!(), block).expect("it is right").to_string();
    for name in ["PollsAsync", "PollingAsync", "FinalizeAsync", "FinalizesAsync", "RevertAsync"] {
        assert!(text.contains(name), "{name} is not in {text}");
    }
    assert_eq!(text.matches(". await").count(), 3, "{text}");
}
