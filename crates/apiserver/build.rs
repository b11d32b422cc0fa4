//! Packs the definitions of others that are in the program: as text they would be a tenth of it.

use std::path::{Path, PathBuf};
use std::{env, fs, io};

const DIRECTORIES: [&str; 2] = ["crds", "gateway-api"];
/// Of ten; more takes longer and saves nothing here.
const LEVEL: u8 = 9;

fn main() -> io::Result<()> {
    let out = PathBuf::from(env::var_os("OUT_DIR").ok_or(io::ErrorKind::NotFound)?);
    let mut list = String::from("[\n");
    for directory in DIRECTORIES {
        println!("cargo:rerun-if-changed={directory}");
        let mut files: Vec<PathBuf> =
            fs::read_dir(directory)?.map(|entry| Ok(entry?.path())).collect::<io::Result<_>>()?;
        files.sort();
        for file in files.iter().filter(|file| file.extension().is_some_and(|ending| ending == "json")) {
            list += &pack(file, &out)?;
        }
    }
    list += "]\n";
    fs::write(out.join("foreign.in"), list)
}

/// Writes a file in its packed form, and gives back its line in the list. It is called GROUP_PLURAL.
fn pack(file: &Path, out: &Path) -> io::Result<String> {
    let stem = file.file_stem().and_then(|stem| stem.to_str()).ok_or(io::ErrorKind::InvalidInput)?;
    let (group, plural) = stem.split_once('_').ok_or(io::ErrorKind::InvalidInput)?;
    let packed = miniz_oxide::deflate::compress_to_vec(&fs::read(file)?, LEVEL);
    let target = out.join(format!("{stem}.deflate"));
    fs::write(&target, packed)?;
    let target = target.display();
    Ok(format!("    Foreign {{ name: \"{plural}.{group}\", packed: include_bytes!(r#\"{target}\"#) }},\n"))
}
