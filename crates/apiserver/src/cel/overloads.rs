//! What functions and operators take and give: the table behind the types of expressions.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use super::types::Type;

/// One way to call a function.
#[derive(Debug)]
pub(super) struct Overload {
    /// Called on its first argument.
    pub is_method: bool,
    pub takes: Vec<Type>,
    pub gives: Type,
}

/// The overloads of a function; `None` if the table does not have it.
pub(super) fn of(name: &str) -> Option<&'static [Overload]> {
    static TABLE: LazyLock<HashMap<&'static str, Vec<Overload>>> = LazyLock::new(|| {
        let mut table: HashMap<&'static str, Vec<Overload>> = HashMap::new();
        for line in TEXT.lines().filter(|line| !line.is_empty()) {
            let (name, overload) = parse(line).expect("the table is part of the program and has this form");
            table.entry(name).or_default().push(overload);
        }
        table
    });
    TABLE.get(name).map(Vec::as_slice)
}

/// `NAME TYPES -> TYPE`; a type and a dot before the name make it a method.
fn parse(line: &'static str) -> Option<(&'static str, Overload)> {
    let (call, gives) = line.split_once(" -> ")?;
    let mut words = call.split(' ');
    let name = words.next()?;
    let (name, is_method) = name.strip_prefix('.').map_or((name, false), |name| (name, true));
    let takes = words.map(ty).collect::<Option<_>>()?;
    Some((name, Overload { is_method, takes, gives: ty(gives)? }))
}

fn ty(text: &'static str) -> Option<Type> {
    let inner = |prefix: &str| text.strip_prefix(prefix)?.strip_suffix(')');
    if let Some(item) = inner("list(") {
        return Some(Type::List(Arc::new(ty(item)?)));
    }
    if let Some(item) = inner("optional(") {
        return Some(Type::Optional(Arc::new(ty(item)?)));
    }
    if let Some(entry) = inner("map(") {
        let (key, value) = entry.split_once(',')?;
        return Some(Type::Map(Arc::new(ty(key)?), Arc::new(ty(value)?)));
    }
    Some(match text {
        "A" => Type::Any(0),
        "B" => Type::Any(1),
        "dyn" => Type::Dyn,
        "null" => Type::Null,
        "bool" => Type::Bool,
        "int" => Type::Int,
        "uint" => Type::Uint,
        "double" => Type::Double,
        "string" => Type::String,
        "bytes" => Type::Bytes,
        "timestamp" => Type::Timestamp,
        "duration" => Type::Duration,
        name => Type::Opaque(name),
    })
}

/// Grouped as Kubernetes' libraries are: the language itself, optionals, strings, lists, sets, URLs, addresses,
/// quantities, versions, formats, rights.
const TEXT: &str = "\
_==_ A A -> bool
_!=_ A A -> bool
_&&_ bool bool -> bool
_||_ bool bool -> bool
!_ bool -> bool
@not_strictly_false bool -> bool
_?_:_ bool A A -> A
-_ int -> int
-_ double -> double
_+_ int int -> int
_+_ uint uint -> uint
_+_ double double -> double
_+_ string string -> string
_+_ bytes bytes -> bytes
_+_ list(A) list(A) -> list(A)
_+_ duration duration -> duration
_+_ duration timestamp -> timestamp
_+_ timestamp duration -> timestamp
_-_ int int -> int
_-_ uint uint -> uint
_-_ double double -> double
_-_ duration duration -> duration
_-_ timestamp timestamp -> duration
_-_ timestamp duration -> timestamp
_*_ int int -> int
_*_ uint uint -> uint
_*_ double double -> double
_/_ int int -> int
_/_ uint uint -> uint
_/_ double double -> double
_%_ int int -> int
_%_ uint uint -> uint
@in A list(A) -> bool
@in A map(A,B) -> bool
_[_] list(A) int -> A
_[_] map(A,B) A -> B
_[_] optional(list(A)) int -> optional(A)
_[_] optional(map(A,B)) A -> optional(B)
_[?_] list(A) int -> optional(A)
_[?_] map(A,B) A -> optional(B)
_[?_] optional(list(A)) int -> optional(A)
_[?_] optional(map(A,B)) A -> optional(B)
size string -> int
size bytes -> int
size list(A) -> int
size map(A,B) -> int
.size string -> int
.size bytes -> int
.size list(A) -> int
.size map(A,B) -> int
bool bool -> bool
bool string -> bool
bytes bytes -> bytes
bytes string -> bytes
double double -> double
double int -> double
double string -> double
double uint -> double
duration duration -> duration
duration int -> duration
duration string -> duration
dyn A -> dyn
int int -> int
int double -> int
int duration -> int
int string -> int
int timestamp -> int
int uint -> int
string string -> string
string bool -> string
string bytes -> string
string double -> string
string duration -> string
string int -> string
string timestamp -> string
string uint -> string
string net.IP -> string
string net.CIDR -> string
timestamp timestamp -> timestamp
timestamp int -> timestamp
timestamp string -> timestamp
uint uint -> uint
uint double -> uint
uint int -> uint
uint string -> uint
.contains string string -> bool
.endsWith string string -> bool
.startsWith string string -> bool
.matches string string -> bool
matches string string -> bool
.getDate timestamp -> int
.getDate timestamp string -> int
.getDayOfMonth timestamp -> int
.getDayOfMonth timestamp string -> int
.getDayOfWeek timestamp -> int
.getDayOfWeek timestamp string -> int
.getDayOfYear timestamp -> int
.getDayOfYear timestamp string -> int
.getFullYear timestamp -> int
.getFullYear timestamp string -> int
.getMonth timestamp -> int
.getMonth timestamp string -> int
.getHours timestamp -> int
.getHours timestamp string -> int
.getHours duration -> int
.getMinutes timestamp -> int
.getMinutes timestamp string -> int
.getMinutes duration -> int
.getSeconds timestamp -> int
.getSeconds timestamp string -> int
.getSeconds duration -> int
.getMilliseconds timestamp -> int
.getMilliseconds timestamp string -> int
.getMilliseconds duration -> int
optional.none -> optional(A)
optional.of A -> optional(A)
optional.ofNonZeroValue A -> optional(A)
.hasValue optional(A) -> bool
.value optional(A) -> A
.or optional(A) optional(A) -> optional(A)
.orValue optional(A) A -> A
@optional_field dyn string -> optional(dyn)
@optional_to_list optional(A) -> list(A)
@optional_from_list list(optional(A)) -> optional(A)
@optional_from_list list(A) -> optional(A)
.charAt string int -> string
.format string list(A) -> string
.indexOf string string -> int
.indexOf string string int -> int
.indexOf list(A) A -> int
.join list(string) -> string
.join list(string) string -> string
.lastIndexOf string string -> int
.lastIndexOf string string int -> int
.lastIndexOf list(A) A -> int
.lowerAscii string -> string
.upperAscii string -> string
.replace string string string -> string
.replace string string string int -> string
.reverse string -> string
.reverse list(A) -> list(A)
.split string string -> list(string)
.split string string int -> list(string)
.substring string int -> string
.substring string int int -> string
.trim string -> string
strings.quote string -> string
.find string string -> string
.findAll string string -> list(string)
.findAll string string int -> list(string)
.isSorted list(A) -> bool
.min list(A) -> A
.max list(A) -> A
.sum list(A) -> A
.distinct list(A) -> list(A)
.first list(A) -> optional(A)
.last list(A) -> optional(A)
.flatten list(A) -> list(dyn)
.flatten list(A) int -> list(dyn)
.slice list(A) int int -> list(A)
.sort list(A) -> list(A)
lists.range int -> list(int)
sets.contains list(A) list(A) -> bool
sets.equivalent list(A) list(A) -> bool
sets.intersects list(A) list(A) -> bool
url string -> kubernetes.URL
isURL string -> bool
.getEscapedPath kubernetes.URL -> string
.getHost kubernetes.URL -> string
.getHostname kubernetes.URL -> string
.getPort kubernetes.URL -> string
.getQuery kubernetes.URL -> map(string,list(string))
.getScheme kubernetes.URL -> string
ip string -> net.IP
isIP string -> bool
ip.isCanonical string -> bool
.family net.IP -> int
.isGlobalUnicast net.IP -> bool
.isLinkLocalMulticast net.IP -> bool
.isLinkLocalUnicast net.IP -> bool
.isLoopback net.IP -> bool
.isUnspecified net.IP -> bool
cidr string -> net.CIDR
isCIDR string -> bool
.containsCIDR net.CIDR net.CIDR -> bool
.containsCIDR net.CIDR string -> bool
.containsIP net.CIDR net.IP -> bool
.containsIP net.CIDR string -> bool
.ip net.CIDR -> net.IP
.masked net.CIDR -> net.CIDR
.prefixLength net.CIDR -> int
quantity string -> kubernetes.Quantity
isQuantity string -> bool
.add kubernetes.Quantity kubernetes.Quantity -> kubernetes.Quantity
.add kubernetes.Quantity int -> kubernetes.Quantity
.sub kubernetes.Quantity kubernetes.Quantity -> kubernetes.Quantity
.sub kubernetes.Quantity int -> kubernetes.Quantity
.asApproximateFloat kubernetes.Quantity -> double
.asInteger kubernetes.Quantity -> int
.isInteger kubernetes.Quantity -> bool
.sign kubernetes.Quantity -> int
.compareTo kubernetes.Quantity kubernetes.Quantity -> int
.compareTo kubernetes.Semver kubernetes.Semver -> int
.isGreaterThan kubernetes.Quantity kubernetes.Quantity -> bool
.isGreaterThan kubernetes.Semver kubernetes.Semver -> bool
.isLessThan kubernetes.Quantity kubernetes.Quantity -> bool
.isLessThan kubernetes.Semver kubernetes.Semver -> bool
semver string -> kubernetes.Semver
semver string bool -> kubernetes.Semver
isSemver string -> bool
isSemver string bool -> bool
.major kubernetes.Semver -> int
.minor kubernetes.Semver -> int
.patch kubernetes.Semver -> int
format.dns1035Label -> kubernetes.NamedFormat
format.dns1035LabelPrefix -> kubernetes.NamedFormat
format.dns1123Label -> kubernetes.NamedFormat
format.dns1123LabelPrefix -> kubernetes.NamedFormat
format.dns1123Subdomain -> kubernetes.NamedFormat
format.dns1123SubdomainPrefix -> kubernetes.NamedFormat
format.labelValue -> kubernetes.NamedFormat
format.qualifiedName -> kubernetes.NamedFormat
format.byte -> kubernetes.NamedFormat
format.date -> kubernetes.NamedFormat
format.datetime -> kubernetes.NamedFormat
format.uri -> kubernetes.NamedFormat
format.uuid -> kubernetes.NamedFormat
format.named string -> optional(kubernetes.NamedFormat)
.validate kubernetes.NamedFormat string -> optional(list(string))
.path kubernetes.authorization.Authorizer string -> kubernetes.authorization.PathCheck
.group kubernetes.authorization.Authorizer string -> kubernetes.authorization.GroupCheck
.serviceAccount kubernetes.authorization.Authorizer string string -> kubernetes.authorization.Authorizer
.resource kubernetes.authorization.GroupCheck string -> kubernetes.authorization.ResourceCheck
.subresource kubernetes.authorization.ResourceCheck string -> kubernetes.authorization.ResourceCheck
.namespace kubernetes.authorization.ResourceCheck string -> kubernetes.authorization.ResourceCheck
.name kubernetes.authorization.ResourceCheck string -> kubernetes.authorization.ResourceCheck
.fieldSelector kubernetes.authorization.ResourceCheck string -> kubernetes.authorization.ResourceCheck
.labelSelector kubernetes.authorization.ResourceCheck string -> kubernetes.authorization.ResourceCheck
.check kubernetes.authorization.PathCheck string -> kubernetes.authorization.Decision
.check kubernetes.authorization.ResourceCheck string -> kubernetes.authorization.Decision
.allowed kubernetes.authorization.Decision -> bool
.reason kubernetes.authorization.Decision -> string
.errored kubernetes.authorization.Decision -> bool
.error kubernetes.authorization.Decision -> string
";
