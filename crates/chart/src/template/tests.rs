use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::Program;

fn run(template: &str, root: &Value) -> Result<String, String> {
    let texts = BTreeMap::from([("t", template)]);
    Program::parse(&texts).and_then(|program| program.run("t", root)).map_err(|error| error.to_string())
}

#[test]
fn templates_print_what_go_prints() {
    let root =
        json!({"a": {"b": "x", "n": 3, "no": false, "l": ["p", "q"], "m": {"k2": 2, "k1": "1"}}, "e": ""});
    for (template, printed) in [
        ("a {{ .a.b }} c", "a x c"),
        ("a  {{- .a.b -}}  c", "axc"),
        ("a\n{{- /* says nothing */}}\nc", "a\nc"),
        ("{{ if .a.no }}1{{ else if .e }}2{{ else }}3{{ end }}", "3"),
        ("{{ if and .a.b (not .e) }}y{{ end }}", "y"),
        ("{{ or .e .a.b }}{{ and .a.b .e | default \"d\" }}", "xd"),
        ("{{ with .a }}{{ .b }}{{ $.a.n }}{{ end }}{{ with .e }}no{{ else }}{{ .a.n }}{{ end }}", "x33"),
        ("{{ range .a.l }}<{{ . }}>{{ end }}", "<p><q>"),
        ("{{ range $k, $v := .a.m }}{{ $k }}={{ $v }} {{ end }}", "k1=1 k2=2 "),
        ("{{ range .missing }}x{{ else }}none{{ end }}", "none"),
        ("{{ $x := .a.b }}{{ if true }}{{ $x = \"y\" }}{{ end }}{{ $x }}", "y"),
        ("{{ define \"d\" }}[{{ .b }}]{{ end }}{{ include \"d\" .a | quote }}", "\"[x]\""),
        ("{{ .a.b | printf \"%s-%s\" \"w\" }}", "w-x"),
        ("m:{{ toYaml .a.m | nindent 2 }}", "m:\n  k1: '1'\n  k2: 2"),
        ("{{ eq .a.b \"z\" \"x\" }} {{ ne .a.n 3 }} {{ gt (int .a.n) 2 }}", "true false true"),
        ("{{ toJson .a.m }}", "{\"k1\":\"1\",\"k2\":2}"),
        ("{{ quote \"a\\\"b\" }}{{ `raw}}` }}", "\"a\\\"b\"raw}}"),
        ("{{ .nothing }}|", "|"),
    ] {
        let wanted = Ok(printed.replace("'1'", "\"1\""));
        let got = run(template, &root).map(|text| text.replace("'1'", "\"1\""));
        assert_eq!(got, wanted, "{template}");
    }
}

#[test]
fn what_is_not_understood_is_said_with_its_line() {
    for (template, says) in [
        ("\n{{ .a", "t:2: {{ without }}"),
        ("\n\n{{ if .a }}", "t:3: it has no end"),
        ("{{ end }}", "t:1: end without a beginning"),
        ("\n{{ frobnicate 1 }}", "t:2: there is no function frobnicate"),
        ("{{ .x.y }}", "t:1: y is asked of something that is not there"),
        ("{{ $u }}", "t:1: $u is not declared"),
        ("{{ include \"none\" . }}", "t:1: there is no template \"none\""),
        (
            "{{ define \"x\" }}{{ include \"x\" . }}{{ end }}{{ include \"x\" . }}",
            "t:1: x includes itself for ever",
        ),
        ("{{ fail \"no\" }}", "t:1: no"),
        ("{{ (.a }}", "t:1: ( without )"),
        ("{{ . }}", "t:1: {} can't be printed: use toYaml"),
    ] {
        assert_eq!(run(template, &json!({})), Err(says.to_owned()), "{template}");
    }
}
