//! Programs that are written to take a server down.

/// Expected end of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// With a value.
    Value,
    /// With an error: it is not compiled, fails, or is stopped.
    Error,
    /// With either, as long as it ends.
    Either,
}

use End::{Either, Error, Value};

/// The programs that are written as they are.
const WRITTEN: &[(End, &str)] = &[
    // Definitions that hand their filters on.
    (Value, "def h(f): if . > 200000 then f else . + 1 | h(f) end; 0 | h(.)"),
    (Value, "def h(f; $n): if . > 200000 then f + $n else . + 1 | h(f; $n + 1) end; 0 | h(.; 1)"),
    (Value, "def h(f; g): if . > 100000 then f + g else . + 1 | h(f; g) end; 0 | h(.; 2)"),
    (Error, "def h(f): h(f); h(.)"),
    (Error, "def h(f): f | h(f); h(.)"),
    (Error, "def h(f): 1 + h(f); h(.)"),
    (Error, "def h(f): h(f), 1; h(.)"),
    (Error, "def h(f; g): h(g; f); h(.; .)"),
    (Error, "def f(x): f(x | x); f(.)"),
    (Error, "def f(g): f(g | g); 0 | f(. + 1)"),
    (Error, "def f(g): if . > 1000000 then g else . + 1 | f(g | .) end; 0 | f(.)"),
    (Error, "def f(g): if . > 1000000 then . else . + 1 | f(.) end; 0 | f(.)"),
    (Error, "def f(n): if n > 1000000 then 0 else f(n + 1) end; f(0)"),
    (Error, "def a(f): def b(g): a(g); b(f); a(.)"),
    (Error, "def a(f): def b(g): def f: g; a(f); b(f | f); a(.)"),
    (Error, "def a(f): def f: 1; a(f); a(.)"),
    (Error, "def a(f): def b: a(f); b; a(.)"),
    (Error, "def a(f): def b(g): a(f | g); b(f); 0 | a(. + 1)"),
    (Error, "def w(f): f; def r(g): w(r(g)); r(.)"),
    (Error, "def w(f): f; def r(g): w(r(g | g)); r(.)"),
    (Error, "def y(f): def z(g): y(g | g); z(z(f)); y(.)"),
    (Error, "path(def h(f): f | h(f); h(.a))"),
    (Error, "null | (def h(f): f | h(f); h(.a)) |= 1"),
    (Error, "null | path(def h(f): h(f | .a); h(.))"),
    (Error, "null | (def h(f): f | h(f | .a); h(.)) = 1"),
    (Error, "null | (def h(f): recurse | h(f); h(.)) |= 1"),
    // Itself.
    (Error, "__main"),
    (Error, "[__main]"),
    (Error, "-__main"),
    (Error, "def f: __main; f"),
    // Recursion.
    (Error, "def f: f; f"),
    (Error, "def f: 1 + f; f"),
    (Error, "def f: f + 1; f"),
    (Error, "def f: [f]; f"),
    (Error, "def f: {a: f}; f"),
    (Error, "def f: -f; f"),
    (Error, "def f: \"\\(f)\"; f"),
    (Error, "def f: f | f; f"),
    (Error, "def f: f, f; f"),
    (Error, "def f: (., 1) | f; f"),
    (Error, "def f: try f catch f; f"),
    (Error, "def f: try error(0) catch f; f"),
    (Error, "def f: label $x | f; f"),
    (Error, "def f: label $x | (f, break $x); f"),
    (Error, "def f: . as $x | f; f"),
    (Error, "def f: f as $x | $x; f"),
    (Error, "def f: reduce f as $x (0; 1); f"),
    (Error, "def f: foreach (1, 2) as $x (0; f); f"),
    (Error, "def f: if f then 1 else 2 end; f"),
    (Error, "def f: f // f; f"),
    (Error, "def f: f and f; f"),
    (Error, "def f: .[f]; f"),
    (Error, "def f: .[f:f]; f"),
    (Error, "def f: path(f); f"),
    (Error, "def f: (f |= 1); f"),
    (Error, "def f: first(f); f"),
    (Error, "def f: limit(1; f); f"),
    (Error, "def f: [recurse(f)]; f"),
    (Value, "def f: map(f); [[]] | f | f"),
    (Error, "def f: def g: f; g; f"),
    (Error, "def f: def g: f, g; g; f"),
    (Error, "def e: if . == 0 then 0 else . - 1 | (def o: e; 1 + o) end; 1e6 | e"),
    (Error, "def f($n): if $n == 0 then 0 else 1 + f($n - 1) end; f(1e6)"),
    (Value, "def f($n): if $n == 0 then 0 else f($n - 1) end; f(200000)"),
    (Error, "def a: b; def b: a; a"),
    (Error, "[recurse(.)]"),
    (Error, "[recurse(., .)]"),
    (Error, "last(recurse([.]))"),
    (Error, "last(repeat(1))"),
    (Error, "isempty(repeat(empty))"),
    (Error, "until(false; .)"),
    (Error, "[while(true; .)]"),
    (Error, "[limit(1e9; repeat(., .))]"),
    (Error, "reduce range(1e9) as $i (0; . + 1)"),
    (Error, "reduce range(1e9) as $i (0; ., .) | length"),
    (Error, "[foreach range(1e9) as $i (0; ., .)] | length"),
    (Error, "reduce range(1e9) as $i (0; (1, 2) as $x | .)"),
    (Error, "reduce repeat(1) as [$a, {b: $c}] (0; .)"),
    (Error, "[range(1e9)] | length"),
    (Error, "first(range(1e12) | select(false))"),
    (Error, "[combinations(1e9)]"),
    (Error, "[range(30) | [1, 2]] | [combinations] | length"),
    (Error, "any(repeat(false); .)"),
    (Error, "reduce range(1e6) as $i ([]; walk(.))"),
    // Values that are deep, large, or take long.
    (Error, "reduce range(100000) as $i (0; [.])"),
    (Error, "reduce range(100000) as $i (0; {a: .})"),
    (Error, "reduce range(100000) as $i ([0]; group_by(.))"),
    (Error, "reduce range(100000) as $i (0; [., .])"),
    (Error, "reduce range(100000) as $i (null; .a = .)"),
    (Error, "reduce range(100000) as $i (null; setpath([\"a\"]; .))"),
    (Value, "reduce range(100000) as $i ({}; to_entries)"),
    (Error, "reduce range(100000) as $i ([]; [tostream])"),
    (Error, "reduce range(99) as $i (0; [.]) | walk([.])"),
    (Either, "reduce range(99) as $i (0; [.]) | tojson | fromjson | tojson"),
    (Either, "reduce range(99) as $i (0; [.]) | [paths] | length"),
    (Either, "reduce range(99) as $i (0; [.]) | .. |= . | length"),
    (Either, "reduce range(99) as $i (0; [.]) | [leaf_paths, tostream] | length"),
    (Either, "reduce range(99) as $i (0; [.]) | . == . | not"),
    (Error, "null | path(until(false; .a))"),
    (Error, "null | path(last(limit(20000; recurse(.a)))) | length"),
    (Error, "null | path(getpath([range(100000) | \"a\"])) | length"),
    (Error, "null | setpath([range(100000) | \"a\"]; 1)"),
    (Error, "null | reduce range(100000) as $i (.; .a) = 1"),
    (Error, "null | delpaths([[range(100000) | \"a\"]]) | setpath([range(200)]; 1)"),
    (Error, "(\"[\" * 4000000) | fromjson"),
    (Error, "(\"[\" * 100000 + \"]\" * 100000) | fromjson"),
    (Error, "(\"{\\\"a\\\":\" * 100000) | fromjson"),
    (Either, "(\"9\" * 4000000) | tonumber"),
    (Either, "(\"9\" * 4000000) | fromjson"),
    (Either, "(\"1e\" + \"9\" * 1000) | fromjson"),
    (Either, "(\"-\" * 4000000) | tonumber"),
    (Error, "reduce range(64) as $i (10; . * .)"),
    (Error, "reduce range(1000000) as $i (3; . * 3)"),
    (Error, "reduce range(64) as $i (\"x\"; . + .)"),
    (Error, "reduce range(64) as $i (\"x\"; \"\\(.)\\(.)\")"),
    (Error, "reduce range(64) as $i ([0]; . + .)"),
    (Error, "\"x\" * 1e18"),
    (Error, "[range(3000)] | [.[] as $a | .[] as $b | [$a, $b]] | length"),
    (Error, "[range(20000)] | [combinations(2)] | length"),
    (Error, "[range(9000)] as $a | [range(9000) | $a - $a, ($a | contains($a))]"),
    (Error, "[range(100000)] as $a | [range(100000) | $a | sort] | length"),
    (Error, "[range(100000)] as $a | [range(100000) | $a | tojson] | length"),
    (Error, "[range(2000000)] | transpose"),
    (Error, "[range(300000)] | indices(1) | [range(300000)] | flatten | unique | length | until(false; .)"),
    // Texts and regular expressions.
    (Error, "(\"a\" * 4000000) | [match(\"a\"; \"g\")] | length"),
    (Error, "(\"a\" * 400000) | [match(\".*b|a\"; \"g\")] | length"),
    (Error, "\"a\" | test(\"(((a{90}){90}){90}){90}\")"),
    (Error, "\"a\" | test(\"(\" * 100000 + \")\" * 100000)"),
    (Error, "\"a\" | test(\"[\" * 100000)"),
    (Error, "\"a\" | test(\"(?=\" * 100000 + \")\" * 100000)"),
    (Error, "\"a\" | test(\"a?\" * 20000 + \"a\" * 20000)"),
    (Either, "(\"a\" * 400000) | test(\"(?=a*b)(?<=a*)c\")"),
    (Either, "(\"a\" * 100000) | test(\"(?=(?:a|aa)*$)(?:a|aa)*b\")"),
    (Value, "(\"a\" * 400000) | [splits(\"(?<=a)\")] | length"),
    (Error, "(\"a\" * 400000) | gsub(\"a\"; \"aaaaaaaaaaaaaaaaaaaa\") | length"),
    (Error, "(\"a\" * 400000) | gsub(\"\"; \"a\") | gsub(\"\"; \"a\") | length"),
    (Error, "(\"%c\" * 1000000) as $f | [range(100000) | strftime($f)] | length"),
    (Either, "1e300 | todate, strftime(\"%Y\"), gmtime"),
    (Either, "[1e300, 1e300, 1e300, 1e300, 1e300, 1e300] | mktime, todate"),
    (Error, "(\"a\" * 4000000) as $a | [range(100000) | $a | ascii_downcase, @base64, @uri] | length"),
    (Error, "[limit(1e6; \"\\u0000\" | repeat(. + .))] | length"),
    (Either, "[1114112, -1, 55296] | implode"),
    (Either, "[range(100)] | .[-1e300:1e300], .[nan:], .[1e18]"),
    (Either, "[1, 2] | .[1e18] = 1"),
    (Error, "null | .[4000000000] = 1"),
    (Error, "null | .[range(100000; 1e9; 99999)] = 1 | length"),
];

/// Texts to put around a part many times.
const NESTED: [(&str, &str, &str); 50] = [
    ("(", "1", ")"),
    ("[", "1", "]"),
    ("{a:", "1", "}"),
    ("-", "1", ""),
    (".[", "0", "]"),
    ("1+", "1", ""),
    ("1|", "1", ""),
    ("1,", "1", ""),
    ("1//", "1", ""),
    (".=", "1", ""),
    (".|=", "1", ""),
    (".a.", "a", ""),
    ("try ", "1", ""),
    ("1 as $a|", "1", ""),
    ("label $a|", "1", ""),
    ("if 1 then ", "1", " end"),
    ("if ", "1", " then 1 end"),
    ("if 1 then 1 elif ", "1", " then 1 end"),
    ("def f:", "1", ";1"),
    ("def f:1;", "f", ""),
    ("def f(g):", "1", ";f(1)"),
    ("reduce 1 as $x(0;", "1", ")"),
    ("reduce ", "1", " as $x(0;1)"),
    ("foreach 1 as $x(0;1;", "1", ")"),
    ("\"\\(", "1", ")\""),
    ("@base64 \"\\(", "1", ")\""),
    ("1 as [", "$a", "]|1"),
    ("first(", "1", ")"),
    ("path(", ".", ")"),
    ("(.|=", ".", ")"),
    ("(", ".", "|=.)"),
    ("(", ".", "=.)"),
    ("(", ".", "+=.)"),
    ("(", ".", "//=.)"),
    ("(", ".", ".[0]|=.)"),
    ("(", ".", "*1)"),
    ("(", ".", "+1)"),
    ("(", ".", "<.)"),
    ("(1-", "1", ")"),
    ("", ".", "?"),
    ("", ".", "[]"),
    ("", ".", "[0]"),
    ("", ".", "[1:2]"),
    ("", ".", ".a"),
    ("#", "", "\n"),
    ("\\", "", ""),
    ("\"", "", ""),
    ("$", "", ""),
    ("@", "", ""),
    ("..", "", ""),
];

/// Programs that are made of many parts.
fn made() -> Vec<(End, String)> {
    let nested = |open: &str, inner: &str, close: &str, times: usize| {
        format!("{}{inner}{}", open.repeat(times), close.repeat(times))
    };
    let mut all = Vec::new();
    for (open, inner, close) in NESTED {
        // As deep as the text may be, deeper than that, and as deep as it may be nested.
        let most = (16 << 10) / (open.len() + close.len());
        for times in [100_000, most - 1, 240, 120, 60, 28] {
            all.push((Either, nested(open, inner, close, times)));
        }
    }
    all.push((Error, ".|".repeat(20_000)));
    all.push((Error, "[.[],.[]]|".repeat(40) + "length"));
    all.push((Error, "(., .)|".repeat(40) + "1"));
    all.push((Either, "def f: f; ".repeat(1_000) + "1"));
    all.push((Either, (0..900).map(|i| format!("def f{i}(g): g|g;")).collect::<String>() + "1"));
    let doubled = (1..60).map(|i| format!("def f{i}: f{0}, f{0};", i - 1)).collect::<String>();
    all.push((Error, format!("def f0: 1; {doubled} [f59] | length")));
    let doubled = (1..60).map(|i| format!("def f{i}(g): f{0}(g | g);", i - 1)).collect::<String>();
    all.push((Error, format!("def f0(g): g; {doubled} 0 | f59(. + 1)")));
    all.push((Error, format!("def f0(g): g; {doubled} 0 | f59(.)")));
    // Pipes that multiply without a result.
    all.push((Error, format!("1 | {}.a?", "(., .) | ".repeat(60))));
    all.push((Error, format!("[] | {}.[]", "(., .) | ".repeat(60))));
    all.push((Error, format!("[1, 2] as $a | 1 | {}.a?", "$a[] | ".repeat(60))));
    let deep = "reduce range(90) as $i (0; [.])";
    all.push((Error, format!("{deep} | {}.a?", ".. | ".repeat(10))));
    all
}

/// All programs; each gets a list of eight numbers.
pub(crate) fn all() -> Vec<(End, String)> {
    let written = WRITTEN.iter().map(|(end, text)| (*end, (*text).to_owned()));
    written.chain(made()).collect()
}
