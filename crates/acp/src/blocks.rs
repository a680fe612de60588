//! What a prompt is made of, as it is sent.

use agent_client_protocol_schema::v1::{
    ContentBlock, EmbeddedResource, EmbeddedResourceResource, TextContent, TextResourceContents,
};
use rethread_engine::agents::Block;

/// A document is sent as text unless the entry says that the agent keeps embedded ones: of embedded documents, qwen keeps nothing in
/// its session, copilot shows the model only a file name, and claude moves them behind the request.
pub(crate) fn content(block: Block, embeds: bool) -> ContentBlock {
    match block {
        Block::Document { uri, text } if embeds => {
            let document =
                TextResourceContents::new(text, uri).mime_type("text/markdown".to_owned());
            let document = EmbeddedResourceResource::TextResourceContents(document);
            ContentBlock::Resource(EmbeddedResource::new(document))
        }
        Block::Text(text) | Block::Document { text, .. } => {
            ContentBlock::Text(TextContent::new(text))
        }
    }
}
