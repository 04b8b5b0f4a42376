//! No key's value is ever shown.

use crate::folder::{load_text, report_of, split};

const SECRET: &str = "sk-very-secret";

#[test]
fn a_key_in_the_wrong_place_or_form_is_not_shown() {
    for main in [
        "[providers.a]\ndialect = 'openai'\nbase_url = 'http://u:sk-very-secret@h/v1'",
        "[providers.a]\ndialect = 'openai'\nbase_url = 'http://h/v1'\napi_key = ['sk-very-secret']",
        "[providers.a]\ndialect = 'openai'\nbase_url = 'http://h/v1'\napi_key = 'sk-very-secret '",
        "[providers.a]\ndialect = 'simulated'\napi_key = 'sk-very-secret'",
        "[server]\nclient_keys = 'sk-very-secret'",
        "[server]\nclient_keys = [\"sk-very-secret\\n\"]",
        "[server]\nclient_keys = [['sk-very-secret']]",
        "[server]\nmax_body_bytes = 'sk-very-secret'",
        "[tickets]\nwebhook_secret = ['sk-very-secret']",
        "[tickets]\nwebhook_url = 'x://h/sk-very-secret'",
        "[audit]\ncontent_hmac_key = 'sk-very-secret'",
        "[audit]\ncontent_hmac_key = 'sk-very-secret of 32 characters and more'",
        "[server.admin]\ntoken = ['sk-very-secret']",
        "[server.admin]\ntoken = 'sk-very-secret\t'",
    ] {
        let text = format!("=== evenkeel.toml\n{main}\n");
        let problems = load_text(&text).unwrap_err();
        assert!(
            problems
                .0
                .iter()
                .any(|p| p.file == "evenkeel.toml" && p.line > 1),
            "{problems}"
        );
        assert!(
            !format!("{problems} {problems:?}").contains(SECRET),
            "{main}"
        );
    }
}

#[test]
fn debug_output_of_files_and_configurations_masks_keys() {
    let text = "=== evenkeel.toml
[server]
state_dir = 'state'
client_keys = ['sk-very-secret']
[server.admin]
token = 'sk-very-secret'
[audit]
content_hmac_key = 'sk-very-secret-of-32-characters-and-more'
[tickets]
webhook_url = 'https://h/sk-very-secret'
webhook_secret = 'sk-very-secret'
[providers.a]
dialect = 'openai'
base_url = 'http://h/v1'
api_key = 'sk-very-secret'
[defaults]
validators = [{ kind = 'http', url = 'https://h/sk-very-secret', headers = { x-key = 'sk-very-secret' } }]
[agent_roles.r]
p95_threshold_ms = 1000
p99_threshold_ms = 2000
evaluation_window_seconds = 10
primary = 'a/m'
";
    let loaded = load_text(text).unwrap_or_else(|_| panic!("{}", report_of(text)));
    assert_eq!(loaded.config.server.client_keys.len(), 1);
    assert!(loaded.config.server.admin.is_some());
    assert!(!format!("{loaded:?} {:?}", split(text)).contains(SECRET));
}
