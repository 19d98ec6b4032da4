// The least of a machine that a static Linux program of one thread needs: for kernels_test under
// Bochs, which has the instructions of AVX-512 that processors at hand lack. Everything is in ring
// 0 at its own address. What the program writes goes to the first serial port.
#include <elf.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>

void Start(uint64_t entry, uint64_t stack);

static void Out(uint16_t port, uint8_t byte) {
  __asm__ volatile("outb %0, %1" ::"a"(byte), "Nd"(port));
}
static uint8_t In(uint16_t port) {
  uint8_t byte;
  __asm__ volatile("inb %1, %0" : "=a"(byte) : "Nd"(port));
  return byte;
}

static void Write(const char* text, size_t size) {
  for (size_t i = 0; i < size; ++i) {
    while ((In(0x3F8 + 5) & 0x20) == 0) {
    }
    Out(0x3F8, (uint8_t)text[i]);
  }
}

static void WriteText(const char* text) {
  size_t size = 0;
  while (text[size] != 0) ++size;
  Write(text, size);
}

static void WriteNumber(uint64_t number) {
  char digits[20];
  size_t i = sizeof digits;
  do {
    digits[--i] = (char)('0' + number % 10);
    number /= 10;
  } while (number > 0);
  Write(digits + i, sizeof digits - i);
}

// Bochs ends on this word; not before everything was sent.
__attribute__((noreturn)) static void End(void) {
  while ((In(0x3F8 + 5) & 0x40) == 0) {
  }
  for (const char* c = "Shutdown"; *c != 0; ++c) Out(0x8900, (uint8_t)*c);
  for (;;) __asm__ volatile("hlt");
}

void* memcpy(void* to, const void* from, size_t size) {
  void* const result = to;
  __asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(size)::"memory");
  return result;
}

void* memset(void* to, int value, size_t size) {
  void* const result = to;
  __asm__ volatile("rep stosb" : "+D"(to), "+c"(size) : "a"(value) : "memory");
  return result;
}

// ---- System calls ----

// As machine.S pushes them.
struct Arguments {
  uint64_t r9, r8, r10, rdx, rsi, rdi, rcx, r11;
};

struct Piece {
  const char* data;
  size_t size;
};

static uint64_t heap, heap_end, program_break;

static int64_t Map(const struct Arguments* a) {
  const uint64_t anonymous = 0x20, size = (a->rsi + 4095) & ~4095ull;
  if ((a->r10 & anonymous) == 0) return -38;
  if (size > heap_end - heap) return -12;
  heap_end -= size;
  memset((void*)heap_end, 0, size);
  return (int64_t)heap_end;
}

static int64_t Break(uint64_t wanted) {
  if (wanted >= program_break && wanted < heap) program_break = wanted;
  return (int64_t)program_break;
}

static int64_t Time(uint64_t* time) {
  static uint64_t calls;
  time[0] = 1;
  time[1] = ++calls;
  return 0;
}

int64_t SystemCall(const struct Arguments* a, uint64_t number) {
  switch (number) {
    case SYS_write:
      Write((const char*)a->rsi, a->rdx);
      return (int64_t)a->rdx;
    case SYS_writev: {
      const struct Piece* const pieces = (const struct Piece*)a->rsi;
      size_t size = 0;
      for (uint64_t i = 0; i < a->rdx; ++i) {
        Write(pieces[i].data, pieces[i].size);
        size += pieces[i].size;
      }
      return (int64_t)size;
    }
    case SYS_getcwd:
      memcpy((char*)a->rdi, "/", 2);
      return 2;
    case SYS_brk:
      return Break(a->rdi);
    case SYS_mmap:
      return Map(a);
    case SYS_clock_gettime:
      return Time((uint64_t*)a->rsi);
    case SYS_gettimeofday:
      return Time((uint64_t*)a->rdi);
    case SYS_arch_prctl:
      if (a->rdi != 0x1002) return -22;  // ARCH_SET_FS
      __asm__ volatile("wrmsr" ::"c"(0xC0000100), "a"((uint32_t)a->rsi),
                       "d"((uint32_t)(a->rsi >> 32)));
      return 0;
    case SYS_munmap:
    case SYS_mprotect:
    case SYS_madvise:
    case SYS_rt_sigaction:
    case SYS_rt_sigprocmask:
    case SYS_set_robust_list:
    case SYS_futex:
      return 0;
    case SYS_getpid:
    case SYS_gettid:
    case SYS_set_tid_address:
      return 1;
    case SYS_tgkill:  // abort
      WriteText("signal ");
      WriteNumber(a->rdx);
      WriteText("\n");
      End();
    case SYS_exit:
    case SYS_exit_group:
      WriteText("exit status ");
      WriteNumber(a->rdi);
      WriteText("\n");
      End();
    default:
      return -38;  // ENOSYS
  }
}

// ---- The program: GRUB's first module, its command line as arguments ----

struct Module {
  uint32_t begin, end, command_line, reserved;
};
struct Multiboot {
  uint32_t flags, memory_low, memory_high, boot_device, command_line, num_modules, modules;
};

static uint64_t* Push(uint64_t* words, uint64_t a, uint64_t b) {
  *words++ = a;
  *words++ = b;
  return words;
}

void Run(const struct Multiboot* boot) {
  Out(0x3F8 + 3, 0x03);  // 8 bits
  const struct Module* const module = (const struct Module*)(uintptr_t)boot->modules;
  const char* const file = (const char*)(uintptr_t)module->begin;
  const Elf64_Ehdr* const header = (const Elf64_Ehdr*)file;
  const Elf64_Phdr* const parts = (const Elf64_Phdr*)(file + header->e_phoff);
  uint64_t headers = 0, end = 0;
  for (int i = 0; i < header->e_phnum; ++i) {
    const Elf64_Phdr* const part = &parts[i];
    if (part->p_type != PT_LOAD) continue;
    memcpy((void*)part->p_vaddr, file + part->p_offset, part->p_filesz);
    memset((char*)part->p_vaddr + part->p_filesz, 0, part->p_memsz - part->p_filesz);
    if (part->p_offset == 0) headers = part->p_vaddr + header->e_phoff;
    if (part->p_vaddr + part->p_memsz > end) end = part->p_vaddr + part->p_memsz;
  }
  // Above the program: 64 MiB for brk, then maps from the top down, then its stack.
  const uint64_t stack_size = 8 << 20;
  const uint64_t top = (uint64_t)boot->memory_high * 1024;  // a MiB less than there is
  program_break = (end + 4095) & ~4095ull;
  heap = program_break + (64 << 20);
  heap_end = (top - stack_size) & ~4095ull;

  static char line[1024];
  static uint64_t words[128];
  size_t size = 0;
  const char* const arguments = (const char*)(uintptr_t)module->command_line;
  while (size + 1 < sizeof line && arguments[size] != 0) ++size;
  memcpy(line, arguments, size);
  uint64_t* word = words + 1;
  for (size_t i = 0; i < size; ++i) {
    if (line[i] == ' ') {
      line[i] = 0;
    } else if (i == 0 || line[i - 1] == 0) {
      *word++ = (uint64_t)&line[i];
      ++words[0];
    }
  }
  word = Push(word, 0, 0);  // no environment
  static const uint64_t random[2] = {0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9};
  word = Push(word, 3 /* AT_PHDR */, headers);
  word = Push(word, 4 /* AT_PHENT */, sizeof(Elf64_Phdr));
  word = Push(word, 5 /* AT_PHNUM */, header->e_phnum);
  word = Push(word, 6 /* AT_PAGESZ */, 4096);
  word = Push(word, 25 /* AT_RANDOM */, (uint64_t)random);
  word = Push(word, 0, 0);
  const size_t bytes = (size_t)((char*)word - (char*)words);
  const uint64_t stack = (top - bytes - 64) & ~63ull;
  memcpy((void*)stack, words, bytes);
  Start(header->e_entry, stack);
}
