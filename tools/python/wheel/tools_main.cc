// The command-line tools in one program: runs the tool that argv[0] names.
#include <cstdio>
#include <cstring>

int index_document_main(int argc, char** argv);
int ask_document_main(int argc, char** argv);
int lectern_store_main(int argc, char** argv);
int lectern_doctor_main(int argc, char** argv);
int lectern_server_main(int argc, char** argv);

int main(int argc, char** argv) {
  constexpr struct {
    const char* name;
    int (*run)(int argc, char** argv);
  } kTools[] = {{"index-document", index_document_main},
                {"ask-document", ask_document_main},
                {"lectern-store", lectern_store_main},
                {"lectern-doctor", lectern_doctor_main},
                {"lectern-server", lectern_server_main}};
  const char* const slash = argc > 0 ? std::strrchr(argv[0], '/') : nullptr;
  const char* const name = slash ? slash + 1 : argc > 0 ? argv[0] : "";
  for (const auto& tool : kTools) {
    if (std::strcmp(name, tool.name) == 0) return tool.run(argc, argv);
  }
  std::fprintf(stderr, "lectern-tools: run as \"lectern COMMAND\", which names the tool\n");
  return 2;
}
