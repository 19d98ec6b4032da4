// From GRUB (32 bits, no paging) to Run() in 64 bits with AVX-512 on, and the way of a system call.
  .set MAGIC, 0x1BADB002
  .set FLAGS, 0x00000003  // modules on page boundaries, and how much memory there is

  .section .multiboot, "a"
  .align 4
  .long MAGIC, FLAGS, -(MAGIC + FLAGS)

  .section .bss
  .align 4096
tables:  // of pages: 4 GiB at their own addresses
  .skip 6 * 4096
  .align 16
  .skip 1 << 16
stack_end:
caller_stack:
  .skip 8

  .section .rodata
  .align 8
gdt:
  .quad 0
  .quad 0x00AF9A000000FFFF  // code of 64 bits
  .quad 0x00CF92000000FFFF  // data
gdt_end:
gdt_place:
  .word gdt_end - gdt - 1
  .quad gdt

  .text
  .code32
  .global _start
_start:
  mov $stack_end, %esp
  mov %ebx, %ebp  // what GRUB tells
  // Four tables of 512 pages of 2 MiB.
  mov $tables, %edi
  lea 0x1003(%edi), %eax
  mov %eax, (%edi)
  lea 0x2003(%edi), %eax
  lea 0x1000(%edi), %ecx
  mov %eax, (%ecx)
  add $0x1000, %eax
  mov %eax, 8(%ecx)
  add $0x1000, %eax
  mov %eax, 16(%ecx)
  add $0x1000, %eax
  mov %eax, 24(%ecx)
  lea 0x2000(%edi), %ecx
  mov $0x83, %eax
1:
  mov %eax, (%ecx)
  movl $0, 4(%ecx)
  add $8, %ecx
  add $0x200000, %eax
  jnc 1b

  mov %edi, %cr3
  mov %cr4, %eax
  or $0x40620, %eax  // PAE, FXSR, XMMEXCPT, OSXSAVE
  mov %eax, %cr4
  mov $0xC0000080, %ecx  // EFER: long mode, syscall
  rdmsr
  or $0x101, %eax
  wrmsr
  mov %cr0, %eax
  and $0xFFFFFFFB, %eax  // no EM
  or $0x80000022, %eax   // PG, NE, MP
  mov %eax, %cr0
  lgdt gdt_place
  ljmp $0x08, $long_mode

  .code64
long_mode:
  mov $0x10, %eax
  mov %eax, %ds
  mov %eax, %es
  mov %eax, %ss
  xor %eax, %eax
  mov %eax, %fs
  mov %eax, %gs
  xor %ecx, %ecx
  xor %edx, %edx
  mov $0xE7, %eax  // x87, SSE, AVX, masks, both halves of ZMM
  xsetbv
  fninit
  mov $0xC0000081, %ecx  // STAR: the code that syscall enters
  xor %eax, %eax
  mov $0x08, %edx
  wrmsr
  mov $0xC0000082, %ecx  // LSTAR
  mov $enter, %eax
  xor %edx, %edx
  wrmsr
  mov $0xC0000084, %ecx  // no flags are masked
  xor %eax, %eax
  wrmsr
  mov %ebp, %edi
  call Run
  hlt

// The program runs in ring 0 too, with a red zone under its stack.
enter:
  mov %rsp, caller_stack
  mov $stack_end, %rsp
  push %r11
  push %rcx
  push %rdi
  push %rsi
  push %rdx
  push %r10
  push %r8
  push %r9
  mov %rsp, %rdi
  mov %rax, %rsi
  cld
  call SystemCall
  pop %r9
  pop %r8
  pop %r10
  pop %rdx
  pop %rsi
  pop %rdi
  pop %rcx
  popf
  mov caller_stack, %rsp
  jmp *%rcx

// Start(entry, stack)
  .global Start
Start:
  mov %rsi, %rsp
  xor %edx, %edx
  xor %ebp, %ebp
  jmp *%rdi

  .section .note.GNU-stack, "", @progbits
