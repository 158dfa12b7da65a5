//! Reports of problems: each when it begins, and when it is over.

use std::collections::BTreeMap;

use super::super::{Command, Problem};
use crate::records::ServiceName;

pub(super) fn notify_change(
    service: &ServiceName,
    notified: Vec<Problem>,
    now: &[Problem],
    commands: &mut Vec<Command>,
) {
    let new: Vec<_> = now.iter().filter(|problem| !notified.contains(problem)).cloned().collect();
    let over = notified.into_iter().filter(|problem| !now.contains(problem));
    commands.extend(over.map(|problem| Command::ProblemOver { service: service.clone(), problem }));
    commands.extend(new.into_iter().map(|problem| Command::Report { service: service.clone(), problem }));
}

pub(super) fn notify_changes(
    notified: &[(ServiceName, Problem)],
    now: &[(ServiceName, Problem)],
    commands: &mut Vec<Command>,
) {
    let (were, are) = (by_service(notified), by_service(now));
    let none = Vec::new();
    for (service, problems) in &were {
        let now = are.get(service).unwrap_or(&none);
        let over = problems.iter().filter(|problem| !now.contains(problem)).copied().cloned();
        commands.extend(over.map(|problem| Command::ProblemOver { service: (*service).clone(), problem }));
    }
    for (service, problems) in &are {
        let notified = were.get(service).unwrap_or(&none);
        let new = problems.iter().filter(|problem| !notified.contains(problem)).copied().cloned();
        commands.extend(new.map(|problem| Command::Report { service: (*service).clone(), problem }));
    }
}

fn by_service(problems: &[(ServiceName, Problem)]) -> BTreeMap<&ServiceName, Vec<&Problem>> {
    let mut all = BTreeMap::<_, Vec<_>>::new();
    for (service, problem) in problems {
        all.entry(service).or_default().push(problem);
    }
    all
}
