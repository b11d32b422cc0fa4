use kube_cel::cel::Value as Cel;
use serde_json::json;

use super::*;

fn environment() -> Environment {
    let variables = vec![("names".to_owned(), Type::List(std::sync::Arc::new(Type::String)))];
    Environment { params: true, authorizer: true, variables: Some(variables) }
}

fn refused(source: &str) -> String {
    Expression::compile(source, &environment(), &[Type::Bool]).unwrap_err()
}

fn evaluate(source: &str, budget: u64) -> (Result<Cel, String>, u64) {
    let expression =
        Expression::compile(source, &environment(), &[]).unwrap_or_else(|e| panic!("{source}: {e}"));
    let mut scope = FUNCTIONS.new_inner_scope();
    let object =
        json!({"spec": {"hosts": ["b", "a", "c"], "n": 3, "none": null}, "metadata": {"namespace": "x"}});
    scope.add_variable_from_value("object", plain(&object));
    scope.add_variable_from_value("oldObject", Cel::Null);
    limited(budget, || Cel::resolve(&expression.tree, &scope).map_err(|error| error.to_string()))
}

fn holds(source: &str) -> bool {
    let (value, _) = evaluate(source, 1_000_000);
    value.unwrap_or_else(|error| panic!("{source}: {error}")) == Cel::Bool(true)
}

#[test]
fn a_flaw_is_told_with_its_place() {
    assert_eq!(
        refused("object.x == 1 &&\n  nobody.knows"),
        "compilation failed: ERROR: <input>:2:3: undeclared reference to 'nobody' (in container '')\n |   nobody.knows\n | ..^"
    );
    assert_eq!(
        refused("request.nick == 'a'"),
        "compilation failed: ERROR: <input>:1:8: undefined field 'nick'\n | request.nick == 'a'\n | .......^"
    );
    assert_eq!(
        refused("1 == 'a'"),
        "compilation failed: ERROR: <input>:1:3: found no matching overload for '_==_' applied to '(int, string)'\n | 1 == 'a'\n | ..^"
    );
    assert_eq!(
        refused("'a'.startsWith(1)"),
        "compilation failed: ERROR: <input>:1:15: found no matching overload for 'startsWith' applied to 'string.(int)'\n | 'a'.startsWith(1)\n | ..............^"
    );
    let two = refused("b && a.f()");
    assert!(two.contains("<input>:1:1: ") && two.contains("\nERROR: <input>:1:6: "), "{two}");
}

#[test]
fn what_an_expression_gives_must_fit() {
    assert_eq!(refused("object.flag"), "must evaluate to bool but got dyn");
    assert_eq!(refused("variables.names"), "must evaluate to bool but got list(string)");
    let wanted = [Type::String, Type::Null];
    let error = Expression::compile("1", &environment(), &wanted).unwrap_err();
    assert_eq!(error, "must evaluate to one of [string null_type] but got int");
}

#[test]
fn types_go_through_macros_and_functions() {
    for source in [
        "variables.names.map(n, n + 'x').filter(n, n != 'y').join(',') == 'a'",
        "variables.names.all(n, n.startsWith('a')) || variables.names.exists_one(n, n == 'b')",
        "object.spec.hosts.exists(h, h in variables.names)",
        "[true].map(x, x)[0]",
        "(object.a ? 'a' : 'b') == 'a'",
        "cel.bind(n, variables.names.size(), n > 0)",
        "object.?spec.hosts.orValue([]).size() > 0",
        "namespaceObject == null || 'a' in namespaceObject.metadata.labels",
        "authorizer.requestResource.check('get').allowed()",
        "request.userInfo.extra['a'][0] == 'b'",
        "1 < 1.5 && 2u > 1",
        "quantity('1').isLessThan(quantity('2')) && timestamp('2020-01-01T00:00:00Z') < timestamp(object.t)",
        "has(variables.names) && dyn(1) == 'a'",
    ] {
        Expression::compile(source, &environment(), &[Type::Bool])
            .unwrap_or_else(|e| panic!("{source}: {e}"));
    }
    for source in ["variables.names.map(n, n.size())[0] == 'a'", "variables.names[0] == 1", "[1, 'a'] == []"]
    {
        refused(source);
    }
}

#[test]
fn nothing_is_found_in_what_is_no_object() {
    for source in
        ["oldObject.spec.x == 1", "object.spec.n.x == 1", "object.spec.none.x", "!oldObject.spec.locked"]
    {
        let (value, _) = evaluate(source, 1_000_000);
        assert!(value.is_err(), "{source} gives {value:?}");
    }
    assert!(holds("oldObject == null && !has(oldObject.spec) && !has(object.spec.other)"));
    assert!(holds("object.metadata.namespace == 'x'"));
}

#[test]
fn lists_are_collected() {
    assert!(holds("object.spec.hosts.map(h, h + '.example') == ['b.example', 'a.example', 'c.example']"));
    assert!(holds("object.spec.hosts.filter(h, h != 'a') == ['b', 'c']"));
    assert!(holds("object.spec.hosts.map(h, h != 'a', h + h) == ['bb', 'cc']"));
    assert!(holds("object.spec.map(k, k).sort() == ['hosts', 'n', 'none']"));
    assert!(holds("object.spec.hosts.map(h, object.spec.hosts.filter(i, i == h).size()).sum() == 3"));
}

#[test]
fn loops_and_sizes_are_paid_for() {
    let (value, spent) = evaluate("lists.range(50).all(a, lists.range(50).all(b, a + b >= 0))", 1_000_000);
    assert_eq!(value, Ok(Cel::Bool(true)));
    assert!((2_500..100_000).contains(&spent), "{spent}");
    // Whatever is made of the error: it stops soon, and the cost tells.
    let (_, spent) = evaluate("lists.range(900).all(a, lists.range(900).all(b, a + b >= 0)) || true", 1_000);
    assert!(spent > 1_000, "{spent}");
    let (value, _) =
        evaluate("lists.range(5000).map(a, lists.range(5000).map(b, a * b)).size() > 0", 1_000_000);
    assert!(value.unwrap_err().contains(EXCEEDED));
    // Doubling a text thirty times.
    let doubled =
        (0..30).fold("'xxxxxxxxxx'".to_owned(), |text, i| format!("cel.bind(v{i}, {text}, v{i} + v{i})"));
    let (value, _) = evaluate(&format!("{doubled} == ''"), 1_000_000);
    assert!(value.is_err());
}

#[test]
fn what_cost_nothing_is_within_a_budget_of_nothing() {
    let (value, spent) = evaluate("true", 0);
    assert_eq!((value, spent), (Ok(Cel::Bool(true)), 0));
}
