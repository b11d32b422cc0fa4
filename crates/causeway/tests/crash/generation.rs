//! One object with a generation, changed by turns in its spec and beside it.

use k8s_openapi::api::apps::v1::Deployment;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::json;

const NAME: &str = "generation";

/// What was acknowledged, and the write that may have been done without an answer.
#[derive(Debug, Default)]
pub struct Generation {
    /// The generation and the spec's counter that goes with it.
    known: (i64, i32),
    tries: i32,
}

impl Generation {
    /// The server has what was acknowledged, or the one write after it.
    pub async fn check(&mut self, api: &Api<Deployment>) {
        let Some(found) = api.get_opt(NAME).await.unwrap() else {
            assert_eq!(self.known, (0, 0), "the object is lost");
            return;
        };
        let now = read(&found);
        let (generation, counter) = self.known;
        assert!(
            now == self.known || (now.0 == generation + 1 && now.1 > counter && now.1 <= self.tries),
            "{now:?} after {self:?}"
        );
        self.known = now;
    }

    /// Changes it until the server is gone.
    pub async fn run(mut self, api: Api<Deployment>) -> Self {
        loop {
            self.tries += 1;
            let spec = json!({
                "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": NAME},
                "spec": {
                    "replicas": self.tries,
                    "selector": {"matchLabels": {"app": "x"}},
                    "template": {
                        "metadata": {"labels": {"app": "x"}},
                        "spec": {"containers": [{"name": "x", "image": "example.dev/x:1"}]},
                    },
                },
            });
            let params = PatchParams::apply("crash").force();
            let Ok(written) = api.patch(NAME, &params, &Patch::Apply(&spec)).await else { return self };
            assert_eq!(read(&written), (self.known.0 + 1, self.tries));
            self.known = read(&written);
            let label = Patch::Merge(json!({"metadata": {"labels": {"try": self.tries.to_string()}}}));
            let Ok(written) = api.patch(NAME, &PatchParams::default(), &label).await else { return self };
            assert_eq!(read(&written), self.known, "a label is no new generation");
        }
    }
}

fn read(object: &Deployment) -> (i64, i32) {
    (
        object.metadata.generation.unwrap_or_default(),
        object.spec.as_ref().unwrap().replicas.unwrap_or_default(),
    )
}
