//! `OpenAPI`: the least that `kubectl` reads before it creates or applies an object.
//!
//! The document describes one operation, the patch of a Namespace, which takes `fieldValidation`. So
//! `kubectl` leaves the check of all types to the server.

/// Returns a message of protocol buffers with one field.
fn field(number: u8, content: &[u8]) -> Vec<u8> {
    /// The wire type of texts and messages.
    const LENGTH: u8 = 2;
    let mut message = vec![number << 3 | LENGTH];
    let mut length = content.len();
    while length >= 0x80 {
        message.push(length.to_le_bytes()[0] | 0x80);
        length >>= 7;
    }
    message.push(length.to_le_bytes()[0]);
    message.extend_from_slice(content);
    message
}

/// Returns the document of version 2, as `openapi.v2.Document` of gnostic.
pub(super) fn document() -> Vec<u8> {
    let text = |number, text: &str| field(number, text.as_bytes());
    let kind = text(2, "group: ''\nversion: v1\nkind: Namespace\n");
    let extension = [text(1, "x-kubernetes-group-version-kind"), field(2, &kind)].concat();
    let query = [text(2, "query"), text(4, "fieldValidation")].concat();
    let parameter = field(1, &field(2, &field(3, &query)));
    let patch = [field(8, &parameter), field(13, &extension)].concat();
    let path = [text(1, "/api/v1/namespaces/{name}"), field(2, &field(8, &patch))].concat();
    [text(1, "2.0"), field(8, &field(2, &path))].concat()
}
