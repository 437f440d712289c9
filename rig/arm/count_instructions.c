// A plugin of qemu (interface version 1, qemu 4.2 to 8) that counts the instructions which a program executes and logs
// the number at its end. The few declarations are here, as Debian has no package of qemu's header.
// use: qemu-aarch64 -plugin ./count_instructions.so -d plugin PROGRAM
#include <inttypes.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define EXPORT __attribute__((visibility("default")))

typedef uint64_t qemu_plugin_id_t;
struct qemu_plugin_tb;
struct qemu_info_t;
enum { INLINE_ADD_U64 = 0 };

void qemu_plugin_register_vcpu_tb_trans_cb(qemu_plugin_id_t, void (*)(qemu_plugin_id_t, struct qemu_plugin_tb*));
void qemu_plugin_register_vcpu_tb_exec_inline(struct qemu_plugin_tb*, int operation, void* counter, uint64_t amount);
void qemu_plugin_register_atexit_cb(qemu_plugin_id_t, void (*)(qemu_plugin_id_t, void*), void*);
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb*);
void qemu_plugin_outs(const char*);

EXPORT int qemu_plugin_version = 1;

static uint64_t instructions;

// A block is executed from its beginning to its end, but for faults.
static void on_translation(qemu_plugin_id_t id, struct qemu_plugin_tb* block) {
  (void)id;
  qemu_plugin_register_vcpu_tb_exec_inline(block, INLINE_ADD_U64, &instructions, qemu_plugin_tb_n_insns(block));
}

static void at_exit(qemu_plugin_id_t id, void* data) {
  (void)id, (void)data;
  char text[40];
  snprintf(text, sizeof text, "%" PRIu64 "\n", instructions);
  qemu_plugin_outs(text);
}

EXPORT int qemu_plugin_install(qemu_plugin_id_t id, const struct qemu_info_t* info, int argc, char** argv) {
  (void)info, (void)argc, (void)argv;
  qemu_plugin_register_vcpu_tb_trans_cb(id, on_translation);
  qemu_plugin_register_atexit_cb(id, at_exit, NULL);
  return 0;
}
