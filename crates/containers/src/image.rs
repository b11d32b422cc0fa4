//! Images that the runtime holds.

use std::collections::BTreeMap;

use bollard::models::ImageInspect;
use bollard::query_parameters::{CreateImageOptions, RemoveImageOptions};
use futures::StreamExt as _;

use crate::runtime::{plain_name, rust_architecture};
use crate::{Error, ErrorKind, Result, Runtime};

/// An image as the runtime has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    pub id: String,
    pub tags: Vec<String>,
    /// As Rust names it: `x86_64`, `aarch64`.
    pub architecture: String,
    pub os: String,
    pub labels: BTreeMap<String, String>,
    pub entrypoint: Vec<String>,
    pub command: Vec<String>,
    /// The user that its processes run as; empty is root.
    pub user: String,
}

impl Runtime {
    /// The image of this name, if the runtime holds it; nothing is pulled.
    ///
    /// # Errors
    /// When the runtime does not answer.
    pub async fn image(&self, reference: &str) -> Result<Option<Image>> {
        let name = plain_name("inspect image", reference)?;
        let found = self
            .call(format!("inspect image {name}"), self.limits.call, self.docker.inspect_image(name))
            .await;
        match found {
            Ok(image) => Ok(Some(Image::from(image))),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Pulls an image from its registry, telling each step.
    ///
    /// # Errors
    /// When the registry has no such image, can't be reached, or the limit of time is over.
    pub async fn pull(&self, reference: &str, mut output: impl FnMut(&str)) -> Result<Image> {
        let what = format!("pull image {reference}");
        let name = plain_name("pull image", reference)?;
        // Without a tag a pull would fetch them all.
        let tagged = name.rsplit('/').next().is_some_and(|last| last.contains(':')) || name.contains('@');
        let options = CreateImageOptions {
            from_image: Some(name.to_owned()),
            tag: (!tagged).then(|| "latest".to_owned()),
            ..CreateImageOptions::default()
        };
        let pull = async {
            let mut steps = std::pin::pin!(self.docker.create_image(Some(options), None, None));
            while let Some(step) = steps.next().await {
                if let Some(status) = step?.status {
                    output(&status);
                }
            }
            Ok(())
        };
        self.call(what.as_str(), self.limits.slow, pull).await?;
        self.image(name).await?.ok_or_else(|| {
            Error::invalid(what, "the runtime says it is done but does not hold it")
                .with_kind(ErrorKind::NotFound)
        })
    }

    /// Removes an image; one that is gone already is fine.
    ///
    /// # Errors
    /// [`ErrorKind::InUse`] while a container uses it.
    pub async fn remove_image(&self, reference: &str) -> Result<()> {
        let name = plain_name("remove image", reference)?;
        let removed = self
            .call(
                format!("remove image {name}"),
                self.limits.call,
                self.docker.remove_image(name, None::<RemoveImageOptions>, None),
            )
            .await;
        match removed {
            Ok(_) => Ok(()),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            Err(error) => Err(error),
        }
    }
}

impl From<ImageInspect> for Image {
    fn from(found: ImageInspect) -> Self {
        let config = found.config.unwrap_or_default();
        Self {
            id: found.id.unwrap_or_default(),
            tags: found.repo_tags.unwrap_or_default(),
            architecture: rust_architecture(&found.architecture.unwrap_or_default()),
            os: found.os.unwrap_or_default(),
            labels: config.labels.unwrap_or_default().into_iter().collect(),
            entrypoint: config.entrypoint.unwrap_or_default(),
            command: config.cmd.unwrap_or_default(),
            user: config.user.unwrap_or_default(),
        }
    }
}
