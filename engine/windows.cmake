# lectern.dll, which exports lectern_* of lectern_c.h and nothing else, and its import library
# liblectern.dll.a. Included by CMakeLists.txt. There is no static library: a relocatable object in
# which all other names are local cannot be made of COFF files.
file(STRINGS lectern_c.h declarations REGEX "^LECTERN_API ")
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS lectern_c.h)
set(exports "EXPORTS\n")
foreach(declaration ${declarations})
  if(declaration MATCHES "[ *](lectern_[a-z0-9_]+)(\\(|$)")
    string(APPEND exports "  ${CMAKE_MATCH_1}\n")
  endif()
endforeach()
set(definitions ${CMAKE_CURRENT_BINARY_DIR}/lectern.def)
file(CONFIGURE OUTPUT ${definitions} CONTENT "${exports}" @ONLY)
target_sources(lectern PRIVATE ${definitions} api/stay_loaded_windows.cc)
set_target_properties(lectern PROPERTIES PREFIX "" IMPORT_PREFIX lib LINK_DEPENDS ${definitions})
add_library(lectern::lectern ALIAS lectern)
