# What jq has and jaq has not, or has in another way.

def debug: .;
def debug(msgs): .;

def toarray: if isarray then . else [.] end;
def isvalid(f): try (f | true) catch false;
def leaf_paths: paths(scalars);
def recurse_down: recurse;
def ascii: [.] | implode;
def have_literal_numbers: true;
def have_decnum: false;
def gamma: lgamma;

def ltrimstr($x): if isstring and ($x | isstring) and startswith($x) then .[($x | length):] end;
def rtrimstr($x):
  if isstring and ($x | isstring) and endswith($x) and $x != "" then .[:length - ($x | length)] end;
def trimstr($x): ltrimstr($x) | rtrimstr($x);

def flatten($depth):
  if $depth < 0 then error("flatten depth must not be negative")
  else reduce .[] as $x ([]; . +
    if ($x | isarray) and $depth > 0 then ($x | flatten($depth - 1)) else [$x] end) end;

def from_entries: reduce .[] as $x ({}; . + {
  ($x | if .key != null then .key elif .k != null then .k elif .name != null then .name
    elif .Name != null then .Name elif .Key != null then .Key elif .K != null then .K
    elif .key == false then false else null end
    | if isstring then . else tojson end):
  ($x | if has("value") then .value elif has("v") then .v else .Value end)
});

def del(f): delpaths([path(f)]);
def setpath($path; $value): __set($path; $value);

def reverse: [.[length - 1 - range(0; length)]];
def pick(f): . as $in | reduce path(f) as $path (null; __set($path; $in | getpath($path)));

def INDEX(stream; f): reduce stream as $row ({}; .[$row | f | tostring] = $row);
def INDEX(f): INDEX(.[]; f);
def JOIN($index; f): [.[] | [., $index[f]]];
def JOIN($index; stream; f): stream | [., $index[f]];
def JOIN($index; stream; f; join): stream | [., $index[f]] | join;
def IN(s): any(s == .; .);
def IN(source; s): any(source == s; .);

def tostream:
  path(def r: (.[]? | r), .; r) as $p | getpath($p)
  | reduce path(.[]?) as $q ([$p, .]; [$p + $q]);
def fromstream(f): { x: null, e: false } as $begin
  | foreach f as $i ($begin;
      if .e then $begin end
      | if $i | length == 2
        then setpath(["e"]; $i[0] | length == 0) | setpath(["x"] + $i[0]; $i[1])
        else setpath(["e"]; $i[0] | length == 1) end;
      if .e then .x else empty end);
def truncate_stream(stream): . as $n | null | stream
  | if (.[0] | length) > $n then setpath([0]; .[0][$n:]) else empty end;

def test($val):
  if $val | isarray then test($val[0]; $val[1]) else test($val; null) end;
def match($val):
  if $val | isarray then match($val[0]; $val[1]) else match($val; null) end;
def capture($val):
  if $val | isarray then capture($val[0]; $val[1]) else capture($val; null) end;
def scan(re; flags): matches(re; "g" + flags)[]
  | if length > 1 then [.[1:][].string] else .[0].string end;
def scan(re): scan(re; "");

def dateadd(unit; n): . + n;
def datesub(unit; n): . - n;
def todate: if isarray then mktime end | todateiso8601;
def date: todate;

def @csv:
  if isarray | not then error("\(type) cannot be written as CSV: only an array can") end
  | map(if isnumber or isboolean then tojson elif . == null then ""
    elif isstring then "\"" + (split("\"") | join("\"\"")) + "\""
    else error("\(type) is not valid in a CSV row") end) | join(",");
def @tsv:
  if isarray | not then error("\(type) cannot be written as TSV: only an array can") end
  | map(if isnumber or isboolean then tojson elif . == null then ""
    elif isstring then split("\\") | join("\\\\") | split("\t") | join("\\t")
      | split("\n") | join("\\n") | split("\r") | join("\\r")
    else error("\(type) is not valid in a TSV row") end) | join("\t");
