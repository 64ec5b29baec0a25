# C types of clock.py.
from libc.stdint cimport int64_t

cdef extern from *:
    """
    #include <time.h>

    static int64_t wall_clock_ms(void) {
        struct timespec now;
        timespec_get(&now, TIME_UTC);
        return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
    }
    """
    int64_t wall_clock_ms()

cpdef int64_t wall_clock() except? -1
