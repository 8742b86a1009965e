# One library per folder of src/, linked only against the arrows of ARCHITECTURE.md: a dependency
# that is not an arrow fails to link, because each unit test links its own module alone.

set(TWINLOG_WARNINGS -Wall -Wextra -Werror -Wshadow -Wstrict-prototypes -Wmissing-prototypes
    -Wpointer-arith -Wvla -Wundef -Wwrite-strings -Wformat=2 -Wno-unused-parameter)
# Without vectorizing of neighbouring statements: it turns the loads of two members into one wide
# load, which waits until the two stores of a moment ago are through (seen as 4 % of a Produce).
set(TWINLOG_FLAGS -fno-omit-frame-pointer -fno-common -fno-strict-aliasing
    -fno-tree-slp-vectorize -ffile-prefix-map=${CMAKE_SOURCE_DIR}/=)
if(TWINLOG_SANITIZE)
    list(APPEND TWINLOG_FLAGS -fsanitize=${TWINLOG_SANITIZE} -fno-sanitize-recover=all)
    add_link_options(-fsanitize=${TWINLOG_SANITIZE})
endif()
if(TWINLOG_COVERAGE)
    list(APPEND TWINLOG_FLAGS --coverage)
    add_link_options(--coverage)
endif()
if(TWINLOG_FUZZ)
    list(APPEND TWINLOG_FLAGS -fsanitize=fuzzer-no-link)
endif()
if(TWINLOG_FAULTS)
    add_compile_definitions(TWINLOG_FAULTS=1)
else()
    add_compile_definitions(TWINLOG_FAULTS=0)
endif()
add_compile_definitions(_GNU_SOURCE)

# twinlog_library(<module> [DEPENDS <libraries>...]): every .c of the current folder.
function(twinlog_library module)
    cmake_parse_arguments(ARG "" "" "DEPENDS;SOURCES" ${ARGN})
    file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.c)
    add_library(twinlog-${module} STATIC ${sources} ${ARG_SOURCES})
    target_include_directories(twinlog-${module}
        PUBLIC ${CMAKE_SOURCE_DIR}/include
        PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
    target_compile_options(twinlog-${module} PRIVATE ${TWINLOG_WARNINGS} ${TWINLOG_FLAGS})
    target_link_libraries(twinlog-${module} PUBLIC ${ARG_DEPENDS})
endfunction()

# twinlog_program(<name> SOURCES <files> [DEPENDS <libraries>...])
function(twinlog_program name)
    cmake_parse_arguments(ARG "" "" "DEPENDS;SOURCES" ${ARGN})
    add_executable(${name} ${ARG_SOURCES})
    target_include_directories(${name} PRIVATE ${CMAKE_SOURCE_DIR}/include)
    target_compile_options(${name} PRIVATE ${TWINLOG_WARNINGS} ${TWINLOG_FLAGS})
    target_link_libraries(${name} PRIVATE ${ARG_DEPENDS})
endfunction()

# twinlog_unit_tests(<module>): every tests/unit/<module>/test_*.c becomes a cmocka program that
# links that module alone and may see its private headers.
function(twinlog_unit_tests module)
    file(GLOB tests CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/unit/${module}/test_*.c)
    foreach(path ${tests})
        get_filename_component(name ${path} NAME_WE)
        set(target unit-${module}-${name})
        add_executable(${target} ${path})
        target_include_directories(${target} PRIVATE ${CMAKE_SOURCE_DIR}/include
            ${CMAKE_SOURCE_DIR}/src/${module} ${CMAKE_SOURCE_DIR}/tests/lib)
        target_compile_options(${target} PRIVATE ${TWINLOG_WARNINGS} ${TWINLOG_FLAGS})
        target_link_libraries(${target} PRIVATE twinlog-${module} PkgConfig::CMOCKA ${ARGN})
        add_test(NAME ${module}/${name} COMMAND ${target})
        set_tests_properties(${module}/${name} PROPERTIES TIMEOUT 120 LABELS unit)
    endforeach()
endfunction()

# twinlog_fuzz(<name> SOURCES <files> [DEPENDS <libraries>...]): the program fuzz-<name>, built in the
# fuzz preset only. Its corpus is tests/fuzz/corpus/<name>/.
function(twinlog_fuzz name)
    if(NOT TWINLOG_FUZZ)
        return()
    endif()
    twinlog_program(fuzz-${name} ${ARGN})
    target_link_options(fuzz-${name} PRIVATE -fsanitize=fuzzer)
endfunction()
