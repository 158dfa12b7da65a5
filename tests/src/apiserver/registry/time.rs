//! The wall clock, in the form of objects.

use k8s_openapi::jiff::Timestamp;

/// Returns the current time in whole seconds, in the form of `creationTimestamp`.
pub(crate) fn now() -> String {
    Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// Returns the age of `time` in the form of `kubectl`: `5s`, `3m`, `2h`, `4d`.
pub(crate) fn age_since(time: &str) -> String {
    let Ok(time) = time.parse::<Timestamp>() else { return "<invalid>".to_owned() };
    let seconds = Timestamp::now().duration_since(time).as_secs().max(0);
    match seconds {
        0..120 => format!("{seconds}s"),
        120..7_200 => format!("{}m", seconds / 60),
        7_200..172_800 => format!("{}h", seconds / 3_600),
        _ => format!("{}d", seconds / 86_400),
    }
}
