/**
 * Node's HTTP module. Importing values of `node:http` by name makes Node read all of its exports, one of which loads a
 * client for WebSockets and fetch: about 14 MiB that Espalier's processes do not use. This gives the same module
 * without that.
 */
export const { Agent, createServer, request, STATUS_CODES } = process.getBuiltinModule('node:http')
