//! The programs of a cluster, compiled once per machine and kept outside of the clone under the versions they are made of.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context as _;

use super::image::hex;
use super::site::run;

/// Where the Go modules of the programs are; each has its versions in its `go.mod`.
const MODULES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/kubernetes");
/// Without its version the API server calls itself a development build, and clients refuse features.
const VERSION: &str = "-X k8s.io/component-base/version.gitVersion=v1.36.3";
/// Name, folder and package of each program.
const PROGRAMS: [(&str, &str, &str); 3] = [
    ("kubernetes", ".", "."),
    ("multus", "multus", "gopkg.in/k8snetworkplumbingwg/multus-cni.v4/cmd/multus"),
    ("coredns", "coredns", "."),
];
const GATEWAY_API: &str = "sigs.k8s.io/gateway-api@v1.7.0";
/// Where that has its definitions, experimental kinds and fields among them.
pub const GATEWAY_API_DEFINITIONS: &str = "config/crd/experimental";
/// Gateway API needs a newer Go than Kubernetes: an older one fetches it by itself.
const GATEWAY_API_TOOLCHAIN: (&str, &str) = ("GOTOOLCHAIN", "go1.27.3");
const ECHO: &str = "sigs.k8s.io/gateway-api-conformance-images/echo-basic";
const KUBEVIRT: &str = "kubevirt.io/kubevirt@v1.6.0";
/// Where that has its schemas, each as a text of YAML.
const KUBEVIRT_SCHEMAS: &str = "pkg/virt-operator/resource/generate/components/validations_generated.go";
/// The definition around one of them.
const VIRTUAL_MACHINE_INSTANCES: &str = "apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: virtualmachineinstances.kubevirt.io}
spec:
  group: kubevirt.io
  scope: Namespaced
  names: {kind: VirtualMachineInstance, plural: virtualmachineinstances, singular: virtualmachineinstance}
  versions:
  - name: v1
    served: true
    storage: true
    schema:
";

/// Compiled programs, and definitions of others that come with them.
#[derive(Clone, Debug)]
pub(super) struct Programs {
    dir: PathBuf,
}

impl Programs {
    /// Those of the versions above; what is missing is compiled now, which takes minutes.
    ///
    /// # Errors
    /// When Go is missing, a module can't be had, or one does not compile.
    pub(super) fn ready() -> anyhow::Result<Self> {
        let programs = Self { dir: cache()?.join(key()?) };
        fs::create_dir_all(&programs.dir)?;
        let lock = fs::File::create(programs.dir.join("lock"))?;
        lock.lock()?;
        for (name, folder, package) in PROGRAMS {
            if !programs.dir.join(name).exists() {
                eprintln!("compiling {name}: once, Kubernetes takes 5 to 10 minutes");
                programs.build(name, folder, package).with_context(|| format!("compiling {name}"))?;
            }
        }
        if !programs.gateway_api().exists() {
            programs.copy_gateway_api().context("copying the definitions of Gateway API")?;
        }
        Ok(programs)
    }

    /// etcd, kube-apiserver and the rest, by the first argument.
    pub(super) fn kubernetes(&self) -> PathBuf {
        self.dir.join("kubernetes")
    }

    pub(super) fn multus(&self) -> PathBuf {
        self.dir.join("multus")
    }

    pub(super) fn coredns(&self) -> PathBuf {
        self.dir.join("coredns")
    }

    /// A directory of definitions.
    pub(super) fn gateway_api(&self) -> PathBuf {
        self.dir.join(GATEWAY_API.replace('/', "-"))
    }

    /// The conformance suite of Gateway API, and the server that its pods run; compiled when they are first asked for.
    ///
    /// # Errors
    /// When a module can't be had, or does not compile.
    pub(super) fn conformance(&self) -> anyhow::Result<(PathBuf, PathBuf)> {
        let folder = Path::new(MODULES).join("conformance");
        let mut sources = Vec::new();
        for file in ["conformance_test.go", "go.mod", "go.sum"] {
            sources.extend(fs::read(folder.join(file))?);
        }
        let key = &hex(&sources)[..16];
        let (suite, echo) = (self.dir.join(format!("suite-{key}")), self.dir.join(format!("echo-{key}")));
        let compile = |verb: &[&str], to: &Path, package: &str| {
            if to.exists() {
                return Ok(());
            }
            let unfinished = to.with_extension("part");
            let mut build = go();
            build.env(GATEWAY_API_TOOLCHAIN.0, GATEWAY_API_TOOLCHAIN.1);
            build.args(verb).args(["-trimpath", "-ldflags=-s -w", "-o"]).arg(&unfinished).arg(package);
            run(build.current_dir(&folder)).with_context(|| format!("compiling {package}"))?;
            anyhow::Ok(fs::rename(unfinished, to)?)
        };
        compile(&["test", "-c"], &suite, ".")?;
        compile(&["build"], &echo, ECHO)?;
        Ok((suite, echo))
    }

    fn build(&self, name: &str, folder: &str, package: &str) -> anyhow::Result<()> {
        let unfinished = self.dir.join(format!("{name}.part"));
        let flags = format!("-ldflags=-s -w {VERSION}");
        let mut build = go();
        build.args(["build", "-trimpath", &flags, "-o"]).arg(&unfinished).arg(package);
        run(build.current_dir(Path::new(MODULES).join(folder)))?;
        fs::rename(unfinished, self.dir.join(name))?;
        Ok(())
    }

    /// A file with KubeVirt's definition of virtual machines that run, and the whole of its schema.
    ///
    /// # Errors
    /// When the module can't be had, or has no such schema.
    pub(super) fn virtual_machine_instances(&self) -> anyhow::Result<PathBuf> {
        let file = self.dir.join(format!("{}.yaml", KUBEVIRT.replace('/', "-")));
        if file.exists() {
            return Ok(file);
        }
        let source = fs::read_to_string(module(KUBEVIRT)?.join(KUBEVIRT_SCHEMAS))?;
        let (_, schema) = source.split_once("\"virtualmachineinstance\": `").context("no schema in there")?;
        let (schema, _) = schema.split_once('`').context("a schema without an end")?;
        let indented = schema.lines().map(|line| format!("      {line}\n"));
        let text = indented.fold(VIRTUAL_MACHINE_INSTANCES.to_owned(), |text, line| text + &line);
        let unfinished = file.with_extension("part");
        fs::write(&unfinished, text)?;
        fs::rename(unfinished, &file)?;
        Ok(file)
    }

    fn copy_gateway_api(&self) -> anyhow::Result<()> {
        let from = gateway_api_module()?.join(GATEWAY_API_DEFINITIONS);
        let unfinished = self.gateway_api().with_extension("part");
        fs::create_dir_all(&unfinished)?;
        for entry in fs::read_dir(&from).with_context(|| format!("reading {}", from.display()))? {
            let entry = entry?;
            if entry.file_name() != "kustomization.yaml" {
                fs::write(unfinished.join(entry.file_name()), fs::read(entry.path())?)?;
            }
        }
        fs::rename(unfinished, self.gateway_api())?;
        Ok(())
    }
}

/// The source of the Gateway API's Go module, downloaded if it is not there yet.
///
/// # Errors
/// When Go is missing, or the module can't be had.
pub fn gateway_api_module() -> anyhow::Result<PathBuf> {
    module(GATEWAY_API)
}

/// The source of a Go module.
fn module(module: &str) -> anyhow::Result<PathBuf> {
    let mut download = go();
    if module == GATEWAY_API {
        download.env(GATEWAY_API_TOOLCHAIN.0, GATEWAY_API_TOOLCHAIN.1);
    }
    // Outside of every module, whose versions would count.
    run(download.args(["mod", "download", module]).current_dir("/"))?;
    let modules = run(go().args(["env", "GOMODCACHE"]))?;
    Ok(Path::new(modules.trim()).join(module))
}

/// The one that `scripts/test-deps.sh` installed beside the built programs, where the system's is too old.
fn go() -> Command {
    let own = std::env::current_exe().ok();
    let installed = own.iter().flat_map(|path| path.ancestors()).map(|dir| dir.join("test-venv/bin/go"));
    let mut command =
        Command::new(installed.into_iter().find(|path| path.exists()).unwrap_or_else(|| "go".into()));
    command.env("CGO_ENABLED", "0");
    command
}

fn cache() -> anyhow::Result<PathBuf> {
    let given = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let home = || std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache"));
    Ok(given.or_else(home).context("neither XDG_CACHE_HOME nor HOME is set")?.join("causeway-cluster"))
}

/// Changes with every version and every line of the Go modules.
fn key() -> anyhow::Result<String> {
    let mut text = VERSION.to_owned().into_bytes();
    for (_, folder, _) in PROGRAMS {
        for file in ["main.go", "go.mod", "go.sum"] {
            let path = Path::new(MODULES).join(folder).join(file);
            if path.exists() {
                text.extend(fs::read(path)?);
            }
        }
    }
    Ok(hex(&text)[..16].to_owned())
}
