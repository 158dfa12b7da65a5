use std::sync::mpsc;

use super::*;

const CA: &str = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
const CA_2: &str = "-----BEGIN CERTIFICATE-----\nBBBB\n-----END CERTIFICATE-----\n";

struct Scene {
    directory: PathBuf,
    credentials: Credentials,
    /// The configurations from which ways were made.
    made: mpsc::Receiver<(Vec<Vec<u8>>, String)>,
    now: Instant,
}

impl Scene {
    fn new() -> Self {
        let directory = std::env::temp_dir().join(format!("vipward-credentials-{:016x}", fastrand::u64(..)));
        fs::create_dir(&directory).expect("a directory");
        fs::write(directory.join("ca"), CA).expect("a file");
        fs::write(directory.join("token"), "one").expect("a file");
        let mut config = Config::new("https://192.0.2.99:6443".parse().expect("a URL"));
        config.root_cert_file = Some(directory.join("ca"));
        config.auth_info.token_file = Some(directory.join("token").display().to_string());
        let (made_one, made) = mpsc::channel();
        let prepare = move |config: Config| {
            assert_eq!((&config.root_cert_file, &config.auth_info.token_file), (&None, &None));
            let user = serde_json::to_value(&config.auth_info).expect("plain data");
            let token = user["token"].as_str().expect("a token").to_owned();
            made_one.send((config.root_cert.expect("a CA"), token)).expect("the scene");
            Ok(Way(Arc::new(|_| panic!("no connection is opened"))))
        };
        let credentials = Credentials::read(config, Box::new(prepare)).expect("they are good");
        let scene = Self { directory, credentials, made, now: Instant::now() };
        assert_eq!(scene.made(), Some((vec![vec![0, 0, 0]], "one".to_owned())));
        scene
    }

    fn write(&self, name: &str, content: &str) {
        fs::write(self.directory.join(name), content).expect("a file");
    }

    fn number(&mut self) -> u64 {
        self.now += LOOK_EVERY;
        self.credentials.current_at(self.now).0
    }

    fn made(&self) -> Option<(Vec<Vec<u8>>, String)> {
        self.made.try_recv().ok()
    }

    fn trouble(&self) -> Option<String> {
        let trouble = self.credentials.current.lock().expect("a lock").trouble.clone();
        trouble.map(|(text, _)| text.replace(&format!("{}/", self.directory.display()), ""))
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.directory);
    }
}

#[test]
fn files_that_change_are_read_again_within_a_second() {
    let mut scene = Scene::new();
    assert_eq!((scene.number(), scene.made()), (0, None));
    scene.write("token", "two\n");
    assert_eq!(scene.credentials.current_at(scene.now).0, 0, "the last look was a moment ago");
    assert_eq!((scene.number(), scene.made()), (1, Some((vec![vec![0, 0, 0]], "two".to_owned()))));
    scene.write("ca", CA_2);
    assert_eq!((scene.number(), scene.made()), (2, Some((vec![vec![4, 16, 65]], "two".to_owned()))));
    scene.write("ca", &format!("{CA}{CA_2}"));
    assert_eq!(scene.number(), 3);
    assert_eq!(scene.made().map(|(ca, _)| ca.len()), Some(2));
    assert_eq!((scene.number(), scene.made(), scene.trouble()), (3, None, None));
}

#[test]
fn a_bad_file_replaces_no_good_one_and_is_named_and_read_again() {
    let rows = [
        ("ca", "", "ca has no certificate (in PEM)"),
        ("ca", "AAAA", "ca has no certificate (in PEM)"),
        ("ca", &CA[..40], "a certificate in ca is cut off"),
        ("ca", &format!("{CA}{}", &CA_2[..40]), "a certificate in ca is cut off"),
        ("ca", &CA.replace("AAAA", "A!"), "a certificate in ca is cut off"),
        ("token", "", "token has no token"),
        ("token", "\n", "token has no token"),
        ("token", "two\nthree", "token has no token"),
        ("token", "zw\u{f6}lf", "token has no token"),
    ];
    for (name, content, expected) in rows {
        let mut scene = Scene::new();
        let good = fs::read_to_string(scene.directory.join(name)).expect("a file");
        scene.write(name, content);
        assert_eq!((scene.number(), scene.made()), (0, None), "{name}: {content:?}");
        let trouble = scene.trouble().unwrap_or_default();
        assert!(trouble.starts_with(expected), "{content:?}: {trouble}");
        scene.write(name, &good);
        assert_eq!((scene.number(), scene.trouble()), (0, None), "{name}: {content:?}");
        scene.write("token", "four");
        assert_eq!((scene.number(), scene.made().map(|(_, token)| token)), (1, Some("four".to_owned())));
    }
}

#[test]
fn a_file_that_is_gone_replaces_no_good_one_and_is_named_and_read_again() {
    let mut scene = Scene::new();
    fs::remove_file(scene.directory.join("token")).expect("it was there");
    assert_eq!((scene.number(), scene.made()), (0, None));
    assert!(scene.trouble().is_some_and(|trouble| trouble.starts_with("failed to read token")));
    scene.write("token", "two");
    assert_eq!((scene.number(), scene.trouble()), (1, None));
}

#[test]
fn trouble_is_logged_when_it_begins_and_once_a_minute() {
    let mut scene = Scene::new();
    let notified =
        |scene: &Scene| scene.credentials.current.lock().expect("a lock").trouble.clone().map(|it| it.1);
    scene.write("token", "");
    scene.number();
    let first = notified(&scene);
    assert_eq!(first, Some(scene.now));
    scene.number();
    assert_eq!(notified(&scene), first);
    scene.now += REMIND_EVERY;
    scene.number();
    assert_eq!(notified(&scene), Some(scene.now));
}
