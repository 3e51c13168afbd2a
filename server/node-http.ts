/**
 * Node's HTTP module. If a module imports values of `node:http` by name, Node reads all of its exports. One of them
 * loads a client for WebSockets and fetch, about 14 MiB that Espalier's processes do not use. This module avoids that.
 */
export const { Agent, createServer, request, STATUS_CODES } = process.getBuiltinModule('node:http')
