"""Black-box tests: a real server process, real sockets, nothing imported from the server."""
