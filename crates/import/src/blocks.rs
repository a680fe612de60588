//! Lists of content blocks, as models take and give them: texts, pictures, and the results of tools.

use serde_json::Value;

use crate::json;
use crate::speech::File;

/// The texts and files of a content that is a text, or a list of blocks in the manner of one of the vendors.
pub(crate) fn read(content: &Value) -> (String, Vec<File>) {
    let mut texts = Vec::new();
    let mut files = Vec::new();
    collect(content, &mut texts, &mut files, 0);
    (texts.join("\n"), files)
}

fn collect(content: &Value, texts: &mut Vec<String>, files: &mut Vec<File>, depth: usize) {
    match content {
        Value::String(text) => texts.push(text.clone()),
        Value::Array(blocks) if depth < 8 => {
            for block in blocks {
                collect(block, texts, files, depth + 1);
            }
        }
        Value::Object(_) => {
            if let Some(file) = file(content) {
                files.push(file);
            } else if let Some(text) = json::text(content, "text") {
                texts.push(text.to_owned());
            } else if let Some(inner) = content.get("content").filter(|_| depth < 8) {
                collect(inner, texts, files, depth + 1);
            }
        }
        _ => (),
    }
}

/// A block that is a picture or another file.
fn file(block: &Value) -> Option<File> {
    let name = json::text(block, "filename").or_else(|| json::text(block, "name"));
    let name = name.map(str::to_owned);
    // Anthropic: {"type":"image","source":{"type":"base64","media_type":…,"data":…}}
    if let Some(source) = block.get("source").filter(|source| source.is_object()) {
        let mime = json::text(source, "media_type").unwrap_or("file").to_owned();
        let data = json::text(source, "data").map(str::to_owned);
        return Some(File { mime, data, name });
    }
    // Google: {"inlineData":{"mimeType":…,"data":…}}
    if let Some(inline) = block.get("inlineData").or_else(|| block.get("inline_data")) {
        let mime = json::text(inline, "mimeType").or_else(|| json::text(inline, "mime_type"));
        let data = json::text(inline, "data").map(str::to_owned);
        return Some(File { mime: mime.unwrap_or("file").to_owned(), data, name });
    }
    // OpenAI: {"type":"input_image","image_url":"data:…"}, or with an object that has the address.
    let url = block.get("image_url").or_else(|| block.get("url")).or_else(|| block.get("imageUrl"));
    let url = url.and_then(|url| url.as_str().or_else(|| json::text(url, "url")));
    if let Some(url) = url {
        let mime = json::text(block, "mime");
        return Some(from_url(url, mime, name));
    }
    // MCP: {"type":"image","data":…,"mimeType":…}
    let mime = json::text(block, "mimeType")?;
    let data = json::text(block, "data").map(str::to_owned);
    Some(File { mime: mime.to_owned(), data, name })
}

/// A file by its address, which may hold it.
pub(crate) fn from_url(url: &str, mime: Option<&str>, name: Option<String>) -> File {
    let inline = url.strip_prefix("data:").and_then(|rest| rest.split_once(";base64,"));
    match inline {
        Some((own, data)) => {
            let mime = mime.unwrap_or(own).to_owned();
            File { mime, data: Some(data.to_owned()), name }
        }
        None => {
            let end = url.floor_char_boundary(200);
            let name = name.or_else(|| Some(url[..end].to_owned()));
            File { mime: mime.unwrap_or("file").to_owned(), data: None, name }
        }
    }
}
