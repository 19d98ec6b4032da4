#include "kernels/process_limits.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <numeric>

namespace lectern {
namespace {

namespace fs = std::filesystem;

// A folder with made /proc and /sys, so that nothing depends on the machine that runs the test.
class ProcessLimitsTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string path = (fs::temp_directory_path() / "lectern-limits-XXXXXX").string();
    ASSERT_NE(mkdtemp(path.data()), nullptr);
    root_ = path;
  }
  void TearDown() override { fs::remove_all(root_); }

  void Write(const std::string& path, const std::string& text) {
    const fs::path file = root_ + path;
    fs::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }

  // Version 2 alone, mounted in the usual place.
  void MakeV2(const std::string& group, const std::string& mount_root = "/") {
    Write("/proc/self/cgroup", "0::" + group + "\n");
    Write("/proc/self/mountinfo", "22 1 8:1 / / rw - ext4 /dev/sda1 rw\n30 22 0:26 " + mount_root +
                                      " /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw\n");
  }

  // Version 1 as Docker shows it in a container: each hierarchy begins at the container's group,
  // whose path is that of the host.
  void MakeV1InContainer() {
    Write("/proc/self/cgroup",
          "9:memory:/docker/c0ffee\n4:cpu,cpuacct:/docker/c0ffee\n1:name=systemd:/docker/c0ffee\n");
    Write("/proc/self/mountinfo",
          "31 30 0:27 /docker/c0ffee /sys/fs/cgroup/cpu,cpuacct ro - cgroup cgroup rw,cpu,cpuacct\n"
          "32 30 0:28 /docker/c0ffee /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n");
  }

  // `threads_of_core` CPUs of each of `cores` cores.
  std::vector<int> MakeCpus(int cores, int threads_of_core = 1) {
    std::vector<int> cpus(static_cast<size_t>(cores * threads_of_core));
    std::iota(cpus.begin(), cpus.end(), 0);
    for (const int cpu : cpus) {
      const std::string topology =
          "/sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/topology/";
      Write(topology + "core_id", std::to_string(cpu % cores) + "\n");
      Write(topology + "physical_package_id", "0\n");
    }
    return cpus;
  }

  std::string root_;
};

TEST_F(ProcessLimitsTest, NothingIsLimitedWithoutControlGroups) {
  EXPECT_EQ(GroupCores(root_), std::nullopt);
  EXPECT_EQ(GroupMemoryBytes(root_), std::nullopt);
  EXPECT_EQ(UsableCores(MakeCpus(8), root_), 8u);
}

TEST_F(ProcessLimitsTest, Version2) {
  MakeV2("/");
  Write("/sys/fs/cgroup/cpu.max", "250000 100000\n");
  Write("/sys/fs/cgroup/memory.max", "536870912\n");
  EXPECT_EQ(GroupCores(root_), 2.5);
  EXPECT_EQ(GroupMemoryBytes(root_), 536870912u);
  EXPECT_EQ(UsableCores(MakeCpus(8), root_), 2u);  // rounded down
}

TEST_F(ProcessLimitsTest, MaxIsNoLimit) {
  MakeV2("/a");
  Write("/sys/fs/cgroup/a/cpu.max", "max 100000\n");
  Write("/sys/fs/cgroup/a/memory.max", "max\n");
  Write("/sys/fs/cgroup/a/memory.high", "max\n");
  EXPECT_EQ(GroupCores(root_), std::nullopt);
  EXPECT_EQ(GroupMemoryBytes(root_), std::nullopt);
}

TEST_F(ProcessLimitsTest, TheLeastOfTheGroupsAboveCounts) {
  MakeV2("/pods/pod1/box");
  Write("/sys/fs/cgroup/pods/pod1/box/cpu.max", "800000 100000\n");
  Write("/sys/fs/cgroup/pods/pod1/cpu.max", "300000 100000\n");
  Write("/sys/fs/cgroup/pods/cpu.max", "max 100000\n");
  Write("/sys/fs/cgroup/pods/pod1/box/memory.max", "max\n");
  Write("/sys/fs/cgroup/pods/pod1/memory.max", "2000000000\n");
  Write("/sys/fs/cgroup/pods/memory.max", "1000000000\n");
  EXPECT_EQ(GroupCores(root_), 3.0);
  EXPECT_EQ(GroupMemoryBytes(root_), 1000000000u);
}

TEST_F(ProcessLimitsTest, MemoryHighIsALimit) {
  MakeV2("/a");
  Write("/sys/fs/cgroup/a/memory.max", "2000000000\n");
  Write("/sys/fs/cgroup/a/memory.high", "1500000000\n");
  EXPECT_EQ(GroupMemoryBytes(root_), 1500000000u);
}

TEST_F(ProcessLimitsTest, ATinyQuotaIsOneThread) {
  MakeV2("/");
  Write("/sys/fs/cgroup/cpu.max", "20000 100000\n");
  EXPECT_EQ(UsableCores(MakeCpus(8), root_), 1u);
}

TEST_F(ProcessLimitsTest, AQuotaOfMoreThanTheAffinityChangesNothing) {
  MakeV2("/");
  Write("/sys/fs/cgroup/cpu.max", "6400000 100000\n");
  EXPECT_EQ(UsableCores(MakeCpus(4), root_), 4u);
  EXPECT_EQ(UsableCores({2}, root_), 1u);
}

TEST_F(ProcessLimitsTest, Version1InAContainer) {
  MakeV1InContainer();
  Write("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "150000\n");
  Write("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "50000\n");
  Write("/sys/fs/cgroup/memory/memory.limit_in_bytes", "268435456\n");
  EXPECT_EQ(GroupCores(root_), 3.0);
  EXPECT_EQ(GroupMemoryBytes(root_), 268435456u);
  EXPECT_EQ(UsableCores(MakeCpus(8), root_), 3u);
}

TEST_F(ProcessLimitsTest, Version1WithoutLimits) {
  MakeV1InContainer();
  Write("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "-1\n");
  Write("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n");
  Write("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  EXPECT_EQ(GroupCores(root_), std::nullopt);
  EXPECT_EQ(GroupMemoryBytes(root_), std::nullopt);
}

TEST_F(ProcessLimitsTest, Version1OnTheHostLooksAtAllGroupsAbove) {
  Write("/proc/self/cgroup", "9:memory:/slurm/job7/step0\n4:cpu,cpuacct:/slurm/job7\n");
  Write("/proc/self/mountinfo",
        "31 30 0:27 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"
        "32 30 0:28 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n");
  Write("/sys/fs/cgroup/cpu,cpuacct/slurm/job7/cpu.cfs_quota_us", "400000\n");
  Write("/sys/fs/cgroup/cpu,cpuacct/slurm/job7/cpu.cfs_period_us", "100000\n");
  Write("/sys/fs/cgroup/memory/slurm/job7/step0/memory.limit_in_bytes", "9223372036854771712\n");
  Write("/sys/fs/cgroup/memory/slurm/job7/memory.limit_in_bytes", "4000000000\n");
  EXPECT_EQ(GroupCores(root_), 4.0);
  EXPECT_EQ(GroupMemoryBytes(root_), 4000000000u);
}

TEST_F(ProcessLimitsTest, Version1TellsOfGroupsThatAreNotShown) {
  MakeV1InContainer();
  Write("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  Write("/sys/fs/cgroup/memory/memory.stat",
        "cache 4096\nhierarchical_memory_limit 3000000\nhierarchical_memsw_limit 12\n");
  EXPECT_EQ(GroupMemoryBytes(root_), 3000000u);
}

TEST_F(ProcessLimitsTest, PlansLeaveSomeOfTheGroupsMemoryToTheProgram) {
  MakeV2("/");
  Write("/proc/meminfo", "MemTotal:       16000000 kB\nMemFree:        1 kB\n");
  EXPECT_EQ(PlannedMemoryBytes(root_), std::nullopt);
  Write("/sys/fs/cgroup/memory.max", "800000000\n");
  EXPECT_EQ(PlannedMemoryBytes(root_), 700000000u);
  Write("/sys/fs/cgroup/memory.max", "16384000000\n");  // all that there is
  EXPECT_EQ(PlannedMemoryBytes(root_), std::nullopt);
}

TEST_F(ProcessLimitsTest, AvailableMemoryIsTheSystemsEstimateWithinWhatTheGroupHasLeft) {
  EXPECT_EQ(AvailableMemoryBytes(root_), std::nullopt);
  MakeV2("/");
  Write("/proc/meminfo", "MemTotal:       16000000 kB\nMemFree:        1 kB\n");
  EXPECT_EQ(AvailableMemoryBytes(root_), std::nullopt);
  Write("/proc/meminfo", "MemTotal:       16000000 kB\nMemFree:  1 kB\nMemAvailable:  5000 kB\n");
  EXPECT_EQ(AvailableMemoryBytes(root_), 5120000u);
  Write("/sys/fs/cgroup/memory.max", "800000\n");
  EXPECT_EQ(AvailableMemoryBytes(root_), 800000u);
  Write("/sys/fs/cgroup/memory.current", "500000\n");
  EXPECT_EQ(AvailableMemoryBytes(root_), 300000u);
  Write("/sys/fs/cgroup/memory.stat", "anon 300000\nfile 200000\nkernel 0\n");
  EXPECT_EQ(AvailableMemoryBytes(root_), 500000u);
  Write("/sys/fs/cgroup/memory.current", "1200000\n");  // just above a limit that was lowered
  EXPECT_EQ(AvailableMemoryBytes(root_), 0u);
}

// systemd's hybrid layout: version 2 without controllers beside version 1.
TEST_F(ProcessLimitsTest, BothVersionsBesideEachOther) {
  Write("/proc/self/cgroup", "9:memory:/a\n4:cpu,cpuacct:/a\n0::/a\n");
  Write("/proc/self/mountinfo",
        "30 22 0:26 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n"
        "31 30 0:27 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"
        "32 30 0:28 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n");
  Write("/sys/fs/cgroup/unified/a/cgroup.procs", "1\n");
  Write("/sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_quota_us", "200000\n");
  Write("/sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_period_us", "100000\n");
  Write("/sys/fs/cgroup/memory/a/memory.limit_in_bytes", "1000000\n");
  EXPECT_EQ(GroupCores(root_), 2.0);
  EXPECT_EQ(GroupMemoryBytes(root_), 1000000u);
}

// In a group's own namespace a process of another place sees "/../other".
TEST_F(ProcessLimitsTest, AGroupOutsideOfWhatIsShownCountsAsTheRoot) {
  for (const char* const group : {"/../other", "/elsewhere/box"}) {
    MakeV2(group, group[1] == '.' ? "/" : "/docker/c0ffee");
    Write("/sys/fs/cgroup/cpu.max", "200000 100000\n");
    Write("/other/cpu.max", "100000 100000\n");
    EXPECT_EQ(GroupCores(root_), 2.0) << group;
  }
}

TEST_F(ProcessLimitsTest, AMountPointMayHaveSpaces) {
  Write("/proc/self/cgroup", "0::/\n");
  Write("/proc/self/mountinfo", "30 22 0:26 / /my\\040groups rw - cgroup2 cgroup2 rw\n");
  Write("/my groups/cpu.max", "200000 100000\n");
  EXPECT_EQ(GroupCores(root_), 2.0);
}

TEST_F(ProcessLimitsTest, NonsenseSetsNoLimit) {
  MakeV2("/");
  for (const char* const text : {"", "x y", "-5 100000", "100000 0", "100000", "1e5 100000"}) {
    Write("/sys/fs/cgroup/cpu.max", text);
    EXPECT_EQ(GroupCores(root_), std::nullopt) << text;
  }
  for (const char* const text : {"", "many", "-1", "99999999999999999999"}) {
    Write("/sys/fs/cgroup/memory.max", text);
    EXPECT_EQ(GroupMemoryBytes(root_), std::nullopt) << text;
  }
  Write("/proc/self/mountinfo", "30 22\n - cgroup2\n30 22 0:26 / /sys/fs/cgroup rw - cgroup2\n");
  Write("/proc/self/cgroup", "nothing\n0:\n");
  EXPECT_EQ(GroupCores(root_), std::nullopt);
}

TEST_F(ProcessLimitsTest, HyperthreadsShareACore) {
  const std::vector<int> cpus = MakeCpus(4, 2);
  EXPECT_EQ(PhysicalCores(cpus, root_), 4u);
  EXPECT_EQ(PhysicalCores({0, 4}, root_), 1u);
  EXPECT_EQ(PhysicalCores({0, 1, 4, 90, 91}, root_), 4u);  // the last two are not described
}

TEST(ThisProcessLimitsTest, HasACore) {
  EXPECT_FALSE(AllowedCpus().empty());
  EXPECT_GE(UsableCores(AllowedCpus()), 1u);
  EXPECT_LE(UsableCores(AllowedCpus()), AllowedCpus().size());
}

}  // namespace
}  // namespace lectern
