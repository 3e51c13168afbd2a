/** Names that the newest revision writes out in full, wherever they stand. */
const prefix = 'io.modelcontextprotocol/'

export const versionKey = `${prefix}protocolVersion`
export const capabilitiesKey = `${prefix}clientCapabilities`
export const clientInfoKey = `${prefix}clientInfo`
export const logLevelKey = `${prefix}logLevel`
export const serverInfoKey = `${prefix}serverInfo`
export const subscriptionKey = `${prefix}subscriptionId`
export const tasksExtension = `${prefix}tasks`
