//! What cores share: color inboxes, tokens, ready queues, parking words.
