//! Makes a team and sets its options, as `teamd` does: by generic netlink.

use std::io;

use anyhow::{Context, Result, bail};
use rtnetlink::packet_route::link::InfoKind;
use rtnetlink::sys::{Socket, SocketAddr, protocols::NETLINK_GENERIC};
use rtnetlink::{LinkMessageBuilder, LinkUnspec};

use super::netns::NetNs;

// From <linux/netlink.h>, <linux/genetlink.h> and <linux/if_team.h>.
const NLMSG_ERROR: u16 = 2;
const NLM_F_REQUEST: u16 = 1;
const NLM_F_ACK: u16 = 4;
const NLA_F_NESTED: u16 = 1 << 15;
const GENL_ID_CTRL: u16 = 0x10;
const CTRL_CMD_GETFAMILY: u8 = 3;
const CTRL_ATTR_FAMILY_ID: u16 = 1;
const CTRL_ATTR_FAMILY_NAME: u16 = 2;
const TEAM_CMD_OPTIONS_SET: u8 = 1;
const TEAM_ATTR_TEAM_IFINDEX: u16 = 1;
const TEAM_ATTR_LIST_OPTION: u16 = 2;
const TEAM_ATTR_ITEM_OPTION: u16 = 1;
const TEAM_ATTR_OPTION_NAME: u16 = 1;
const TEAM_ATTR_OPTION_TYPE: u16 = 3;
const TEAM_ATTR_OPTION_DATA: u16 = 4;
const TEAM_ATTR_OPTION_PORT_IFINDEX: u16 = 6;
/// Length of a netlink header and a generic one.
const HEADERS_LEN: usize = 20;

/// Value of an option, with the kernel's internal number of its type.
enum Setting<'a> {
    Number(u32),
    Text(&'a str),
    Flag(bool),
}

impl Setting<'_> {
    fn attributes(&self) -> Vec<u8> {
        let (kind, data) = match self {
            Self::Number(number) => (3, Some(number.to_ne_bytes().to_vec())),
            Self::Text(text) => (5, Some(with_nul(text))),
            // A flag without data is false.
            Self::Flag(flag) => (6, flag.then(Vec::new)),
        };
        let mut bytes = attribute(TEAM_ATTR_OPTION_TYPE, &[kind]);
        bytes.extend(data.into_iter().flat_map(|data| attribute(TEAM_ATTR_OPTION_DATA, &data)));
        bytes
    }
}

impl NetNs {
    /// Makes a team of this mode, such as `roundrobin`. The kernel announces its addresses once when a
    /// port is enabled.
    pub fn add_team(&self, name: &str, mode: &str) -> Result<()> {
        let team = LinkMessageBuilder::<LinkUnspec>::new_with_info_kind(InfoKind::Team);
        let team = team.name(name.to_owned()).build();
        self.netlink(async |handle| handle.link().add(team).execute().await)
            .with_context(|| format!("failed to make team {name}"))?;
        self.set_team_option(name, "mode", None, &Setting::Text(mode))?;
        self.set_team_option(name, "notify_peers_count", None, &Setting::Number(1))
    }

    /// Makes `to` the active port of a team in mode `activebackup`, instead of `from`.
    pub fn fail_team_over(&self, team: &str, from: &str, to: &str) -> Result<()> {
        let port = self.link(to)?.index;
        self.set_team_option(team, "enabled", Some(from), &Setting::Flag(false))?;
        self.set_team_option(team, "activeport", None, &Setting::Number(port))?;
        self.set_team_option(team, "enabled", Some(to), &Setting::Flag(true))
    }

    fn set_team_option(&self, team: &str, name: &str, port: Option<&str>, setting: &Setting) -> Result<()> {
        let mut option = attribute(TEAM_ATTR_OPTION_NAME, &with_nul(name));
        option.extend(setting.attributes());
        if let Some(port) = port {
            option.extend(attribute(TEAM_ATTR_OPTION_PORT_IFINDEX, &self.link(port)?.index.to_ne_bytes()));
        }
        let list = attribute(TEAM_ATTR_ITEM_OPTION | NLA_F_NESTED, &option);
        let mut attributes = attribute(TEAM_ATTR_TEAM_IFINDEX, &self.link(team)?.index.to_ne_bytes());
        attributes.extend(attribute(TEAM_ATTR_LIST_OPTION | NLA_F_NESTED, &list));
        self.run(|| exchange(team_family()?, TEAM_CMD_OPTIONS_SET, NLM_F_ACK, &attributes))
            .with_context(|| format!("failed to set {name} of team {team}"))?;
        Ok(())
    }
}

/// Returns the number that the kernel has given to teams.
fn team_family() -> Result<u16> {
    let name = attribute(CTRL_ATTR_FAMILY_NAME, &with_nul("team"));
    let answer = exchange(GENL_ID_CTRL, CTRL_CMD_GETFAMILY, 0, &name)?;
    let mut rest = answer.get(HEADERS_LEN..).unwrap_or_default();
    while let [a, b, c, d, ..] = *rest {
        let length = usize::from(u16::from_ne_bytes([a, b])).max(4);
        if u16::from_ne_bytes([c, d]) == CTRL_ATTR_FAMILY_ID
            && let Some(&[low, high]) = rest.get(4..6)
        {
            return Ok(u16::from_ne_bytes([low, high]));
        }
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    bail!("the kernel has no teams")
}

/// Sends a command of a family, and returns the answer.
fn exchange(family: u16, command: u8, flags: u16, attributes: &[u8]) -> Result<Vec<u8>> {
    let length = u32::try_from(HEADERS_LEN + attributes.len())?;
    let mut request = length.to_ne_bytes().to_vec();
    request.extend([family.to_ne_bytes(), (NLM_F_REQUEST | flags).to_ne_bytes()].concat());
    // Sequence number and port number.
    request.extend([0; 8]);
    request.extend([command, 1, 0, 0]);
    request.extend(attributes);
    let socket = Socket::new(NETLINK_GENERIC).context("failed to open a netlink socket")?;
    socket.send_to(&request, &SocketAddr::new(0, 0), 0).context("failed to send a request")?;
    let (answer, _) = socket.recv_from_full().context("failed to receive an answer")?;
    let kind = answer.get(4..6).map(|kind| u16::from_ne_bytes([kind[0], kind[1]]));
    let errno = answer.get(16..20).map(|errno| i32::from_ne_bytes([errno[0], errno[1], errno[2], errno[3]]));
    match (kind, errno) {
        // The kernel has set the option, and found no listener for its notification.
        (Some(NLMSG_ERROR), Some(errno)) if errno == -libc::ESRCH => Ok(answer),
        (Some(NLMSG_ERROR), Some(errno)) if errno != 0 => {
            Err(io::Error::from_raw_os_error(errno.saturating_neg())).context("the kernel refused")
        }
        _ => Ok(answer),
    }
}

fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
    let length = u16::try_from(value.len() + 4).expect("invariant: attributes here are short");
    let mut bytes = [length.to_ne_bytes(), kind.to_ne_bytes()].concat();
    bytes.extend(value);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

fn with_nul(text: &str) -> Vec<u8> {
    [text.as_bytes(), &[0]].concat()
}
