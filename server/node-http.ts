/**
 * Node's HTTP. To import values of `node:http` by their names has Node read all of its exports, one of which loads a whole client for WebSockets and
 * fetch: some 14 MiB that no process of ours uses. Asked for so, the module is the same, without that.
 */
export const { Agent, createServer, request, STATUS_CODES } = process.getBuiltinModule('node:http')
