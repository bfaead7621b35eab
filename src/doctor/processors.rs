//! The usable processors: online, allowed by the cpuset, and within the quota of the cgroup.

use std::fs;
use std::path::Path;
use std::thread;

use serde::Serialize;

use super::pinning::allowed_cores;

/// Mount point of the control groups on Linux.
const CGROUP_ROOT: &str = "/sys/fs/cgroup";

/// The processors of this machine and the share of them that this process gets.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Processors {
    /// Logical processors online in the machine; `None` where the system does not report them.
    pub online: Option<usize>,
    /// Logical processors that the cpuset and the affinity of this thread allow.
    pub allowed: Vec<usize>,
    /// CPU seconds a second that the cgroup pays for; `None` without a quota.
    pub quota: Option<f64>,
    /// Worker threads that make sense: allowed processors, limited by the quota, at least one.
    pub workers: usize,
}

impl Processors {
    /// Reads the processors from the operating system.
    ///
    /// Cost: a few small files. Unreadable values are reported as unknown or unlimited.
    ///
    /// # Example
    ///
    /// ```
    /// let processors = turnwheel::doctor::Processors::read();
    /// assert!(processors.workers >= 1);
    /// ```
    #[must_use]
    pub fn read() -> Self {
        let online = fs::read_to_string("/sys/devices/system/cpu/online").ok();
        let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        Self {
            online: online.and_then(|list| count_of_list(list.trim())),
            allowed: allowed_cores().into_iter().map(|core| core.id).collect(),
            quota: quota(Path::new(CGROUP_ROOT), &groups),
            workers: thread::available_parallelism().map_or(1, usize::from),
        }
    }
}

/// Number of processors in a list such as `0-3,8`; `None` for invalid lists.
fn count_of_list(list: &str) -> Option<usize> {
    let mut count = 0_usize;
    for range in list.split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last) = (first.parse::<usize>().ok()?, last.parse::<usize>().ok()?);
        count += last.checked_sub(first)? + 1;
    }
    Some(count)
}

/// The tightest CPU quota on the way from this process's control group to the root.
fn quota(root: &Path, groups: &str) -> Option<f64> {
    let mut tightest: Option<f64> = None;
    for line in groups.lines() {
        // A line is `number:controllers:/path`; number 0 without controllers is version 2.
        let mut fields = line.splitn(3, ':');
        let (Some(_), Some(controllers), Some(path)) =
            (fields.next(), fields.next(), fields.next())
        else {
            continue;
        };
        let is_version_2 = controllers.is_empty();
        let mount = if is_version_2 {
            root.to_path_buf()
        } else if controllers.split(',').any(|controller| controller == "cpu") {
            root.join(controllers)
        } else {
            continue;
        };
        for ancestor in Path::new(path.trim_start_matches('/')).ancestors() {
            let folder = mount.join(ancestor);
            let found = if is_version_2 { quota_v2(&folder) } else { quota_v1(&folder) };
            if let Some(found) = found {
                tightest = Some(tightest.map_or(found, |least| least.min(found)));
            }
        }
    }
    tightest
}

/// Quota of one version 2 group: `cpu.max` holds quota and period, or `max` for none.
fn quota_v2(folder: &Path) -> Option<f64> {
    let text = fs::read_to_string(folder.join("cpu.max")).ok()?;
    let mut fields = text.split_whitespace();
    share(fields.next()?, fields.next()?)
}

/// Quota of one version 1 group: two files, a quota of -1 for none.
fn quota_v1(folder: &Path) -> Option<f64> {
    let quota = fs::read_to_string(folder.join("cpu.cfs_quota_us")).ok()?;
    let period = fs::read_to_string(folder.join("cpu.cfs_period_us")).ok()?;
    share(quota.trim(), period.trim())
}

/// Quota over period; `None` without a limit or a number.
fn share(quota: &str, period: &str) -> Option<f64> {
    let quota = quota.parse::<f64>().ok()?;
    let period = period.parse::<f64>().ok()?;
    (quota > 0.0 && period > 0.0).then(|| quota / period)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder of made-up control groups that is removed at the end of the test.
    struct Fixture(std::path::PathBuf);

    impl Fixture {
        fn new(name: &str) -> Self {
            let folder = format!("turnwheel-processors-{}-{name}", std::process::id());
            let path = std::env::temp_dir().join(folder);
            fs::create_dir_all(&path).unwrap();
            Self(path)
        }

        fn write(&self, file: &str, text: &str) {
            let path = self.0.join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
    }

    impl Drop for Fixture {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn lists_of_processors_are_counted() {
        assert_eq!(count_of_list("0"), Some(1));
        assert_eq!(count_of_list("0-3,8,10-11"), Some(7));
        assert_eq!(count_of_list("3-1"), None);
        assert_eq!(count_of_list("none"), None);
    }

    #[test]
    fn the_tightest_ancestor_decides_in_version_2() {
        let fixture = Fixture::new("v2");
        fixture.write("a/cpu.max", "150000 100000\n");
        fixture.write("a/b/cpu.max", "max 100000\n");
        fixture.write("a/b/c/cpu.max", "400000 100000\n");
        assert_eq!(quota(&fixture.0, "0::/a/b/c\n"), Some(1.5));
    }

    #[test]
    fn version_1_is_read_from_its_controller() {
        let fixture = Fixture::new("v1");
        fixture.write("cpu,cpuacct/x/cpu.cfs_quota_us", "50000\n");
        fixture.write("cpu,cpuacct/x/cpu.cfs_period_us", "100000\n");
        fixture.write("cpu,cpuacct/cpu.cfs_quota_us", "-1\n");
        fixture.write("cpu,cpuacct/cpu.cfs_period_us", "100000\n");
        assert_eq!(quota(&fixture.0, "4:memory:/x\n3:cpu,cpuacct:/x\n"), Some(0.5));
    }

    #[test]
    fn without_a_group_there_is_no_quota() {
        let fixture = Fixture::new("none");
        assert_eq!(quota(&fixture.0, ""), None);
        assert_eq!(quota(&fixture.0, "0::/\nrubbish\n"), None);
    }
}
