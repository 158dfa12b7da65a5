//! Certificates of a server.

use std::sync::Arc;

use anyhow::{Context, Result};
use rustls::ServerConfig;
use rustls::crypto::ring::default_provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// A certificate for 198.51.100.1, and its key, which protects nothing. It is its own CA.
pub const FIRST: &str = "\
-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgAziNiRegvRNV2fLu
OeOAkVESeXITSLvxH2JOvmCRlV+hRANCAATWzHK26oBpfiKtsDiBU9oxaj2FyeLR
tDFFrU/GYFALzC4SxGxL95U3JaFZJxGcXUJLdGzQE10astk/fszZsc8g
-----END PRIVATE KEY-----
-----BEGIN CERTIFICATE-----
MIIBMDCB2KADAgECAgEBMAoGCCqGSM49BAMCMBcxFTATBgNVBAMMDGFwaSBzZXJ2
ZXIgMTAgFw0yMDAxMDEwMDAwMDBaGA8yMTIwMDEwMTAwMDAwMFowFzEVMBMGA1UE
AwwMYXBpIHNlcnZlciAxMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE1sxytuqA
aX4irbA4gVPaMWo9hcni0bQxRa1PxmBQC8wuEsRsS/eVNyWhWScRnF1CS3Rs0BNd
GrLZP37M2bHPIKMTMBEwDwYDVR0RBAgwBocExjNkATAKBggqhkjOPQQDAgNHADBE
AiBaDg58MFEUPtetdqsPzGSjsACV1tx1Jpdicx9Z75DPrwIgc1YhWZ8UNOE9n2mB
KBHwLzMjFRbIoiwsZetqXpPgmC0=
-----END CERTIFICATE-----
";
/// Another one.
pub const SECOND: &str = "\
-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgk2uigrpdiY8yWp+5
FrE/a7Lg1Bx0UuV5P6IeoMim6bWhRANCAATAsKKgrKeZe+K7qSV3YsGXV0mayi/e
tMo5CuW8Yp3Qr6Mlb+xw/J9LmEYam+9t72EI+yhpYCFPjwv9/DVyv31N
-----END PRIVATE KEY-----
-----BEGIN CERTIFICATE-----
MIIBMDCB2KADAgECAgECMAoGCCqGSM49BAMCMBcxFTATBgNVBAMMDGFwaSBzZXJ2
ZXIgMjAgFw0yMDAxMDEwMDAwMDBaGA8yMTIwMDEwMTAwMDAwMFowFzEVMBMGA1UE
AwwMYXBpIHNlcnZlciAyMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEwLCioKyn
mXviu6kld2LBl1dJmsov3rTKOQrlvGKd0K+jJW/scPyfS5hGGpvvbe9hCPsoaWAh
T48L/fw1cr99TaMTMBEwDwYDVR0RBAgwBocExjNkATAKBggqhkjOPQQDAgNHADBE
AiAGk+ukJ18MvVbe3s0zXsEZVu6X2TPvt8zgGMLsmvzk+wIge84XEakJ5oh9q58q
pnw+DB4Obvn/eXzB9m0Y6uz3XZQ=
-----END CERTIFICATE-----
";

/// Returns the certificate in `pem` without its key.
pub fn certificate_in(pem: &str) -> &str {
    &pem[pem.find("-----BEGIN CERTIFICATE").unwrap_or_default()..]
}

/// Returns the settings of a server with the certificate and the key in `pem`.
pub fn with_certificate(pem: &[u8]) -> Result<Arc<ServerConfig>> {
    let certificate = CertificateDer::from_pem_slice(pem).context("failed to read the certificate")?;
    let key = PrivateKeyDer::from_pem_slice(pem).context("failed to read the key")?;
    let config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)?;
    Ok(Arc::new(config))
}
